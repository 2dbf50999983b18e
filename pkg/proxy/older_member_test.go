package proxy

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/cluster/link"
	"kapis.dev/ks-apiserver/pkg/stream"
)

// olderMember is the end of a link at which a member with a shared secret is served: its kube-apiserver, before which h stands for both servers there.
func olderMember(t *testing.T, h http.HandlerFunc) *memberWorld {
	t.Helper()
	kube := httptest.NewTLSServer(h)
	t.Cleanup(kube.Close)
	at, err := url.Parse(kube.URL + "/proxied")
	if err != nil {
		t.Fatal(err)
	}
	return newFleet(t, NewSharedSecretMember(at, kube.Client().Transport, func(user string) (string, error) {
		if user == "nobody" {
			return "", errors.New("it has no token")
		}
		return "token-of-" + user, nil
	}).ServeHTTP)
}

// F12, F16, F18: ks-apiserver of an older release is asked by the token of the user alone, at the path that was authorized, with the whole query; of what
// the client sends nothing is taken for the hub's.
func TestAMemberWithASharedSecretIsAskedByATokenOfTheUser(t *testing.T) {
	var got *http.Request
	f := olderMember(t, func(w http.ResponseWriter, r *http.Request) {
		got = r
		w.WriteHeader(http.StatusCreated)
	})
	rec := f.do(person, http.MethodPost, "/clusters/m1/kapis/apps/v1/namespaces/a/deployments?dryRun=All&x=%2F&dry%52un=All&dryRunning=1", "the body",
		"Authorization: Bearer canary", "Cookie: token=canary", "Impersonate-User: canary", "X-Remote-User: canary", "X-Kubesphere-Authorization: canary",
		"X-Kubesphere-Rawquery: canary=1", "X-Forwarded-For: canary", "Content-Type: application/json")
	if rec.Code != http.StatusCreated {
		t.Fatalf("%d %s", rec.Code, rec.Body)
	}
	if got.URL.Path != "/proxied/kapis/apps/v1/namespaces/a/deployments" || got.URL.RawQuery != "dryrun=All&x=%2F&dryrun=All&dryRunning=1" {
		t.Errorf("it is asked for %s ? %s", got.URL.Path, got.URL.RawQuery)
	}
	for name, values := range got.Header {
		if strings.Contains(strings.Join(values, " "), "canary") || strings.HasPrefix(name, "X-Remote-") {
			t.Errorf("%s: %v", name, values)
		}
	}
	if h := got.Header; strings.Join(h["X-Kubesphere-Authorization"], ",") != "Bearer token-of-ann" || len(h["Authorization"]) > 0 ||
		len(h["X-Kubesphere-Rawquery"]) > 0 {
		t.Errorf("it is told %v", h)
	}
}

// F12, F17: what has no token there, what could be read in two ways on the way there, and what has less rights than its user is not passed on.
func TestWhatIsNotPassedOnToAMemberWithASharedSecret(t *testing.T) {
	f := olderMember(t, func(w http.ResponseWriter, r *http.Request) { t.Errorf("it is asked for %s", r.URL) })
	ask := func(name string, change func(*http.Request)) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "https://member/api/v1/nodes", nil)
		r.Header.Set("X-Remote-User", name)
		r.Header.Set("X-Remote-Uid", "u-1")
		change(r)
		resp, err := f.members.ByName("m1").RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		rec := httptest.NewRecorder()
		rec.Code = resp.StatusCode
		_, _ = io.Copy(rec.Body, resp.Body)
		return rec
	}
	nothing := func(*http.Request) {}
	for name, x := range map[string]struct {
		user   string
		change func(*http.Request)
		code   int
	}{
		"NoToken":        {"nobody", nothing, http.StatusForbidden},
		"NoUser":         {"", nothing, http.StatusForbidden},
		"OfKubernetes":   {"system:masters", nothing, http.StatusForbidden},
		"TwoUsers":       {"ann", func(r *http.Request) { r.Header.Add("X-Remote-User", "root") }, http.StatusForbidden},
		"Scope":          {"ann", func(r *http.Request) { r.Header.Set("X-Remote-Extra-Scope", "read") }, http.StatusForbidden},
		"Login":          {"ann", func(r *http.Request) { r.URL.Path = "/oauth/token" }, http.StatusNotFound},
		"AnotherCluster": {"ann", func(r *http.Request) { r.URL.Path = "/clusters/x/api/v1/nodes" }, http.StatusNotFound},
		"Root":           {"ann", func(r *http.Request) { r.URL.Path = "/" }, http.StatusNotFound},
		"Up":             {"ann", func(r *http.Request) { r.URL.Path = "/api/../../../secrets" }, http.StatusNotFound},
		"Twice":          {"ann", func(r *http.Request) { r.URL.Path = "/api//v1" }, http.StatusNotFound},
		"Encoded": {"ann", func(r *http.Request) {
			r.URL.Path, r.URL.RawPath = "/api/v1/a/b", "/api/v1/a%2fb"
		}, http.StatusNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			if rec := ask(x.user, x.change); rec.Code != x.code {
				t.Errorf("%d %s, want %d", rec.Code, rec.Body, x.code)
			}
		})
	}
	// Nor what has not come over a link.
	rec := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/v1/nodes", nil)
	r.Header.Set("X-Remote-User", "ann")
	r.Header.Set("X-Remote-Uid", "u-1")
	if link.FromHub(r.Context()) {
		t.Fatal("the test is wrong")
	}
	NewSharedSecretMember(&url.URL{}, http.DefaultTransport, func(string) (string, error) { t.Error("a token is made"); return "", nil }).ServeHTTP(rec, r)
	if rec.Code != http.StatusForbidden {
		t.Errorf("past the link: %d", rec.Code)
	}
}

