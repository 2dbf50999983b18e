package main

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	clientauthv1 "k8s.io/client-go/pkg/apis/clientauthentication/v1"
	"k8s.io/client-go/tools/clientcmd"

	"kapis.dev/ks-apiserver/pkg/login"
)

// desk is a machine with the program, and a server that approves devices at once.
type desk struct {
	*program
	t         *testing.T
	server    *httptest.Server
	out, told bytes.Buffer
	vars      map[string]string
	ca        string

	mu     sync.Mutex
	logins int
	over   bool
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{t: t, vars: map[string]string{}}
	home := t.TempDir()
	t.Setenv("KUBECONFIG", filepath.Join(home, "config"))
	d.program = &program{out: &d.out, tell: &d.told, env: func(name string) string { return d.vars[name] },
		cacheDir: func() (string, error) { return filepath.Join(home, "cache"), nil }, now: time.Now,
		open: func(context.Context, string) error { t.Error("a browser was opened"); return nil }}
	d.server = httptest.NewUnstartedServer(d)
	d.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	d.server.StartTLS()
	t.Cleanup(d.server.Close)
	d.ca = filepath.Join(home, "ca.crt")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: d.server.Certificate().Raw})
	if err := os.WriteFile(d.ca, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return d
}

func (d *desk) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	at := d.server.URL
	out := map[string]any{}
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		out = map[string]any{"issuer": at, "token_endpoint": at + "/token", "device_authorization_endpoint": at + "/device",
			"userinfo_endpoint": at + "/userinfo", "revocation_endpoint": at + "/revoke"}
	case "/device":
		out = map[string]any{"device_code": "d", "user_code": "BCDF", "verification_uri": at + "/verify", "expires_in": 60, "interval": 1}
	case "/token":
		d.logins++
		out = map[string]any{"access_token": "the-access-token", "token_type": "Bearer", "expires_in": 3600, "refresh_token": "r"}
	case "/userinfo":
		if d.over {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		out = map[string]any{"sub": "uid", "preferred_username": "alice", "groups": []string{"dev", "ops"}}
	case "/revoke":
		d.over = true
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(out)
}

// run runs a command, and returns its output.
func (d *desk) run(args ...string) (string, error) {
	d.t.Helper()
	d.out.Reset()
	d.told.Reset()
	cmd := d.command()
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(d.t.Context())
	return d.out.String(), err
}

func (d *desk) must(args ...string) string {
	d.t.Helper()
	out, err := d.run(args...)
	if err != nil {
		d.t.Fatalf("%v: %v\n%s", args, err, d.told.String())
	}
	return out
}

// asked returns the request in the form that kubectl sends.
func (d *desk) asked(interactive bool) string {
	in := clientauthv1.ExecCredential{Spec: clientauthv1.ExecCredentialSpec{Interactive: interactive}}
	in.APIVersion, in.Kind = "client.authentication.k8s.io/v1", "ExecCredential"
	ca, err := os.ReadFile(d.ca)
	if err != nil {
		d.t.Fatal(err)
	}
	in.Spec.Cluster = &clientauthv1.Cluster{Server: d.server.URL, CertificateAuthorityData: ca}
	text, err := json.Marshal(in)
	if err != nil {
		d.t.Fatal(err)
	}
	return string(text)
}

func TestKubectlIsGivenACredentialAndNothingElse(t *testing.T) {
	d := newDesk(t)
	d.vars[execInfo] = d.asked(false)
	token := []string{"token", "--issuer-url=" + d.server.URL, "--scopes=profile"}
	if out, err := d.run(token...); err == nil || out != "" || !strings.Contains(err.Error(), "run `kubectl ks login`") {
		t.Errorf("with nobody to ask: %q, %v", out, err)
	}
	out := d.must(append(token, "--device")...)
	var got clientauthv1.ExecCredential
	if err := json.Unmarshal([]byte(out), &got); err != nil || strings.Count(out, "\n") != 1 {
		t.Fatalf("%s, %v", out, err)
	}
	if got.APIVersion != "client.authentication.k8s.io/v1" || got.Kind != "ExecCredential" || got.Status.Token != "the-access-token" ||
		got.Status.ExpirationTimestamp == nil || time.Until(got.Status.ExpirationTimestamp.Time) < 50*time.Minute {
		t.Errorf("%s", out)
	}
	if said := d.told.String(); !strings.Contains(said, d.server.URL+"/verify") || !strings.Contains(said, "BCDF") || strings.Contains(said, "the-access-token") {
		t.Errorf("the person is told %q", said)
	}
	d.server.Close() // the next call needs no server
	if again := d.must(token...); again != out {
		t.Errorf("%s, and before %s", again, out)
	}
	if _, err := d.run(append(token, "--id-token")...); err == nil {
		t.Error("an ID token came from nowhere")
	}
}

func TestWhatKubectlAsksForIsChecked(t *testing.T) {
	d := newDesk(t)
	for name, c := range map[string]struct{ info, says string }{
		"AnOlderVersion": {`{"apiVersion":"client.authentication.k8s.io/v1beta1","kind":"ExecCredential"}`, "v1beta1"},
		"AnotherKind":    {`{"apiVersion":"client.authentication.k8s.io/v1","kind":"Pod"}`, "Pod"},
		"NoJSON":         {`{`, execInfo},
	} {
		t.Run(name, func(t *testing.T) {
			d.vars[execInfo] = c.info
			if out, err := d.run("token", "--issuer-url="+d.server.URL); err == nil || out != "" || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%q, %v", out, err)
			}
		})
	}
}

