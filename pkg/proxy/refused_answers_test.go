package proxy

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"kapis.dev/ks-apiserver/pkg/proxy/relay"
	"kapis.dev/ks-apiserver/pkg/stream"
)

// F7, F17: informational answers are dropped, and with them their headers, which nothing has looked at. Endless ones are no answer.
func TestInformationalAnswersAreNotPassedOn(t *testing.T) {
	answers := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Set-Cookie", "canary=1")
		if strings.HasSuffix(r.URL.Path, "/endless") {
			w.Header().Set("X-Fill", strings.Repeat("x", 60<<10))
			for range 500 {
				w.WriteHeader(http.StatusEarlyHints)
			}
			return // with the headers as they are: once the client has left, net/http may still be reading them
		}
		w.WriteHeader(http.StatusEarlyHints)
		clear(w.Header())
		w.WriteHeader(http.StatusAccepted)
	}
	guard := stream.New(stream.Options{})
	kube := newKube(t, KubeOptions{Config: newBackend(t, answers).config()})
	for name, c := range map[string]struct {
		by     http.Handler
		prefix string
	}{
		"KubeAPIServer":            {kube, ""},
		"AMember":                  {NewMembers(newFleet(t, answers).members.ByName, guard), "/clusters/m1"},
		"AMemberWithASharedSecret": {NewMembers(olderMember(t, answers).members.ByName, guard), "/clusters/m1"},
	} {
		t.Run(name, func(t *testing.T) {
			for path, want := range map[string]bool{"/api/v1/pods": true, "/api/v1/pods?watch=true": true, "/api/v1/namespaces/a/services/b/proxy/endless": false} {
				rec := httptest.NewRecorder()
				rec.Header().Set("Audit-Id", "1")
				filtered(c.by, person, allowed)(rec, httptest.NewRequestWithContext(t.Context(), http.MethodGet, c.prefix+path, nil))
				if got := rec.Code == http.StatusAccepted; got != want || !want && rec.Code < http.StatusInternalServerError {
					t.Errorf("%s: %d", path, rec.Code)
				}
				if h := rec.Header(); h.Get("Set-Cookie") != "" || h.Get("Audit-Id") != "1" {
					t.Errorf("%s: %v", path, h)
				}
			}
		})
	}
}

func TestRedirectsAreNotPassedOn(t *testing.T) { // S17
	location, code := "", 0
	_, srv := proxied(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", location)
		w.WriteHeader(code)
	})
	for name, c := range map[string]struct {
		method, path, location, want string
		codes                        []int
	}{
		"Elsewhere":   {"GET", "/api/v1/pods", "https://evil.example/api/v1/pods/", "", []int{300, 301, 302, 303, 307, 308}},
		"WithoutHost": {"GET", "/api/v1/pods", "//evil.example/api/v1/pods/", "", []int{301, 302}},
		"OtherPath":   {"GET", "/api/v1/pods", "/api/v1/secrets", "", []int{301, 302, 307}},
		"OtherQuery":  {"GET", "/api/v1/pods?a=b", "/api/v1/pods/?a=c", "", []int{301}},
		"Nowhere":     {"GET", "/api/v1/pods", "", "", []int{301, 302}},
		"Post":        {"POST", "/api/v1/namespaces/a/services/s/proxy", "/api/v1/namespaces/a/services/s/proxy/", "", []int{301, 307}},
		"SlashIsAdded": {"GET", "/api/v1/namespaces/a/services/s/proxy?a=b", "/api/v1/namespaces/a/services/s/proxy/?a=b",
			"/api/v1/namespaces/a/services/s/proxy/?a=b", []int{301}},
		"UnderThePrefix": {"GET", "/clusters/host/api/v1/namespaces/a/services/s/proxy", "/api/v1/namespaces/a/services/s/proxy/",
			"/clusters/host/api/v1/namespaces/a/services/s/proxy/", []int{301, 302}},
		"ControlIsQuoted": {"GET", "/api/v1/pods", "/api/v1/pods/\x00", "", []int{301}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, code = range c.codes {
				location = c.location
				req, err := http.NewRequest(c.method, srv.URL+c.path, nil)
				if err != nil {
					t.Fatal(err)
				}
				res, err := noRedirect.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				_ = res.Body.Close()
				want := code
				if c.want == "" {
					want = http.StatusBadGateway
				}
				if got := res.Header.Get("Location"); got != c.want || res.StatusCode != want {
					t.Errorf("%d to %q is answered with %d to %q, want %d to %q", code, location, res.StatusCode, got, want, c.want)
				}
			}
		})
	}
}

