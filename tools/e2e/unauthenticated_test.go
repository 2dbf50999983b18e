package e2e

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
)

// own are the requests that reached kube-apiserver as this server itself, and not as anybody who asked.
func (r *recorder) own(text string) []seen {
	var out []seen
	for _, s := range r.about(text) {
		if len(s.header["Impersonate-User"]) == 0 {
			out = append(out, s)
		}
	}
	return out
}

// Who has not logged in reaches what people need to log in, what says whether the server is well, and its version; and nothing is ever done as this
// server itself because a request named nobody.
func TestNothingIsDoneAsTheServerItself(t *testing.T) {
	proves(t, "S54")
	p := newPassage(t)
	mark := unique("nobody")
	credentials := [][]string{
		nil, {"Authorization:"}, {"Authorization: "}, {"Authorization: Bearer"}, {"Authorization: Bearer "}, {"Authorization: Bearer  x y"},
		{"Authorization: Bearer\t"}, {"Authorization: bearer null"}, {"Authorization: Bearer undefined"},
		{"Authorization: Basic"}, {"Authorization: Basic Og=="}, {"Authorization: Basic !!!"}, {"Authorization: Basic YWRtaW46"},
		{"Authorization: Basic c3lzdGVtOmFkbWluOng="}, {"Authorization: Negotiate x"}, {"Authorization: Digest username=admin"},
		{"Authorization: Bearer a.b.c"}, {"Authorization: Bearer x", "Authorization: Bearer y"}, {"Authorization: Bearer " + strings.Repeat("A", 1000)},
		{"Cookie: token="}, {"Cookie: token=admin"}, {"X-Remote-User: admin"}, {"Impersonate-User: admin"},
		{"Authorization: Bearer system:serviceaccount:kubesphere-system:ks-apiserver"}, {"Connection: close, Authorization"}, {"Authorization : Bearer x"},
	}
	maps := "/namespaces/" + p.ns + "/configmaps"
	ways := []door{
		{"a read", http.MethodGet, "/api/v1/secrets?labelSelector=x=" + mark, "", ""}, {"a read of ours", http.MethodGet, "/kapi/v1/secrets?labelSelector=x=" +
			mark, "", ""},
		{"a write", http.MethodPost, "/api/v1" + maps + "?fieldManager=" + mark, `{"metadata":{"name":"` + mark + `"}}`, ""}, {"a write of ours",
			http.MethodPost, "/kapi/v1" + maps + "?fieldManager=" + mark, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"` + mark + `"}}`, ""},
		{"a deletion", http.MethodDelete, "/api/v1" + maps + "/" + mark, "", ""}, {"a terminal", http.MethodGet, "/api/v1/namespaces/" + p.ns + "/pods/" + mark +
			"/exec", "", "websocket"}, {"a watch", http.MethodGet, "/api/v1" + maps + "?watch=true&labelSelector=x=" + mark, "", ""},
		{"a list of users", http.MethodGet, kapis + "/users?q=" + mark, "", ""}, {"metrics", http.MethodGet, "/metrics?x=" + mark, "", ""},
		{"an aggregated kind", http.MethodGet, "/apis/metrics.k8s.io/v1beta1/nodes?x=" + mark, "", ""},
		{"a profile", http.MethodGet, "/debug/pprof/?x=" + mark, "", ""}, {"the first page", http.MethodGet, "/?x=" + mark, "", ""}, {"a proxy of kubectl",
			http.MethodGet, "/proxy/api/v1/secrets?x=" + mark, "", ""},
	}
	for _, lines := range credentials {
		for _, d := range ways {
			r := d.send(t, caller{base: p.me.base}, "", lines...)
			if r.code != http.StatusUnauthorized && r.code != http.StatusForbidden && r.code != http.StatusBadRequest {
				t.Errorf("%s with %.80q: %d %s", d.name, lines, r.code, clip(r.body))
			}
		}
	}
	if saw := p.about(mark); len(saw) > 0 {
		t.Errorf("kube-apiserver saw %v", saw)
	}
	// And with a login, nothing but as its owner.
	for _, d := range ways {
		d.send(t, p.as(admin(t)), "")
	}
	if saw := p.own(mark); len(saw) > 0 {
		t.Errorf("kube-apiserver saw, as this server, %v", saw)
	}
	if len(p.about(mark)) == 0 {
		t.Error("of somebody who may, nothing reached kube-apiserver either")
	}
}

// Nobody who has not logged in has anything stored: not by asking for a login, a device, a token or a page, however often. What guesses at the password
// of a user who exists cost is bounded by the limit on guesses.
func TestNothingIsStoredForWhoHasNotLoggedIn(t *testing.T) {
	proves(t, "S58")
	p := newPassage(t)
	base := caller{base: p.me.base}
	form := func(path string, fields ...string) call {
		v := url.Values{}
		for i := 0; i+1 < len(fields); i += 2 {
			v.Set(fields[i], fields[i+1])
		}
		return call{method: http.MethodPost, path: path, body: v.Encode()}
	}
	asks := []call{
		get("/healthz"), get("/readyz"), get("/version"), get("/oauth/keys"), get("/.well-known/openid-configuration"), get("/oauth/login"),
		get("/oauth/device"), get("/oauth/logout"), get("/oauth/userinfo"), get("/api/v1/pods"),
		get("/oauth/authorize?client_id=kubesphere&response_type=code&redirect_uri=x"), get("/oauth/callback/nobody?state=x&code=y"), form("/oauth/login",
			"form", "x", "username", "x", "password", "y"),
		form("/oauth/device_authorization", "client_id", "kubesphere", "client_secret", "kubesphere"), form("/oauth/token", "grant_type", "refresh_token",
			"refresh_token", "x", "client_id", "kubesphere", "client_secret", "kubesphere"),
		form("/oauth/token", "grant_type", "authorization_code", "code", "x", "redirect_uri", "y", "client_id", "kubesphere", "client_secret", "kubesphere"),
		form("/oauth/token", "grant_type", "urn:ietf:params:oauth:grant-type:device_code", "device_code", "x", "client_id", "kubesphere", "client_secret",
			"kubesphere"),
		form("/oauth/token", "grant_type", "client_credentials", "client_id", "nobody", "client_secret", "x"), form("/oauth/revoke", "token", "x", "client_id",
			"kubesphere", "client_secret", "kubesphere"), form("/oauth/introspect", "token", "x"),
	}
	flood := func(times int, asks ...call) (writes []string) {
		t.Helper()
		before := len(p.own(""))
		group, ctx := errgroup.WithContext(t.Context())
		for _, q := range asks {
			group.Go(func() error {
				for range times {
					if _, err := base.do(ctx, q.method, q.path, q.body, "Content-Type: application/x-www-form-urlencoded"); err != nil {
						return err
					}
				}
				return nil
			})
		}
		if err := group.Wait(); err != nil {
			t.Fatal(err)
		}
		for _, s := range p.own("")[before:] {
			// What has ended is collected by every replica when its time has come, whoever asks for what meanwhile.
			collected := s.method == http.MethodDelete && strings.HasPrefix(s.uri, "/apis/session.kapis.dev/")
			if s.method != http.MethodGet && !strings.Contains(s.uri, "reviews") && !collected {
				writes = append(writes, s.method+" "+s.uri)
			}
		}
		return writes
	}
	flood(1, asks...) // and the first hit is not the one that counts
	if writes := flood(1000, asks...); len(writes) > 0 {
		t.Errorf("%d requests of nobody had this written: %q", 1000*len(asks), writes)
	}
	for i := range 10 {
		if writes := flood(1, form("/oauth/token", "grant_type", "password", "username", fmt.Sprint("nobody-", i), "password", "x", "client_id", "kubesphere",
			"client_secret", "kubesphere")); len(writes) > 0 {
			t.Errorf("a guess at nobody's password had this written: %q", writes)
		}
	}
	guess := form("/oauth/token", "grant_type", "password", "username", p.name, "password", "Wrong-123", "client_id", "kubesphere", "client_secret",
		"kubesphere")
	first := flood(20, guess)
	if writes := flood(100, guess); len(first)+len(writes) > 40 {
		t.Errorf("120 guesses have written %q and %q", first, writes)
	}
}
