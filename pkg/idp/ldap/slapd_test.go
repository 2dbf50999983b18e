package ldap

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/idp"
	"kapis.dev/ks-apiserver/tools/port"
)

const (
	base     = "dc=example,dc=com"
	people   = "ou=people," + base
	groups   = "ou=groups," + base
	manager  = "cn=manager," + base
	managers = "Manager-Secret-1"
	password = "Secret-123"
)

// directory is a real slapd process.
type directory struct {
	t          *testing.T
	dir        string
	plain, tls int // ports
	ca         string
	cmd        *exec.Cmd
	forwarded  atomic.Int64 // connections through its forwarder
}

func program(t *testing.T, name string) string {
	t.Helper()
	for _, dir := range append(filepath.SplitList(os.Getenv("PATH")), "/usr/sbin") {
		if path := filepath.Join(dir, name); isExecutable(path) {
			return path
		}
	}
	t.Fatalf("%s is not there: install Debian's package slapd (make test does)", name)
	return ""
}

func isExecutable(path string) bool {
	st, err := os.Stat(path)
	return err == nil && !st.IsDir() && st.Mode()&0o111 != 0
}

// slapd starts a directory with these entries, as LDIF, below the usual ones.
func slapd(t *testing.T, ldif string) *directory {
	t.Helper()
	d := &directory{t: t, dir: t.TempDir(), plain: reservedPort(t), tls: reservedPort(t)}
	d.certify()
	if err := os.Mkdir(filepath.Join(d.dir, "db"), 0o700); err != nil {
		t.Fatal(err)
	}
	d.write("slapd.conf", `
include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/nis.schema
include /etc/ldap/schema/inetorgperson.schema
modulepath /usr/lib/ldap
moduleload back_mdb.so
moduleload memberof.so
moduleload ppolicy.so
pidfile `+d.dir+`/pid
argsfile `+d.dir+`/args
TLSCACertificateFile `+d.dir+`/ca.pem
TLSCertificateFile `+d.dir+`/cert.pem
TLSCertificateKeyFile `+d.dir+`/key.pem
allow bind_anon_dn
database mdb
maxsize 268435456
suffix "`+base+`"
rootdn "`+manager+`"
rootpw `+managers+`
directory `+d.dir+`/db
dbnosync
index uid,cn,member,memberUid,entryUUID eq
index objectClass eq
sizelimit size.soft=300 size.hard=300 size.prtotal=unlimited
overlay memberof
overlay ppolicy
access to attrs=userPassword by anonymous auth by * none
access to * by * read
`)
	d.write("data.ldif", `dn: `+base+`
objectClass: domain
dc: example

dn: `+people+`
objectClass: organizationalUnit
ou: people

dn: `+groups+`
objectClass: organizationalUnit
ou: groups

`+ldif)
	out, err := exec.CommandContext(t.Context(), program(t, "slapadd"), "-q", "-f", d.path("slapd.conf"), "-l", d.path("data.ldif")).CombinedOutput()
	if err != nil {
		t.Fatalf("slapadd: %v\n%s", err, out)
	}
	d.start()
	t.Cleanup(d.stop)
	return d
}

func (d *directory) path(name string) string { return filepath.Join(d.dir, name) }

func (d *directory) write(name, text string) {
	d.t.Helper()
	if err := os.WriteFile(d.path(name), []byte(text), 0o600); err != nil {
		d.t.Fatal(err)
	}
}

func (d *directory) start() {
	d.t.Helper()
	d.serve([]int{d.plain, d.tls}, fmt.Sprintf("ldap://127.0.0.1:%d/ ldaps://127.0.0.1:%d/", d.plain, d.tls))
}

// startPlain starts it without TLS.
func (d *directory) startPlain() {
	d.t.Helper()
	d.serve([]int{d.plain}, fmt.Sprintf("ldap://127.0.0.1:%d/", d.plain))
}

