package identity

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/tools/port"
)

// cas is a CAS server whose answer to a validation a test writes.
type cas struct {
	name   string
	mu     sync.Mutex
	answer string
}

// answers sets what the server says to the next validations.
func (c *cas) answers(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answer = text
}

func (c *cas) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _ = io.WriteString(w, c.answer)
}

const casNamespace = ` xmlns:cas="http://www.yale.edu/tp/cas"`

func casSuccess(inner string) string {
	return `<cas:serviceResponse` + casNamespace + `><cas:authenticationSuccess>` + inner + `</cas:authenticationSuccess></cas:serviceResponse>`
}

// login logs in at the CAS server, and returns the page that its person ends on.
func (c *cas) login(t *testing.T, b *browser) *page {
	t.Helper()
	asked := b.open(t, "/oauth/login/"+c.name)
	if asked.to == nil {
		t.Fatalf("not sent to the CAS server: %d %q", asked.status, asked.heading())
	}
	back, err := url.Parse(asked.to.Query().Get("service"))
	if err != nil {
		t.Fatal(err)
	}
	v := back.Query()
	v.Set("ticket", "ST-1-"+random())
	back.RawQuery = v.Encode()
	return b.open(t, back.String(), "Sec-Fetch-Site: cross-site")
}

// S48: what readers of XML could read in different ways is no login.
func TestAnswersOfCASAreParsedStrictly(t *testing.T) {
	rule(t, "S48")
	c := &cas{}
	srv := httptest.NewServer(c)
	defer srv.Close()
	failure := `<cas:serviceResponse` + casNamespace + `><cas:authenticationFailure code="INVALID_TICKET">no</cas:authenticationFailure></cas:serviceResponse>`
	c.answers(failure)
	c.name = provide(t, "cas", "CASIdentityProvider", fmt.Sprintf("  casServerURL: %s\n", srv.URL))
	person := unique("casper")
	user := "<cas:user>" + person + "</cas:user>"
	for name, answer := range map[string]string{
		"ADocumentType":          `<!DOCTYPE x>` + casSuccess(user),
		"AnEntity":               `<!DOCTYPE x [<!ENTITY e "` + person + `">]>` + casSuccess("<cas:user>&e;</cas:user>"),
		"AFile":                  `<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/hostname">]>` + casSuccess("<cas:user>&e;</cas:user>"),
		"TwoUsers":               casSuccess(user + "<cas:user>admin</cas:user>"),
		"ACommentInTheName":      casSuccess("<cas:user>admin<!-- -->" + person + "</cas:user>"),
		"AnInstructionInTheName": casSuccess("<cas:user>admin<?x?>" + person + "</cas:user>"),
		"ElementsInTheName":      casSuccess("<cas:user>admin<cas:x/>" + person + "</cas:user>"),
		"AnotherNamespace":       strings.ReplaceAll(casSuccess(user), "http://www.yale.edu/tp/cas", "http://evil.example/cas"),
		"NoNamespace":            strings.ReplaceAll(strings.ReplaceAll(casSuccess(user), casNamespace, ""), "cas:", ""),
		"TheUserOfAnother":       casSuccess(`<x:user xmlns:x="http://evil.example">admin</x:user>`),
		"FailureAndSuccess": `<cas:serviceResponse` + casNamespace + `><cas:authenticationFailure code="X"/><cas:authenticationSuccess>` + user +
			`</cas:authenticationSuccess></cas:serviceResponse>`,
		"TwoRoots": casSuccess(user) + casSuccess("<cas:user>admin</cas:user>"),
		"SuccessWithinAFailure": `<cas:serviceResponse` + casNamespace + `><cas:authenticationFailure code="X"><cas:authenticationSuccess>` + user +
			`</cas:authenticationSuccess></cas:authenticationFailure></cas:serviceResponse>`,
		"NoUser":                   casSuccess(""),
		"AnEmptyUser":              casSuccess("<cas:user> </cas:user>"),
		"AUserInTheAttributesOnly": casSuccess("<cas:attributes>" + user + "</cas:attributes>"),
		"AFailure":                 failure,
		"NoXML":                    "yes\n" + person,
		"Nothing":                  "",
	} {
		t.Run(name, func(t *testing.T) {
			c.answers(answer)
			b := newBrowser(t)
			storesNothing(t, func() {
				if p := c.login(t, b); p.status < 400 || p.to != nil {
					t.Errorf("%d %q, sent to %v", p.status, p.heading(), p.to)
				}
			})
			b.open(t, "/oauth/account").shows(t, http.StatusOK, "Log in")
			for _, name := range []string{person, "admin-" + person} {
				if a := get(t, usersPath+"/"+name, admin(t)); a.status != http.StatusNotFound {
					t.Errorf("the account %s was made: %d", name, a.status)
				}
			}
		})
	}
	c.answers(casSuccess(user))
	t.Cleanup(func() { deleteUser(person) })
	c.login(t, newBrowser(t)).shows(t, http.StatusOK, "Your account")
}

