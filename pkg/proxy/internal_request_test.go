package proxy

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/request"
)

// own returns a request of a handler's own, for bob, authorized as it is.
func own(t *testing.T, method, target, body string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, target, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return as(t, r, bob, allowed)
}

func as(t *testing.T, r *http.Request, u user.Info, d authz.Decision) *http.Request {
	t.Helper()
	info, err := request.Parse(r)
	if err != nil {
		t.Fatal(err)
	}
	ctx := authz.WithDecision(request.WithInfo(r.Context(), info), d)
	if u != nil {
		ctx = request.WithUser(ctx, u)
	}
	return r.WithContext(ctx)
}

func TestAHandlersRequestGoesAsTheCaller(t *testing.T) { // S13, S14
	var body string
	b := newBackend(t, func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		body = string(raw)
		w.Header().Set("Set-Cookie", "a=b")
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, "made")
	})
	k := newKube(t, KubeOptions{Config: b.config()})
	r := own(t, http.MethodPost, "/api/v1/namespaces/a/pods?dryRun=All", "{}")
	r.RemoteAddr = "127.0.0.1:1234"
	for name, value := range map[string]string{
		"Content-Type": "application/json", "User-Agent": "kubectl/v1", "Connection": "Impersonate-User", "Upgrade": "h2c",
		"Impersonate-User": "admin", "Impersonate-Group": "system:masters", "Authorization": "Bearer theirs", "Cookie": "token=x", "X-Remote-User": "admin",
	} {
		r.Header.Set(name, value)
	}
	before := r.Header.Clone()
	res, err := k.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusCreated || string(answer) != "made" || res.Header.Get("Set-Cookie") != "" {
		t.Errorf("%d %s %v %v", res.StatusCode, answer, res.Header, err)
	}
	saw := b.only(t)
	wantIdentity(t, saw)
	if saw.Method != http.MethodPost || saw.URL.RequestURI() != "/api/v1/namespaces/a/pods?dryRun=All" || body != "{}" ||
		saw.Header.Get("Content-Type") != "application/json" || saw.UserAgent() != "kubectl/v1" || saw.Header.Get("Upgrade") != "" {
		t.Errorf("the backend saw %s %s %q %v", saw.Method, saw.URL, body, saw.Header)
	}
	if len(before) != len(r.Header) {
		t.Error("the handler's request was changed")
	}
}

func TestOnlyWhatWasAuthorizedIsSent(t *testing.T) { // S10, S23
	b := newBackend(t, ok)
	k := newKube(t, KubeOptions{Config: b.config()})
	with := func(r *http.Request, change func(*http.Request)) *http.Request {
		r = r.Clone(r.Context())
		change(r)
		return r
	}
	good := own(t, http.MethodPut, "/api/v1/namespaces/a/pods/p", "{}")
	for claim, r := range map[string]*http.Request{
		"NobodyAsks":             as(t, good.WithContext(t.Context()), nil, allowed),
		"NothingDecided":         as(t, good, bob, authz.Decision{}),
		"Refused":                as(t, good, bob, authz.Decision{Group: "kapis:global:admin"}),
		"NotParsed":              good.WithContext(request.WithUser(authz.WithDecision(t.Context(), allowed), bob)),
		"AnotherPath":            with(good, func(r *http.Request) { u := *r.URL; u.Path = "/api/v1/namespaces/b/pods/p"; r.URL = &u }),
		"AnotherEncoding":        with(good, func(r *http.Request) { u := *r.URL; u.RawPath = "/api/v1/namespaces/a%2Fb/pods/p"; r.URL = &u }),
		"AnotherMethod":          with(good, func(r *http.Request) { r.Method = http.MethodDelete }),
		"NoPathOfKubernetes":     own(t, http.MethodPut, "/kapis/apps/v1/namespaces/a/deployments/d", "{}"),
		"Watch":                  own(t, http.MethodGet, "/api/v1/pods?watch=true", ""),
		"Terminal":               own(t, http.MethodPost, "/api/v1/namespaces/a/pods/p/exec", ""),
		"Upgrade":                with(good, func(r *http.Request) { r.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}} }),
		"AComponentOfKubernetes": as(t, good, &user.DefaultInfo{Name: "system:kube-scheduler"}, allowed),
	} {
		t.Run(claim, func(t *testing.T) {
			if res, err := k.RoundTrip(r); err == nil {
				t.Errorf("answered with %d", res.StatusCode)
			}
		})
	}
	if n := len(b.requests()); n != 0 {
		t.Errorf("the backend saw %d requests", n)
	}
}

func TestFailuresOfAHandlersRequestSayNoAddress(t *testing.T) {
	redirects := newBackend(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://evil.example.com/", http.StatusFound)
	})
	gone := newBackend(t, ok)
	cfg := gone.config()
	gone.Close()
	for claim, c := range map[string]struct {
		cfg  *rest.Config
		code int32
	}{"Unreachable": {cfg, 503}, "Redirect": {redirects.config(), 502}} { // S17
		t.Run(claim, func(t *testing.T) {
			_, err := newKube(t, KubeOptions{Config: c.cfg}).RoundTrip(own(t, http.MethodGet, "/api/v1/nodes/n", ""))
			var status apierrors.APIStatus
			if !errors.As(err, &status) || status.Status().Code != c.code || strings.Contains(err.Error(), "127.0.0.1") || strings.Contains(err.Error(), "evil") {
				t.Errorf("%v", err)
			}
		})
	}
	t.Run("TheClientIsGone", func(t *testing.T) {
		b := newBackend(t, ok)
		ctx, cancel := context.WithCancel(t.Context())
		r := own(t, http.MethodGet, "/api/v1/nodes/n", "")
		r = as(t, r.WithContext(ctx), bob, allowed)
		cancel()
		if _, err := newKube(t, KubeOptions{Config: b.config()}).RoundTrip(r); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	})
}
