package proxy

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/proxy/relay"
	"kapis.dev/ks-apiserver/pkg/request"
)

func ok(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }

// noRedirect is a client that shows redirects.
var noRedirect = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

func get(t *testing.T, url string) (*http.Response, string) {
	t.Helper()
	res, err := noRedirect.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(body)
}

// wantIdentity checks that the backend saw this server impersonating bob, and no other identity.
func wantIdentity(t *testing.T, r *http.Request) {
	t.Helper()
	want := http.Header{
		"Authorization":                           {"Bearer " + serverToken},
		"Impersonate-User":                        {"bob"},
		"Impersonate-Uid":                         {"uid-bob"},
		"Impersonate-Group":                       {"dev", "system:authenticated", "kapis:global:viewer"},
		"Impersonate-Extra-Example.com%2fsession": {"s1", "s2"},
		"X-Forwarded-For":                         {"127.0.0.1"},
	}
	if r.Header.Get("Upgrade") != "" { // RFC 6455, 4.1; kube-apiserver refuses a WebSocket without it
		want["Origin"] = []string{"https://" + r.Host}
	}
	for k, v := range r.Header {
		l := strings.ToLower(k)
		if strings.HasPrefix(l, "impersonate-") || strings.HasPrefix(l, "x-remote-") || strings.HasPrefix(l, "x-") ||
			l == "authorization" || l == "cookie" || l == "origin" || l == "forwarded" || l == "referer" {
			if !slices.Equal(want[k], v) {
				t.Errorf("the backend saw %s: %q, want %q", k, v, want[k])
			}
		}
	}
	for k := range want {
		if _, ok := r.Header[k]; !ok {
			t.Errorf("the backend did not see %s; it saw %v", k, r.Header)
		}
	}
}

// hostile are headers that a client may try.
const hostile = "Impersonate-User: admin\r\nImpersonate-Group: system:masters\r\nimpersonate-group: root\r\nImpersonate-Uid: 0\r\n" +
	"Impersonate-Extra-x: y\r\nImpersonate-Extra-Scopes%2f: z\r\nX-Remote-User: admin\r\nX-Remote-Group: system:masters\r\n" +
	"X-Remote-Extra-a: b\r\nX-Forwarded-For: 10.9.9.9\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Prefix: /x\r\nX-Real-Ip: 10.9.9.9\r\n" +
	"Forwarded: for=10.9.9.9\r\nX-KubeSphere-Authorization: Bearer root\r\nAuthorization: Bearer bobs-token\r\nCookie: token=bobs-token\r\n" +
	"Referer: http://x/\r\n"

func TestTheBackendSeesTheCallerAndNothingOfHisClaims(t *testing.T) {
	for name, head := range map[string]string{
		"S13 Headers":            hostile,
		"S14 HopByHopIdentity":   hostile + "Connection: Impersonate-User, Impersonate-Group, Impersonate-Uid, Authorization, X-Remote-User, X-Forwarded-For\r\n",
		"S18 UpgradedHeaders":    hostile + "Connection: Upgrade\r\nUpgrade: websocket\r\nOrigin: http://evil\r\n",
		"S14 UpgradedHopByHop":   hostile + "Connection: Upgrade, Impersonate-User\r\nConnection: Authorization, Impersonate-Group\r\nUpgrade: SPDY/3.1\r\n",
		"H2cOfferIsNotPassedOn":  hostile + "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n",
		"LongRequestsAreTheSame": hostile,
	} {
		t.Run(name, func(t *testing.T) {
			b, srv := proxied(t, func(w http.ResponseWriter, r *http.Request) {
				if up := r.Header.Get("Upgrade"); up == "" {
					ok(w, r)
					return
				}
				w.WriteHeader(http.StatusForbidden)
			})
			target := "/api/v1/namespaces/a/pods"
			if strings.HasPrefix(name, "Long") {
				target += "?watch=true"
			}
			c := rawDial(t, srv)
			c.send("GET " + target + " HTTP/1.1\r\nHost: ks.example\r\n" + head + "\r\n")
			c.answer()
			r := b.only(t)
			wantIdentity(t, r)
			if r.Host != b.Listener.Addr().String() {
				t.Errorf("the backend was called %s", r.Host)
			}
			if wantUpgrade := strings.Contains(name, "Upgraded"); wantUpgrade != (r.Header.Get("Upgrade") != "") {
				t.Errorf("Upgrade at the backend is %q", r.Header.Get("Upgrade"))
			}
			if wantProto := map[bool]int{true: 1, false: 2}[strings.Contains(name, "Upgraded")]; r.ProtoMajor != wantProto {
				t.Errorf("the backend was asked by HTTP/%d", r.ProtoMajor)
			}
		})
	}
}