const (
	directoryBase   = "dc=example,dc=com"
	directorySecret = "Manager-Secret-1"
)

// directory is a real slapd, and what was sent to it.
type directory struct {
	address string
	mu      sync.Mutex
	sent    bytes.Buffer
}

// Write takes what the product sends.
func (d *directory) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.sent.Write(p)
}

// received tells whether a text was sent to the directory in plain, since it was asked last.
func (d *directory) received(text string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	found := bytes.Contains(d.sent.Bytes(), []byte(text))
	d.sent.Reset()
	return found
}

// newDirectory starts slapd with one person, behind a relay that notes what passes.
func newDirectory(t *testing.T, person string) *directory {
	t.Helper()
	dir := t.TempDir()
	conf, data := filepath.Join(dir, "slapd.conf"), filepath.Join(dir, "data.ldif")
	for file, text := range map[string]string{
		conf: "include /etc/ldap/schema/core.schema\ninclude /etc/ldap/schema/cosine.schema\ninclude /etc/ldap/schema/inetorgperson.schema\n" +
			"modulepath /usr/lib/ldap\nmoduleload back_mdb.so\npidfile " + dir + "/pid\nallow bind_anon_cred bind_anon_dn\ndatabase mdb\nmaxsize 16777216\n" +
			"suffix \"" + directoryBase + "\"\nrootdn \"cn=manager," + directoryBase + "\"\nrootpw " + directorySecret + "\ndirectory " + dir + "\ndbnosync\n",
		data: fmt.Sprintf("dn: %[1]s\nobjectClass: domain\ndc: example\n\ndn: ou=people,%[1]s\nobjectClass: organizationalUnit\nou: people\n\n"+
			"dn: uid=%[2]s,ou=people,%[1]s\nobjectClass: inetOrgPerson\nuid: %[2]s\ncn: %[2]s\nsn: x\nuserPassword: %[3]s\n", directoryBase, person, password),
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.CommandContext(t.Context(), systemProgram(t, "slapadd"), "-q", "-f", conf, "-l", data).CombinedOutput(); err != nil {
		t.Fatalf("slapadd: %v\n%s", err, out)
	}
	behind := net.JoinHostPort("127.0.0.1", reservedPort(t))
	cmd := exec.Command(systemProgram(t, "slapd"), "-d", "0", "-f", conf, "-h", "ldap://"+behind+"/")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
	})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	d := &directory{address: ln.Addr().String()}
	go d.relay(ln, behind)
	return d
}

func (d *directory) relay(ln net.Listener, behind string) {
	for {
		in, err := ln.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", behind)
		if err != nil {
			_ = in.Close()
			continue
		}
		go func() {
			_, _ = io.Copy(io.MultiWriter(d, out), in) // noted before it can be answered
			_ = out.Close()
		}()
		go func() {
			_, _ = io.Copy(in, out)
			_ = in.Close()
		}()
	}
}

// reservedPort returns the port of a server that is told it.
func reservedPort(t *testing.T) string {
	t.Helper()
	p, err := port.Reserve()
	if err != nil {
		t.Fatal(err)
	}
	return strconv.Itoa(p)
}