// F18, F19, F22: upgrades and long answers pass, a 401 is none here, and what breaks on the way is said.
func TestAnswersOfAMemberWithASharedSecret(t *testing.T) {
	release := make(chan struct{})
	f := olderMember(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/exec"):
			if r.Header.Get("X-Kubesphere-Rawquery") != "command=ls&dryRun=x" || r.Header.Get("X-Kubesphere-Authorization") != "Bearer token-of-ann" {
				t.Errorf("an upgrade has %v", r.Header)
			}
			conn, both, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = conn.Close() }()
			_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
			_, _ = io.Copy(conn, both)
		case r.URL.Query().Get("watch") != "":
			_, _ = io.WriteString(w, "one\n")
			_ = http.NewResponseController(w).Flush()
			<-release
			_, _ = io.WriteString(w, "two\n")
		case strings.HasSuffix(r.URL.Path, "/401"):
			w.WriteHeader(http.StatusUnauthorized)
		default:
			panic(http.ErrAbortHandler)
		}
	})
	if rec := f.do(person, http.MethodGet, "/clusters/m1/api/401", ""); rec.Code != http.StatusNetworkAuthenticationRequired {
		t.Errorf("a 401 is %d", rec.Code)
	}
	if rec := f.do(person, http.MethodGet, "/clusters/m1/api/v1/broken", ""); rec.Code != http.StatusServiceUnavailable ||
		!strings.Contains(rec.Body.String(), "ClusterUnreachable") {
		t.Errorf("what broke is %d %s", rec.Code, rec.Body)
	}
	hub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		filtered(NewMembers(f.members.ByName, stream.New(stream.Options{})), person, allowed)(w, r)
	}))
	defer hub.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, hub.URL+"/clusters/m1/api/v1/pods?watch=true", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := hub.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	lines := bufio.NewScanner(resp.Body)
	if !lines.Scan() || lines.Text() != "one" {
		t.Fatalf("the first event is %q, %v", lines.Text(), lines.Err())
	}
	close(release)
	if !lines.Scan() || lines.Text() != "two" {
		t.Errorf("the next event is %q, %v", lines.Text(), lines.Err())
	}

	r, err = http.NewRequestWithContext(ctx, http.MethodGet, hub.URL+"/clusters/m1/api/v1/namespaces/a/pods/p/exec?command=ls&dryRun=x", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", "echo")
	resp, err = hub.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("an upgrade is answered %d", resp.StatusCode)
	}
	both := resp.Body.(io.ReadWriteCloser)
	defer func() { _ = both.Close() }()
	if _, err := io.WriteString(both, "hello"); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 5)
	if _, err := io.ReadFull(both, got); err != nil || string(got) != "hello" {
		t.Errorf("it says %q, %v", got, err)
	}
}