func TestOwnImpersonationInTheConfigIsNotUsed(t *testing.T) {
	b := newBackend(t, ok)
	cfg := b.config()
	cfg.Impersonate = rest.ImpersonationConfig{UserName: "system:admin", Groups: []string{"system:masters"}}
	srv := front(t, newKube(t, KubeOptions{Config: cfg}), bob, allowed)
	get(t, srv.URL+"/api")
	wantIdentity(t, b.only(t))
}

func TestImpersonate(t *testing.T) {
	for name, c := range map[string]struct {
		u     user.Info
		group string
		want  http.Header
	}{
		"Anonymous": {&user.DefaultInfo{Name: user.Anonymous, Groups: []string{user.AllUnauthenticated}}, "",
			http.Header{"Impersonate-User": {"system:anonymous"}, "Impersonate-Group": {"system:unauthenticated"}}},
		"PowerfulGroupsAreDropped": {&user.DefaultInfo{Name: "a", Groups: []string{
			"system:masters", "system:nodes", "system:kube-scheduler", "", "kapis:global:admin", "ok"}}, "kapis:global:viewer",
			http.Header{"Impersonate-User": {"a"}, "Impersonate-Group": {"ok", "kapis:global:viewer"}}},
		"OnlySyntheticGroupsByDecision": {&user.DefaultInfo{Name: "a"}, "system:masters", http.Header{"Impersonate-User": {"a"}}},
		"PrefixAloneIsNoGroup":          {&user.DefaultInfo{Name: "a"}, "kapis:", http.Header{"Impersonate-User": {"a"}}},
		"ServiceAccount": {&user.DefaultInfo{Name: "system:serviceaccount:a:b", Groups: []string{"system:serviceaccounts", "system:serviceaccounts:a"}}, "",
			http.Header{"Impersonate-User": {"system:serviceaccount:a:b"}, "Impersonate-Group": {"system:serviceaccounts", "system:serviceaccounts:a"}}},
		"Extra": {&user.DefaultInfo{Name: "a", Extra: map[string][]string{"a/b%c ü": {"1"}, "none": nil, "": {"x"}}}, "",
			http.Header{"Impersonate-User": {"a"}, "Impersonate-Extra-A%2fb%25c%20%c3%bc": {"1"}}},
	} {
		t.Run(name, func(t *testing.T) {
			h := http.Header{}
			impersonate(h, c.u, c.group)
			if fmt.Sprint(h) != fmt.Sprint(c.want) {
				t.Errorf("got %v, want %v", h, c.want)
			}
		})
	}
}

func TestWhatNoFilterLetThroughIsRefused(t *testing.T) { // S25, S54
	b := newBackend(t, ok)
	k := newKube(t, KubeOptions{Config: b.config()})
	for name, c := range map[string]struct {
		u user.Info
		d authz.Decision
	}{
		"NoUser":              {nil, allowed},
		"NoDecision":          {bob, authz.Decision{}},
		"RefusedWithGroup":    {bob, authz.Decision{Group: "kapis:global:admin"}},
		"EmptyName":           {&user.DefaultInfo{}, allowed},
		"ControlPlanesOwn":    {&user.DefaultInfo{Name: "system:kube-controller-manager"}, allowed},
		"NodesOwn":            {&user.DefaultInfo{Name: "system:node:n1"}, allowed},
		"SystemAdminIsNobody": {&user.DefaultInfo{Name: "system:admin"}, allowed},
		"NoneByABlank":        {&user.DefaultInfo{Name: " system:admin"}, allowed},
		"NoneByATab":          {&user.DefaultInfo{Name: "bob\t"}, allowed},
	} {
		t.Run(name, func(t *testing.T) {
			srv := front(t, k, c.u, c.d)
			for _, path := range []string{"/api/v1/pods", "/api/v1/pods?watch=1"} {
				if res, _ := get(t, srv.URL+path); res.StatusCode < 400 {
					t.Errorf("%s is answered with %d", path, res.StatusCode)
				}
			}
		})
	}
	t.Run("OtherPath", func(t *testing.T) {
		srv := front(t, k, bob, allowed)
		if res, _ := get(t, srv.URL+"/kapis/x.io/v1/pods"); res.StatusCode != http.StatusInternalServerError {
			t.Errorf("code %d", res.StatusCode)
		}
	})
	if n := len(b.requests()); n != 0 {
		t.Errorf("the backend saw %d requests", n)
	}
}