// ofTheOrigin are headers by which a workload would speak for this server, and so for everything that it serves.
var ofTheOrigin = []string{"Set-Cookie", "Alt-Svc", "Strict-Transport-Security", "Clear-Site-Data", "Service-Worker-Allowed",
	"Access-Control-Allow-Origin", "Access-Control-Allow-Credentials",
	"Access-Control-Allow-Headers", "Access-Control-Allow-Methods", "Access-Control-Expose-Headers", "Access-Control-Max-Age",
	"Access-Control-Allow-Private-Network"}

func TestAnswersPassUnchanged(t *testing.T) {
	_, srv := proxied(t, func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Type", "application/vnd.kubernetes.protobuf")
		h.Set("Warning", `299 - "old"`)
		h.Set("X-Kubernetes-Pf-Flowschema-Uid", "u")
		for _, k := range ofTheOrigin {
			h.Set(k, "x")
		}
		switch {
		case r.Header.Get("If-None-Match") != "":
			w.WriteHeader(http.StatusNotModified)
		case r.Method == http.MethodHead:
			h.Set("Content-Length", "4")
		case r.Header.Get("Accept-Encoding") == "gzip":
			h.Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			_, _ = z.Write([]byte("zipped"))
			_ = z.Close()
		default:
			w.WriteHeader(http.StatusCreated)
			_, _ = io.Copy(w, r.Body)
		}
	})
	c := rawDial(t, srv)
	for request, want := range map[string]struct {
		code int
		body string
	}{
		"POST /api/v1/namespaces HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc":                                      {201, "abc"},
		"POST /api/v1/namespaces HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n":           {201, "abc"},
		"GET /api/v1/pods HTTP/1.1\r\nHost: x\r\nIf-None-Match: \"a\"\r\n\r\n":                                             {304, ""},
		"GET /api/v1/pods HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n\r\n":                                            {200, "\x1f\x8b"},
		"POST /api/v1/pods HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 1\r\nConnection: close\r\n\r\nx": {100, ""},
	} {
		c := c
		if want.code == 100 {
			c = rawDial(t, srv)
		}
		c.send(request)
		res, body := c.answer()
		if res.StatusCode != want.code || !strings.HasPrefix(body, want.body) {
			t.Errorf("%q is answered with %d %q", request, res.StatusCode, body)
		}
		if want.code == 100 {
			continue
		}
		for _, k := range ofTheOrigin { // S51
			if v := res.Header.Get(k); v != "" {
				t.Errorf("%s: %s reaches the client", k, v)
			}
		}
		for k, v := range map[string]string{"Warning": `299 - "old"`, "X-Kubernetes-Pf-Flowschema-Uid": "u",
			"Content-Type": "application/vnd.kubernetes.protobuf", "X-Content-Type-Options": "nosniff"} {
			if k == "Content-Type" && res.StatusCode == http.StatusNotModified {
				continue // net/http leaves it out: there is no content
			}
			if got := res.Header[http.CanonicalHeaderKey(k)]; len(got) != 1 || got[0] != v {
				t.Errorf("%s is %q", k, got)
			}
		}
	}
}