func TestWaysToAsk(t *testing.T) {
	desktop := map[string]string{"BROWSER": "firefox"}
	for name, c := range map[string]struct {
		vars                      map[string]string
		device, interactive, read bool
		want                      login.Way
	}{
		"AtADesktop":             {desktop, false, true, true, login.Browser},
		"WithoutADisplay":        {nil, false, true, true, login.Device},
		"OverSSH":                {map[string]string{"SSH_CONNECTION": "x", "DISPLAY": ":10"}, false, true, true, login.Device},
		"ByDeviceWhereAskedFor":  {desktop, true, true, true, login.Device},
		"WithoutStandardInput":   {desktop, false, false, true, login.Device},
		"InAScript":              {desktop, false, false, false, login.Nobody},
		"InAScriptThatSaysHow":   {nil, true, false, false, login.Device},
		"InteractiveWithoutALog": {desktop, false, true, false, login.Browser},
	} {
		t.Run(name, func(t *testing.T) {
			p := program{env: func(n string) string { return c.vars[n] }, read: c.read}
			if got := p.way(c.device, c.interactive); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestAKubeconfigIsMadeAndUsed(t *testing.T) {
	d := newDesk(t)
	file := os.Getenv("KUBECONFIG")
	const before = `{"apiVersion":"v1","kind":"Config","current-context":"old","contexts":[{"name":"old","context":{"cluster":"old","user":"old"}}],` +
		`"clusters":[{"name":"old","cluster":{"server":"https://old"}}],"users":[{"name":"old","user":{"token":"kept"}}]}`
	if err := os.WriteFile(file, []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := d.run("login"); err == nil || !strings.Contains(err.Error(), "does not log in with kubectl-ks") {
		t.Errorf("another context: %v", err)
	}
	d.must("kubeconfig", "--server", d.server.URL+"/", "--certificate-authority", d.ca)
	c, err := clientcmd.LoadFromFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if c.CurrentContext == "old" || c.AuthInfos["old"].Token != "kept" || len(c.Contexts) != 2 {
		t.Errorf("%+v", c)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}

	if _, err := d.run("whoami"); err == nil || !strings.Contains(err.Error(), "not logged in") {
		t.Errorf("whoami before: %v", err)
	}
	d.must("login", "--device", "--scopes=profile") // the kubeconfig's own scopes are used, which include no ID token here
	if !strings.Contains(d.told.String(), " as alice.") {
		t.Errorf("told: %s", d.told.String())
	}
	if out := d.must("whoami"); out != "user: alice\ngroup: dev\ngroup: ops\n" {
		t.Errorf("whoami: %s", out)
	}
	d.must("login")
	if d.logins != 1 {
		t.Errorf("%d logins", d.logins)
	}
	d.must("logout")
	if _, err := d.run("whoami"); err == nil || !d.over {
		t.Errorf("whoami afterwards: %v, revoked %v", err, d.over)
	}
	if _, err := d.run("login", "--context", "nope"); err == nil || !strings.Contains(err.Error(), `no context "nope"`) {
		t.Errorf("another context: %v", err)
	}
}

func TestAKubeconfigIsPrinted(t *testing.T) {
	d := newDesk(t)
	out := d.must("kubeconfig", "--server", d.server.URL, "--issuer-url", "https://login.example.com", "--context", "dev", "--username", "bob", "--print")
	c, err := clientcmd.Load([]byte(out))
	if err != nil || c.AuthInfos["bob@dev"] == nil {
		t.Errorf("%s, %v", out, err)
	}
	if _, err := os.Stat(os.Getenv("KUBECONFIG")); err == nil {
		t.Error("a file was written")
	}
}

func TestWhatIsNotSafeIsRefused(t *testing.T) {
	d := newDesk(t)
	notPEM := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(notPEM, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"PlainHTTP":             {[]string{"kubeconfig", "--server", "http://ks.example.com"}, "https"},
		"InsecureElsewhere":     {[]string{"kubeconfig", "--server", "https://ks.example.com", "--insecure-skip-tls-verify"}, "has to be verified"},
		"AnUnknownAuthority":    {[]string{"kubeconfig", "--server", d.server.URL}, "certificate"},
		"NoServer":              {[]string{"kubeconfig"}, "server"},
		"NoSuchFile":            {[]string{"token", "--issuer-url", d.server.URL, "--certificate-authority", "/none"}, "/none"},
		"NotACertificate":       {[]string{"token", "--issuer-url", d.server.URL, "--certificate-authority", notPEM}, "no PEM"},
		"NotACertificateInline": {[]string{"token", "--issuer-url", d.server.URL, "--certificate-authority-data", "eA=="}, "no PEM"},
		"ATokenInsecurely":      {[]string{"token", "--issuer-url", "https://ks.example.com", "--insecure-skip-tls-verify"}, "has to be verified"},
		"NoIssuer":              {[]string{"token"}, "--issuer-url"},
		"AnArgument":            {[]string{"whoami", "x"}, "x"},
		"ListeningToTheWorld":   {[]string{"token", "--issuer-url", d.server.URL, "--listen", "0.0.0.0:0"}, "loopback"},
	} {
		t.Run(name, func(t *testing.T) {
			if out, err := d.run(c.args...); err == nil || out != "" || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%q, %v; want %q in it", out, err, c.says)
			}
		})
	}
	if out := d.must("version"); !strings.Contains(out, "gitVersion") {
		t.Errorf("version: %s", out)
	}
}