func TestThePathThatIsSentIsTheOneThatWasParsed(t *testing.T) { // S23
	b, srv := proxied(t, ok)
	for sent, want := range map[string]string{
		"/api": "/api",
		"/apis/apps/v1/deployments?limit=1&a=b+c":  "/apis/apps/v1/deployments?limit=1&a=b+c",
		"/clusters/host/api/v1/pods":               "/api/v1/pods",
		"/api/clusters/host/v1/pods":               "/api/v1/pods",
		"/api/v1/pods/":                            "/api/v1/pods",
		"/api/v1/watch/namespaces/a/pods":          "/api/v1/watch/namespaces/a/pods",
		"/api/v1/namespaces/a/services/s/proxy/x/": "/api/v1/namespaces/a/services/s/proxy/x/",
		"/api/v1/namespaces/a%20b/pods":            "/api/v1/namespaces/a%20b/pods",
		"/api/v1/namespaces/%61/pods?x=%2F":        "/api/v1/namespaces/a/pods?x=%2F",
		"http://elsewhere/api/v1/pods":             "/api/v1/pods",
	} {
		before := len(b.requests())
		c := rawDial(t, srv)
		c.send("GET " + sent + " HTTP/1.1\r\nHost: ks\r\nConnection: close\r\n\r\n")
		if res, body := c.answer(); res.StatusCode != http.StatusOK {
			t.Errorf("%s: %d %s", sent, res.StatusCode, body)
			continue
		}
		if got := b.requests()[before].RequestURI; got != want {
			t.Errorf("%s was sent as %s, want %s", sent, got, want)
		}
	}
}

func FuzzThePathAuthorizedIsThePathSent(f *testing.F) {
	for _, s := range []string{"/api/v1/pods", "/clusters/a/apis/x/v1/y", "/api//v1", "/api/v1/%2e%2e/x", "/api/v1/a%2fb", "/api/%25/x", "/api/v1/ü?a=b;c",
		"/api/v1/pods?x=%zz#f"} {
		f.Add(s)
	}
	k, err := NewKube(KubeOptions{Config: &rest.Config{Host: "https://kube.example/base/"}})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, target string) {
		u, err := url.ParseRequestURI(target)
		if err != nil {
			return
		}
		in := &http.Request{Method: http.MethodGet, URL: u, Header: http.Header{}, RemoteAddr: "1.2.3.4:5"}
		info, err := request.Parse(in)
		if err != nil || !info.IsKubernetes {
			return
		}
		ctx := request.WithUser(request.WithInfo(context.Background(), info), bob)
		in = in.WithContext(ctx)
		p := &httputil.ProxyRequest{In: in, Out: in.Clone(ctx)}
		k.rewrite(p)
		wire, err := url.ParseRequestURI(p.Out.URL.RequestURI())
		if err != nil {
			t.Fatalf("%q is sent as %q: %v", target, p.Out.URL.RequestURI(), err)
		}
		path, found := strings.CutPrefix(wire.Path, "/base")
		if !found || path != info.Path || p.Out.URL.Host != "kube.example" {
			t.Fatalf("authorized %q, sent %q", info.Path, wire)
		}
		wire.Path, wire.RawPath = path, ""
		again, err := request.Parse(&http.Request{Method: http.MethodGet, URL: wire})
		if err != nil {
			t.Fatalf("%q is sent on as %q, which does not parse: %v", target, wire, err)
		}
		again.Cluster = info.Cluster
		if *again != *info {
			t.Fatalf("authorized %+v, sent %+v", info, again)
		}
	})
}