func TestLargeAnswersArriveWhole(t *testing.T) {
	want := strings.Repeat("0123456789abcdef", 1<<16)
	_, srv := proxied(t, func(w http.ResponseWriter, r *http.Request) {
		for i := 0; i < len(want); i += 50_000 {
			_, _ = io.WriteString(w, want[i:min(i+50_000, len(want))])
		}
	})
	if _, body := get(t, srv.URL+"/api/v1/pods"); body != want {
		t.Errorf("%d bytes arrived of %d", len(body), len(want))
	}
}

func TestFailuresAreStatusesWithoutInternals(t *testing.T) {
	b := newBackend(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/v1/body" {
			_, _ = io.Copy(io.Discard, r.Body)
		}
		panic(http.ErrAbortHandler)
	})
	down := b.config()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	down.Host = "https://" + l.Addr().String()
	_ = l.Close()
	untrusted := b.config()
	untrusted.CAData = nil

	for name, c := range map[string]struct {
		cfg   *rest.Config
		path  string
		code  int
		retry bool
	}{
		"Down":         {down, "/api/v1/pods", 503, true},
		"DownForWatch": {down, "/api/v1/pods?watch=1", 503, true},
		"Untrusted":    {untrusted, "/api/v1/pods", 502, true}, // S21
		"Broken":       {b.config(), "/api/v1/pods", 502, true},
	} {
		t.Run(name, func(t *testing.T) {
			srv := front(t, newKube(t, KubeOptions{Config: c.cfg}), bob, allowed)
			res, body := get(t, srv.URL+c.path)
			var s metav1.Status
			if err := json.Unmarshal([]byte(body), &s); err != nil || s.Kind != "Status" {
				t.Fatalf("no Status: %s", body)
			}
			if res.StatusCode != c.code || (res.Header.Get("Retry-After") != "") != c.retry {
				t.Errorf("code %d, Retry-After %q", res.StatusCode, res.Header.Get("Retry-After"))
			}
			for _, secret := range []string{"127.0.0.1", "dial", "x509", serverToken} {
				if strings.Contains(body, secret) {
					t.Errorf("the answer tells %q: %s", secret, body)
				}
			}
		})
	}
}

func TestStatusOf(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		code int32
	}{
		"TooLarge":    {fmt.Errorf("send: %w", &http.MaxBytesError{Limit: 3}), 413},
		"SlowBody":    {fmt.Errorf("send: %w", &apierrors.StatusError{ErrStatus: metav1.Status{Code: 408}}), 408},
		"Refused":     {&relay.RefusedAnswer{Reason: "x"}, 502},
		"Dial":        {&url.Error{Err: &net.OpError{Op: "dial", Err: errors.New("refused")}}, 503},
		"Read":        {&net.OpError{Op: "read", Err: errors.New("reset")}, 502},
		"Deadline":    {context.DeadlineExceeded, 504},
		"Timeout":     {timeout{}, 504},
		"HTTP2Header": {errors.New("http2: timeout awaiting response headers"), 504},
		"Anything":    {errors.New("?"), 502},
	} {
		if s := statusOf(c.err); s.ErrStatus.Code != c.code {
			t.Errorf("%s is %d, want %d", name, s.ErrStatus.Code, c.code)
		}
	}
}

type timeout struct{}

func (timeout) Error() string   { return "timeout" }
func (timeout) Timeout() bool   { return true }
func (timeout) Temporary() bool { return false }

func TestBodiesOverTheLimitAre413(t *testing.T) { // S56
	b := newBackend(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
	k := newKube(t, KubeOptions{Config: b.config()})
	h := filtered(k, bob, allowed)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, 10)
		h(w, r)
	}))
	defer srv.Close()
	res, err := http.Post(srv.URL+"/api/v1/namespaces", "application/json", io.LimitReader(strings.NewReader(strings.Repeat("x", 100)), 100))
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("code %d", res.StatusCode)
	}
}
