// Package slapd starts real OpenLDAP servers, those of Debian, for end-to-end tests.
package slapd

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/tools/port"
)

const (
	// Base is the root of the directory: people are below ou=people, groups below ou=groups.
	Base = "dc=example,dc=com"
	// Secret is the password of the manager, with which the product searches.
	Secret = "Manager-Secret-1"
	// Password is the initial password of each person.
	Password = "Secret-123"

	manager = "cn=manager," + Base
	// patience bounds the start of a server.
	patience = 3 * time.Minute
)

// Server is a running slapd with some people and groups. It ends with the test.
type Server struct {
	t    *testing.T
	dir  string
	port int
	cmd  *exec.Cmd
}

// program finds a program, also in Debian's folders of administrators' programs.
func program(t *testing.T, name string) string {
	t.Helper()
	for _, dir := range append(filepath.SplitList(os.Getenv("PATH")), "/usr/sbin") {
		path := filepath.Join(dir, name)
		if st, err := os.Stat(path); err == nil && !st.IsDir() && st.Mode()&0o111 != 0 {
			return path
		}
	}
	t.Fatalf("%s is not there: install Debian's packages slapd and ldap-utils (make test does)", name)
	return ""
}

// New starts a server with these people; the group of each name in groups has all of them.
func New(t *testing.T, people, groups []string) *Server {
	t.Helper()
	l := &Server{t: t, dir: t.TempDir()}
	var err error
	if l.port, err = port.Reserve(); err != nil {
		t.Fatal(err)
	}
	var data strings.Builder
	fmt.Fprintf(&data, "dn: %[1]s\nobjectClass: domain\ndc: example\n\ndn: ou=people,%[1]s\nobjectClass: organizationalUnit\nou: people\n\n"+
		"dn: ou=groups,%[1]s\nobjectClass: organizationalUnit\nou: groups\n\n", Base)
	for _, p := range people {
		fmt.Fprintf(&data, "dn: uid=%s,ou=people,%s\nobjectClass: inetOrgPerson\nuid: %s\ncn: %s\nsn: x\nuserPassword: %s\n\n", p, Base, p, p,
			Password)
	}
	for _, g := range groups {
		fmt.Fprintf(&data, "dn: cn=%s,ou=groups,%s\nobjectClass: groupOfNames\ncn: %s\n", g, Base, g)
		for _, p := range people {
			fmt.Fprintf(&data, "member: uid=%s,ou=people,%s\n", p, Base)
		}
		data.WriteString("\n")
	}
	for name, text := range map[string]string{"data.ldif": data.String(),
		"slapd.conf": "include /etc/ldap/schema/core.schema\ninclude /etc/ldap/schema/cosine.schema\n" +
			"include /etc/ldap/schema/inetorgperson.schema\nmodulepath /usr/lib/ldap\nmoduleload back_mdb.so\npidfile " + l.dir +
			"/pid\ndatabase mdb\nmaxsize 16777216\n" +
			"suffix \"" + Base + "\"\nrootdn \"" + manager + "\"\nrootpw " + Secret + "\ndirectory " + l.dir + "\ndbnosync\n"} {
		if err := os.WriteFile(filepath.Join(l.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.CommandContext(t.Context(), program(t, "slapadd"), "-q", "-f", filepath.Join(l.dir, "slapd.conf"), "-l",
		filepath.Join(l.dir, "data.ldif")).CombinedOutput()
	if err != nil {
		t.Fatalf("slapadd: %v\n%s", err, out)
	}
	l.Start()
	t.Cleanup(l.Stop)
	return l
}

// Start starts a server that was stopped, at its former address.
func (l *Server) Start() {
	l.t.Helper()
	l.cmd = exec.Command(program(l.t, "slapd"), "-d", "0", "-f", filepath.Join(l.dir, "slapd.conf"), "-h", fmt.Sprintf("ldap://127.0.0.1:%d/", l.port)) //nolint:noctx // ended in order by Stop
	if err := l.cmd.Start(); err != nil {
		l.t.Fatal(err)
	}
	deadline := time.Now().Add(patience)
	for {
		c, err := (&net.Dialer{}).DialContext(l.t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", l.port))
		if err == nil {
			_ = c.Close()
			return
		}
		if time.Now().After(deadline) {
			l.t.Fatalf("slapd does not answer: %v", err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// Stop ends the server: its address refuses connections.
func (l *Server) Stop() {
	if l.cmd != nil {
		_ = l.cmd.Process.Signal(os.Interrupt)
		_ = l.cmd.Wait()
		l.cmd = nil
	}
}

// Modify changes the directory, by LDIF.
func (l *Server) Modify(ldif string) {
	l.t.Helper()
	cmd := exec.CommandContext(l.t.Context(), program(l.t, "ldapmodify"), "-x", "-H", fmt.Sprintf("ldap://127.0.0.1:%d", l.port), "-D",
		manager, "-w", Secret)
	cmd.Stdin = strings.NewReader(ldif)
	if out, err := cmd.CombinedOutput(); err != nil {
		l.t.Fatalf("ldapmodify: %v\n%s", err, out)
	}
}

// Configuration returns the configuration of a provider for the server; more are keys below provider.
func (l *Server) Configuration(name string, more ...string) string {
	s := fmt.Sprintf("name: %s\ntype: LDAPIdentityProvider\nmappingMethod: auto\nprovider:\n  host: 127.0.0.1:%d\n  readTimeout: 5000\n  managerDN: %s\n  managerPassword: %s\n"+
		"  userSearchBase: ou=people,%s\n  groupSearchBase: ou=groups,%s\n", name, l.port, manager, Secret, Base, Base)
	for _, line := range more {
		s += "  " + line + "\n"
	}
	return s
}