// kube-apiserver does not take this server's own credentials: a client that is told 401 would throw its own away.
func TestOwnRefusedCredentialsAreNotTheClients(t *testing.T) {
	_, srv := proxied(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Www-Authenticate", "Bearer")
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"kind":"Status","code":401,"reason":"Unauthorized"}`)
	})
	for path, want := range map[string]int{
		"/api/v1/namespaces/a/pods":                         http.StatusBadGateway,
		"/api/v1/namespaces/a/pods?watch=true":              http.StatusBadGateway,
		"/api/v1/namespaces/a/pods/p/log?follow=true":       http.StatusBadGateway,
		"/apis/apps/v1/deployments":                         http.StatusBadGateway,
		"/apis":                                             http.StatusBadGateway,
		"/api/v1/namespaces/a/services/s/proxy/":            http.StatusUnauthorized, // the workload's own
		"/api/v1/namespaces/a/pods/p/proxy/page?watch=true": http.StatusUnauthorized,
	} {
		res, body := get(t, srv.URL+path)
		if res.StatusCode != want || (res.Header.Get("Www-Authenticate") != "") != (want == http.StatusUnauthorized) {
			t.Errorf("%s: got %d %s %v, want %d", path, res.StatusCode, body, res.Header, want)
		}
	}
}

func TestBuffersAreReused(t *testing.T) {
	b := relay.NewBuffers()
	if n := testing.AllocsPerRun(100, func() { b.Put(b.Get()) }); n > 0.5 {
		t.Errorf("%v allocations", n)
	}
	b.Put(make([]byte, 3)) // not one of the pool's
	if got := len(b.Get()); got != relay.BufferSize {
		t.Errorf("a buffer of %d bytes", got)
	}
}

func TestIsLong(t *testing.T) {
	for target, want := range map[string]bool{
		"/api/v1/pods": false, "/api/v1/pods?watch=true": true, "/api/v1/watch/pods": true,
		"/api/v1/namespaces/a/pods/p/log": false, "/api/v1/namespaces/a/pods/p/log?follow=true": true,
		"/api/v1/namespaces/a/pods/p/exec?command=x": true, "/api/v1/namespaces/a/services/s/proxy/x": true,
		"/api/v1/namespaces/a/pods/p/status": false, "/apis": false,
	} {
		r := httptest.NewRequest(http.MethodGet, target, nil)
		info, err := request.Parse(r)
		if err != nil {
			t.Fatal(err)
		}
		if got := relay.IsLong(info, r.URL); got != want {
			t.Errorf("%s: %v", target, got)
		}
	}
}

// The configured validation of fields is asked for in writes whose clients do not say what they want, and never of a workload.
func TestFieldValidationIsTheClientsOrTheConfigured(t *testing.T) {
	const pods, as = "/api/v1/namespaces/a/pods", "fieldValidation=Strict"
	for name, c := range map[string]struct {
		method, target string
		want           string
	}{
		"a creation":               {method: http.MethodPost, target: pods, want: as},
		"with other parameters":    {method: http.MethodPost, target: pods + "?dryRun=All", want: "dryRun=All&" + as},
		"an update":                {method: http.MethodPut, target: pods + "/p", want: as},
		"a patch of the scale":     {method: http.MethodPatch, target: "/apis/apps/v1/namespaces/a/deployments/d/scale", want: as},
		"a status":                 {method: http.MethodPut, target: pods + "/p/status", want: as},
		"the client's own":         {method: http.MethodPost, target: pods + "?fieldValidation=Ignore", want: "fieldValidation=Ignore"},
		"the client's, twice":      {method: http.MethodPost, target: pods + "?fieldValidation=&fieldValidation=Warn", want: "fieldValidation=&fieldValidation=Warn"},
		"a read":                   {method: http.MethodGet, target: pods + "?limit=1", want: "limit=1"},
		"a deletion":               {method: http.MethodDelete, target: pods + "/p"},
		"a request to a workload":  {method: http.MethodPost, target: "/api/v1/namespaces/a/services/s/proxy/x?q=1", want: "q=1"},
		"an eviction":              {method: http.MethodPost, target: pods + "/p/eviction"},
		"a command in a container": {method: http.MethodPost, target: pods + "/p/exec?command=ls", want: "command=ls"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBackend(t, ok)
			srv := front(t, newKube(t, KubeOptions{Config: b.config(), FieldValidation: "Strict"}), bob, allowed)
			req, err := http.NewRequestWithContext(t.Context(), c.method, srv.URL+c.target, strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			res, err := noRedirect.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
			if got := b.only(t).URL.RawQuery; got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