func withoutTLS(t *testing.T, d *directory) string {
	t.Helper()
	raw, err := os.ReadFile(d.path("slapd.conf"))
	if err != nil {
		t.Fatal(err)
	}
	var kept []string
	for line := range strings.Lines(string(raw)) {
		if !strings.HasPrefix(line, "TLS") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}

func (d *directory) serve(ports []int, urls string) {
	d.t.Helper()
	d.cmd = exec.Command(program(d.t, "slapd"), "-d", "0", "-f", d.path("slapd.conf"), "-h", urls)
	if err := d.cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	deadline := time.Now().Add(2 * time.Minute)
	for _, port := range ports {
		for {
			c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
			if err == nil {
				c.Close()
				break
			}
			if time.Now().After(deadline) {
				d.t.Fatalf("slapd does not answer: %v", err)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
}

func (d *directory) stop() {
	if d.cmd == nil {
		return
	}
	_ = d.cmd.Process.Signal(os.Interrupt)
	_ = d.cmd.Wait()
	d.cmd = nil
}

// modify changes entries, as the manager.
func (d *directory) modify(ldif string) {
	d.t.Helper()
	cmd := exec.CommandContext(
		d.t.Context(),
		program(d.t, "ldapmodify"),
		"-x",
		"-H",
		fmt.Sprintf("ldap://127.0.0.1:%d", d.plain),
		"-D",
		manager,
		"-w",
		managers,
		"-M",
	)
	cmd.Stdin = strings.NewReader(ldif)
	if out, err := cmd.CombinedOutput(); err != nil {
		d.t.Fatalf("ldapmodify: %v\n%s", err, out)
	}
}

// forward returns an address that leads to the directory, and counts the connections.
func (d *directory) forward() string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			in, err := ln.Accept()
			if err != nil {
				return
			}
			d.forwarded.Add(1)
			go pipe(in, fmt.Sprintf("127.0.0.1:%d", d.plain))
		}
	}()
	return ln.Addr().String()
}

func pipe(in net.Conn, to string) {
	defer in.Close()
	out, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer out.Close()
	done := make(chan struct{}, 2)
	for _, p := range [][2]net.Conn{{in, out}, {out, in}} {
		go func() {
			_, _ = p[0].(*net.TCPConn).ReadFrom(p[1])
			done <- struct{}{}
		}()
	}
	<-done
}

// settings returns settings for the plain port, without TLS, and with additional lines.
func (d *directory) settings(more ...string) string {
	return strings.Join(append([]string{
		fmt.Sprintf("host: 127.0.0.1:%d", d.plain), "managerDN: " + manager, "managerPassword: " + managers, "userSearchBase: " + people,
	}, more...), "\n") + "\n"
}

func (d *directory) secure(scheme string, port int, more ...string) string {
	return strings.Join(append([]string{
		fmt.Sprintf("host: %s://127.0.0.1:%d", scheme, port), "managerDN: " + manager, "managerPassword: " + managers, "userSearchBase: " + people,
	}, more...), "\n") + "\n"
}

func opened(t *testing.T, settings string) *Provider {
	t.Helper()
	p, err := open([]byte(settings), idp.OpenOptions{Name: "corp", AllowLoopback: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.(*Provider).Close() })
	return p.(*Provider)
}

func reservedPort(t *testing.T) int {
	t.Helper()
	p, err := port.Reserve()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// certify generates an authority, and the server's certificate.
func (d *directory) certify() {
	caKey, key := newKey(d.t), newKey(d.t)
	authority := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "slapd"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	d.ca = encode(d.t, authority, authority, caKey, caKey)
	d.write("ca.pem", d.ca)
	d.write("cert.pem", encode(d.t, leaf, authority, key, caKey))
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		d.t.Fatal(err)
	}
	d.write("key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})))
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func encode(t *testing.T, c, parent *x509.Certificate, key, signer *ecdsa.PrivateKey) string {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// person returns an entry with the usual password.
func person(uid string) string {
	return fmt.Sprintf(
		"dn: uid=%s,%s\nobjectClass: inetOrgPerson\nuid: %s\ncn: %s\nsn: %s\nmail: %s@example.com\nuserPassword: %s\n\n",
		uid,
		people,
		uid,
		strings.ToUpper(uid),
		uid,
		uid,
		password,
	)
}

// group returns an entry with members, given as DNs.
func group(name string, members ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "dn: cn=%s,%s\nobjectClass: groupOfNames\ncn: %s\n", name, groups, name)
	for _, m := range members {
		fmt.Fprintf(&b, "member: %s\n", m)
	}
	return b.String() + "\n"
}

func dn(uid string) string             { return "uid=" + uid + "," + people }
func groupDN(cn string) string         { return "cn=" + cn + "," + groups }
func ctx(t *testing.T) context.Context { return t.Context() }
