package e2e

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const (
	ldapBase     = "dc=example,dc=com"
	ldapManager  = "cn=manager," + ldapBase
	ldapSecret   = "Manager-Secret-1"
	ldapPassword = "Secret-123"
)

// ldapServer is a real slapd with some people and groups.
type ldapServer struct {
	t    *testing.T
	dir  string
	port int
	cmd  *exec.Cmd
}

func systemProgram(t *testing.T, name string) string {
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

// newLDAP starts a slapd with these people; the group of each name in groups has all of them.
func newLDAP(t *testing.T, people, groups []string) *ldapServer {
	t.Helper()
	l := &ldapServer{t: t, dir: t.TempDir()}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.port = ln.Addr().(*net.TCPAddr).Port
	_ = ln.Close()
	var data strings.Builder
	fmt.Fprintf(&data, "dn: %[1]s\nobjectClass: domain\ndc: example\n\ndn: ou=people,%[1]s\nobjectClass: organizationalUnit\nou: people\n\n"+
		"dn: ou=groups,%[1]s\nobjectClass: organizationalUnit\nou: groups\n\n", ldapBase)
	for _, p := range people {
		fmt.Fprintf(&data, "dn: uid=%s,ou=people,%s\nobjectClass: inetOrgPerson\nuid: %s\ncn: %s\nsn: x\nuserPassword: %s\n\n", p, ldapBase, p, p, ldapPassword)
	}
	for _, g := range groups {
		fmt.Fprintf(&data, "dn: cn=%s,ou=groups,%s\nobjectClass: groupOfNames\ncn: %s\n", g, ldapBase, g)
		for _, p := range people {
			fmt.Fprintf(&data, "member: uid=%s,ou=people,%s\n", p, ldapBase)
		}
		data.WriteString("\n")
	}
	for name, text := range map[string]string{"data.ldif": data.String(), "slapd.conf": "include /etc/ldap/schema/core.schema\ninclude /etc/ldap/schema/cosine.schema\n" +
		"include /etc/ldap/schema/inetorgperson.schema\nmodulepath /usr/lib/ldap\nmoduleload back_mdb.so\npidfile " + l.dir + "/pid\ndatabase mdb\nmaxsize 16777216\n" +
		"suffix \"" + ldapBase + "\"\nrootdn \"" + ldapManager + "\"\nrootpw " + ldapSecret + "\ndirectory " + l.dir + "\ndbnosync\n"} {
		if err := os.WriteFile(filepath.Join(l.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.CommandContext(t.Context(), systemProgram(t, "slapadd"), "-q", "-f", filepath.Join(l.dir, "slapd.conf"), "-l", filepath.Join(l.dir, "data.ldif")).CombinedOutput()
	if err != nil {
		t.Fatalf("slapadd: %v\n%s", err, out)
	}
	l.start()
	t.Cleanup(l.stop)
	return l
}

func (l *ldapServer) start() {
	l.t.Helper()
	l.cmd = exec.Command(systemProgram(l.t, "slapd"), "-d", "0", "-f", filepath.Join(l.dir, "slapd.conf"), "-h", fmt.Sprintf("ldap://127.0.0.1:%d/", l.port))
	if err := l.cmd.Start(); err != nil {
		l.t.Fatal(err)
	}
	deadline := time.Now().Add(patience)
	for {
		c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", l.port))
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

func (l *ldapServer) stop() {
	if l.cmd != nil {
		_ = l.cmd.Process.Signal(os.Interrupt)
		_ = l.cmd.Wait()
		l.cmd = nil
	}
}

func (l *ldapServer) modify(ldif string) {
	l.t.Helper()
	cmd := exec.CommandContext(l.t.Context(), systemProgram(l.t, "ldapmodify"), "-x", "-H", fmt.Sprintf("ldap://127.0.0.1:%d", l.port), "-D", ldapManager, "-w", ldapSecret)
	cmd.Stdin = strings.NewReader(ldif)
	if out, err := cmd.CombinedOutput(); err != nil {
		l.t.Fatalf("ldapmodify: %v\n%s", err, out)
	}
}

// configuration is that of a provider for it; more are keys below provider.
func (l *ldapServer) configuration(name string, more ...string) string {
	s := fmt.Sprintf("name: %s\ntype: LDAPIdentityProvider\nmappingMethod: auto\nprovider:\n  host: 127.0.0.1:%d\n  readTimeout: 5000\n  managerDN: %s\n  managerPassword: %s\n"+
		"  userSearchBase: ou=people,%s\n  groupSearchBase: ou=groups,%s\n", name, l.port, ldapManager, ldapSecret, ldapBase, ldapBase)
	for _, line := range more {
		s += "  " + line + "\n"
	}
	return s
}