func systemProgram(t *testing.T, name string) string {
	t.Helper()
	for _, dir := range append(filepath.SplitList(os.Getenv("PATH")), "/usr/sbin") {
		path := filepath.Join(dir, name)
		if st, err := os.Stat(path); err == nil && !st.IsDir() && st.Mode()&0o111 != 0 {
			return path
		}
	}
	t.Fatalf("%s is not there: install Debian's package slapd (make test does)", name)
	return ""
}

// S46: a directory is asked for one person, with a password; what he types is no part of a filter or of a name; and nothing that is secret
// leaves before TLS where TLS was asked for.
func TestDirectoriesAreNotTricked(t *testing.T) {
	rule(t, "S46")
	person := unique("person")
	d := newDirectory(t, person)
	settings := fmt.Sprintf("  host: %s\n  readTimeout: 5000\n  managerDN: cn=manager,%s\n  managerPassword: %s\n  userSearchBase: ou=people,%s\n",
		d.address, directoryBase, directorySecret, directoryBase)
	plain := provide(t, "corp", "LDAPIdentityProvider", settings)
	t.Cleanup(func() { deleteUser(person) })
	login := func(t *testing.T, provider, name, pass string) answer {
		t.Helper()
		return console.token(t, "grant_type", "password", "provider", provider, "username", name, "password", pass)
	}
	var good tokens
	eventually(t, "slapd answers", func(context.Context) error {
		a := login(t, plain, person, password)
		if a.status != http.StatusOK {
			return fmt.Errorf("%d %s", a.status, clip(a.body))
		}
		good = a.tokens(t)
		return nil
	})
	alive(t, good.Access)
	if !d.received(password) {
		t.Error("the relay does not see what is sent")
	}
	for name, try := range map[string][2]string{
		"AllNames": {"*", password}, "AFilter": {"*)(uid=*", password}, "AnotherFilter": {person + ")(objectClass=*", password},
		"AnEscape": {`\2a`, password}, "AZeroByte": {person + "\x00", password}, "AnEscapedZeroByte": {person + `\00`, password},
		"ADistinguishedName": {"uid=" + person + ",ou=people," + directoryBase, password}, "APartOfAName": {person + ",ou=people", password},
		"AnotherAttribute": {person + "+cn=x", password}, "TheManager": {"cn=manager", directorySecret},
		"WrongPassword": {person, "wrong"}, "NoPassword": {person, ""}, "AZeroPassword": {person, "\x00"}, "Blanks": {person, "   "},
	} {
		t.Run(name, func(t *testing.T) {
			storesNothing(t, func() {
				if a := login(t, plain, try[0], try[1]); a.status != http.StatusBadRequest && a.status != http.StatusTooManyRequests {
					t.Errorf("%d %s", a.status, clip(a.body))
				}
			})
		})
	}
	t.Run("AnEmptyPasswordNeverGetsThere", func(t *testing.T) {
		d.received("")
		b := newBrowser(t)
		f := b.open(t, "/oauth/login").form(t, url.Values{"username": {}}).fields
		f.Set("username", person)
		f.Set("provider", plain)
		f.Set("password", "")
		if p := b.post(t, "/oauth/login", f, "Sec-Fetch-Site: same-origin"); p.status < 400 {
			t.Errorf("%d %q", p.status, p.heading())
		}
		if d.received("uid=" + person + ",") {
			t.Error("the directory was asked to bind as the person")
		}
	})
	t.Run("NothingIsSecretBeforeTLS", func(t *testing.T) {
		started := provide(t, "corp", "LDAPIdentityProvider", settings+"  startTLS: true\n")
		d.received("")
		a := login(t, started, person, password)
		if a.status != http.StatusServiceUnavailable || a.field("error") != "temporarily_unavailable" {
			t.Errorf("%d %s", a.status, clip(a.body))
		}
		if d.received(directorySecret) || d.received(password) {
			t.Error("a password was sent in plain, where StartTLS was asked for")
		}
	})
}

func deleteUser(name string) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_, _ = try(ctx, http.MethodDelete, issuer+usersPath+"/"+name, nil, bearer(administrator)...)
}
