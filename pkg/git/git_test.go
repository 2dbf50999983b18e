package git

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/egress/egresstest"
)

// canary is the right password. It must not show in an error.
const canary = "canary-password"

var (
	ann   = Account{"ann", canary}
	quiet = log.New(io.Discard, "", 0)
)

// server is Git's own, over repositories app.git (for ann) and open.git (for anyone).
func server(t *testing.T) *httptest.Server {
	t.Helper()
	root := t.TempDir()
	for _, name := range []string{"app.git", "open.git"} {
		run(t, "init", "--quiet", "--bare", filepath.Join(root, name))
	}
	backend := &cgi.Handler{
		Path: filepath.Join(run(t, "--exec-path"), "git-http-backend"), Stderr: io.Discard,
		Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1"},
	}
	mux := http.NewServeMux()
	mux.Handle("/open.git/", backend)
	mux.Handle("/", egresstest.BasicAuth(ann.Username, ann.Password, backend))
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	return srv
}

func run(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git %v: %v", args, err)
	}
	return strings.TrimSpace(string(out))
}

func client(t *testing.T, o Options) *Client {
	c := New(o)
	t.Cleanup(c.CloseIdleConnections)
	return c
}

// is checks an error: its code, words in it, and that it shows no secret.
func is(t *testing.T, err error, code int, words string) {
	t.Helper()
	egresstest.CheckError(t, err, code, words, canary, "internal-answer")
}

func TestARepositoryIsAskedFor(t *testing.T) {
	srv := server(t)
	c := client(t, Options{AllowLoopback: true})
	for _, r := range []struct {
		name, path string
		who        Account
		code       int
		words      string
	}{
		{"WithTheRightAccount", "/app.git", ann, 0, ""},
		{"WithASlash", "/app.git/", ann, 0, ""},
		{"WithoutAnAccount", "/open.git", Account{}, 0, ""},
		{"WithAnAccountThatItDoesNotNeed", "/open.git", ann, 0, ""},
		{"WithAWrongPassword", "/app.git", Account{"ann", canary + "x"}, 400, "refuses the credentials"},
		{"WithNobody", "/app.git", Account{}, 400, "refuses the credentials"},
		{"ThatIsNotThere", "/none.git", ann, 404, "no such repository"},
	} {
		t.Run(r.name, func(t *testing.T) { is(t, c.Verify(t.Context(), srv.URL+r.path, r.who), r.code, r.words) })
	}
}

func TestWhatIsNoRepositoryIsRefused(t *testing.T) {
	for address, words := range map[string]string{
		"":                        "not an https URL",
		"git.example.com/app":     "not an https URL",
		"file:///etc":             "not an https URL",
		"https://":                "not an https URL",
		"https:///app":            "not an https URL",
		"https://h/\x7f" + canary: "not an https URL",
		"https://h/" + strings.Repeat("x", maxURL): "not an https URL",
		"git@github.com:team/app.git":              "SSH",
		"ssh://git@github.com/app.git":             "SSH",
		"https://ann:" + canary + "@h/app":         "credentials in it",
		"https://h/app?x=" + canary:                "query",
		"https://h/app#x":                          "fragment",
	} {
		is(t, New(Options{AllowLoopback: true}).Verify(t.Context(), address, ann), 400, words)
	}
}

func TestUsersDoNotReachThisMachineOrMetadata(t *testing.T) { // S20
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { t.Errorf("%s was asked for", r.URL) }))
	defer srv.Close()
	_, port, _ := net.SplitHostPort(srv.Listener.Addr().String())
	for _, host := range []string{"127.0.0.1:" + port, "localhost:" + port, "[::1]:" + port, "0.0.0.0:" + port, "169.254.169.254", "[fd00:ec2::254]"} {
		is(t, client(t, Options{}).Verify(t.Context(), "http://"+host+"/app", ann), 400, "")
	}
	away := httptest.NewServer(http.RedirectHandler("http://169.254.169.254/latest", http.StatusFound))
	defer away.Close()
	is(t, client(t, Options{AllowLoopback: true}).Verify(t.Context(), away.URL+"/app", ann), 400, "connects to no loopback")
}

func TestAnAccountIsTakenToNoOtherServer(t *testing.T) {
	var got []string
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.Header.Get("Authorization"))
		_, _ = io.WriteString(w, "001e# service=git-upload-pack\n")
	}))
	defer other.Close()
	first := httptest.NewServer(http.RedirectHandler(other.URL+"/x", http.StatusFound)) // the same host, another port
	defer first.Close()
	is(t, client(t, Options{AllowLoopback: true}).Verify(t.Context(), first.URL+"/app", ann), 0, "")
	if len(got) != 1 || got[0] != "" {
		t.Errorf("the other server got %q", got)
	}
}

func TestARedirectLeavesTLSNever(t *testing.T) { // S21
	plain := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("was asked") }))
	defer plain.Close()
	tls := httptest.NewTLSServer(http.RedirectHandler(plain.URL, http.StatusFound))
	defer tls.Close()
	c := client(t, Options{AllowLoopback: true})
	c.transport.TLSClientConfig.RootCAs = tls.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	is(t, c.Verify(t.Context(), tls.URL+"/app", ann), 400, "not followed")
}

func TestCertificatesAreVerified(t *testing.T) { // S21
	tls := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("was asked") }))
	tls.Config.ErrorLog = quiet // of the certificate that is refused
	tls.StartTLS()
	defer tls.Close()
	is(t, client(t, Options{AllowLoopback: true}).Verify(t.Context(), tls.URL+"/app", ann), 400, "is not trusted")
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	is(t, client(t, Options{AllowLoopback: true}).Verify(t.Context(), "https"+strings.TrimPrefix(plain.URL, "http")+"/app", ann), 400, "does not speak TLS")
}

func TestAnswersAreCheckedAndNotQuoted(t *testing.T) { // S20
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		code   int
	}{
		"a page": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "<html>internal-answer</html> and more of it")
		}, 400},
		"nothing": {func(http.ResponseWriter, *http.Request) {}, 400},
		"the dumb one": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, strings.Repeat("a", 40)+"\trefs/heads/main\n")
		}, 400},
		"a fault": {func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "internal-answer", http.StatusInternalServerError)
		}, 400},
		"forbidden":  {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "internal-answer", http.StatusForbidden) }, 400},
		"not found":  {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "internal-answer", http.StatusNotFound) }, 404},
		"in circles": {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/again", http.StatusFound) }, 400},
	} {
		t.Run(name, func(t *testing.T) {
			srv := httptest.NewServer(c.answer)
			defer srv.Close()
			is(t, client(t, Options{AllowLoopback: true}).Verify(t.Context(), srv.URL+"/app", ann), c.code, "")
		})
	}
}

func TestAnAccountHidesItsPassword(t *testing.T) { // S57
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		if shown := fmt.Sprintf(format, ann); strings.Contains(shown, canary) {
			t.Errorf("%s shows %s", format, shown)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"https://h/a.git", "http://h:1/a/../b", "https://h/%2e%2e/x", "ssh://h", "a@b:c", "https://[::1]/a", "https://h//", "http://0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, address string) {
		u, err := parse(address)
		if err == nil && (u.Host == "" || u.User != nil || u.Scheme != "https" && u.Scheme != "http" || !strings.HasSuffix(u.Path, "/info/refs") ||
			u.RawQuery != "service=git-upload-pack") {
			t.Errorf("%q is asked for as %s", address, u)
		}
	})
}
