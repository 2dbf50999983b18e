package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/coreos/go-oidc/v3/oidc"
)

const extensionsAPI = "/apis/extensions.kubesphere.io/v1alpha1"

// shopBackend is the backend of an extension, as somebody else would write it: it answers with what it was asked, and by whom.
type shopBackend struct {
	*httptest.Server
	// document is what it has at /openapi/v2, which is asked for by nobody's request.
	document string
	mu       sync.Mutex
	last     *http.Request
}

func newShopBackend(t *testing.T) *shopBackend {
	t.Helper()
	b := &shopBackend{}
	b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/openapi/v2" {
			_, _ = io.WriteString(w, b.document)
			return
		}
		if isProbe(r) {
			return
		}
		raw, _ := io.ReadAll(r.Body)
		b.mu.Lock()
		b.last = r
		b.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(obj{"asked": r.Method + " " + r.RequestURI, "user": r.Header.Get("X-Remote-User"), "body": string(raw)})
	}))
	t.Cleanup(b.Close)
	return b
}

// isProbe reports whether a request is one of the platform itself, which come at any time: ks-controller-manager's question whether a backend
// answers, and ks-apiserver's for its OpenAPI document.
func isProbe(r *http.Request) bool {
	return r.Method == http.MethodHead && r.RequestURI == "/" || r.Method == http.MethodGet && r.RequestURI == "/openapi/v2"
}

// asked returns what the backend was asked last.
func (b *shopBackend) asked() *http.Request {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.last
}

func (b *shopBackend) header(name string) string { return b.asked().Header.Get(name) }

func extensionObject(kind, name string, spec obj) obj {
	return obj{"apiVersion": "extensions.kubesphere.io/v1alpha1", "kind": kind, "metadata": obj{"name": name}, "spec": spec}
}

// answersWith returns whether a GET is answered with a code, and a text in it.
func (c caller) answersWith(code int, path, text string) func(context.Context) error {
	return func(ctx context.Context) error {
		r, err := c.do(ctx, http.MethodGet, path, nil)
		if err == nil && (r.code != code || !strings.Contains(r.body, text)) {
			err = fmt.Errorf("GET %s = %d %s, want %d and %s", path, r.code, clip(r.body), code, text)
		}
		return err
	}
}

// X1, X2, X5, X10: who may ask an extension's group is passed on to its backend, which is told who that is, and by a token that a library of OpenID
// Connect verifies; nobody else is, and no other group is taken.
func TestAnExtensionAnswersForItsGroup(t *testing.T) {
	a, b := admin(t), newShopBackend(t)
	group, name, stranger := unique("shop")+".example.com", unique("buyer"), unique("stranger")
	path := "/kapis/" + group + "/v1/namespaces/default/things"
	a.must(t, http.StatusNotFound, http.MethodGet, path, nil)
	a.create(t, extensionsAPI+"/apiservices", extensionObject("APIService", group, obj{"group": group, "version": "v1", "url": b.URL}))
	within(t, revocation, "the group is served", a.answersWith(http.StatusOK, path, `"user":"admin"`))
	eventually(t, "it is noted that the backend answers", a.answersWith(http.StatusOK, extensionsAPI+"/apiservices/"+group, `"type":"Reachable"`))

	buyer := withRole(t, name, obj{"rules": []rule{{[]string{group}, []string{"things"}, []string{"get", "list"}}}})
	nobody := newUser(t, stranger)
	eventually(t, "the right counts", buyer.answersWith(http.StatusOK, path+"?a=%2F", `"asked":"GET `+path+`?a=%2F"`))
	for _, c := range []caller{nobody, anonymous()} {
		c.must(t, http.StatusForbidden, http.MethodGet, path, nil)
	}
	buyer.must(t, http.StatusForbidden, http.MethodPost, path, obj{})
	buyer.must(t, http.StatusForbidden, http.MethodGet, strings.Replace(path, "things", "secrets", 1), nil)
	buyer.must(t, http.StatusOK, http.MethodGet, path, nil, "X-Remote-User: root", "Cookie: token="+a.token)
	token := strings.TrimPrefix(b.header("Authorization"), "Bearer ")
	if b.header("X-Remote-User") != name || strings.Contains(fmt.Sprint(b.asked().Header), a.token) || token == buyer.token {
		t.Errorf("the backend is told %v", b.asked().Header)
	}
	payload, err := oidc.NewRemoteKeySet(t.Context(), product.URL+"/oauth/keys").VerifySignature(t.Context(), token)
	var claims struct {
		Audience []string `json:"aud"`
		Username string   `json:"username"`
	}
	if err != nil || json.Unmarshal(payload, &claims) != nil || claims.Username != name ||
		len(claims.Audience) != 1 || claims.Audience[0] != "apiservice:"+group+"/v1" {
		t.Errorf("%s, %v", payload, err)
	}
	for _, at := range []string{path, "/api/v1/namespaces", "/oauth/userinfo"} { // it opens nothing here
		if r, err := (caller{product.URL, token}).do(t.Context(), http.MethodGet, at, nil); err != nil || r.code != http.StatusUnauthorized {
			t.Errorf("the token of a backend opens %s: %d %v", at, r.code, err)
		}
	}

	two, err := product.Replica(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = two.Stop() })
	other := caller{two.URL, a.token}
	eventually(t, "another replica serves it", other.answersWith(http.StatusOK, path, `"user":"admin"`))
	a.must(t, http.StatusOK, http.MethodPatch, extensionsAPI+"/apiservices/"+group, `{"status":{"state":"Disabled"}}`, asMerge)
	for _, c := range []caller{a, other} {
		within(t, revocation, "a disabled one is not served", c.answersWith(http.StatusServiceUnavailable, path, "Disabled"))
	}
	a.must(t, http.StatusOK, http.MethodDelete, extensionsAPI+"/apiservices/"+group, nil)
	within(t, revocation, "a deleted one is gone", a.is(http.StatusNotFound, http.MethodGet, path))
}

// X6: neither this server nor kube-apiserver is a backend, whoever asks.
func TestNoExtensionLeadsToThisServerOrToKubeAPIServer(t *testing.T) {
	kube, err := product.RESTConfig()
	if err != nil {
		t.Fatal(err)
	}
	for _, url := range []string{product.URL, product.TLSURL, kube.Host} {
		group := unique("self") + ".example.com"
		admin(t).create(t, extensionsAPI+"/apiservices", extensionObject("APIService", group, obj{"group": group, "version": "v1", "url": url,
			"insecureSkipVerify": true}))
		eventually(t, url+" is not connected to", admin(t).answersWith(http.StatusServiceUnavailable, "/kapis/"+group+"/v1/things", "can't be reached"))
	}
}

// X3, X4, X7, X8: paths below /proxy/ take the right to the path that is asked for, and go where the directives say.
func TestAReverseProxyServesItsPath(t *testing.T) {
	a, b := admin(t), newShopBackend(t)
	name, who := unique("pages"), unique("reader")
	root := "/proxy/" + name
	a.create(t, extensionsAPI+"/reverseproxies", extensionObject("ReverseProxy", name, obj{
		"matcher": obj{"path": root + "/*", "method": "*"}, "upstream": obj{"url": b.URL},
		"directives": obj{"stripPathPrefix": root, "authProxy": true, "headerUp": []string{"-Authorization", "+X-WEBAUTH-USER {user.name}"}}}))
	within(t, revocation, "the path is served", a.answersWith(http.StatusOK, root+"/a/b?q=1", `"asked":"GET /a/b?q=1"`))
	a.must(t, http.StatusOK, http.MethodGet, root+"/dashboards/", nil)
	if b.header("X-Webauth-User") != "admin" || b.header("Authorization") != "" || b.asked().RequestURI != "/dashboards/" {
		t.Errorf("%s %v", b.asked().RequestURI, b.asked().Header)
	}
	u := newUser(t, who)
	u.must(t, http.StatusForbidden, http.MethodGet, root+"/a", nil)
	anonymous().must(t, http.StatusForbidden, http.MethodGet, root+"/a", nil)
	a.create(t, iamAPI+"/globalroles", iamObject("GlobalRole", who, obj{
		"rules": []obj{{"nonResourceURLs": []string{root + "/a", root + "/a/*"}, "verbs": []string{"get"}}}}))
	bindGlobal(t, who, who)
	eventually(t, "the right counts", u.answersWith(http.StatusOK, root+"/a/x", `"user":"`+who+`"`))
	u.must(t, http.StatusForbidden, http.MethodGet, root+"/b", nil)
	u.must(t, http.StatusForbidden, http.MethodPost, root+"/a/x", nil)
	for _, path := range []string{root + "/a/../b", root + "/a/..%2fb", root + "//b"} {
		if r, err := u.do(t.Context(), http.MethodGet, path, nil); err != nil || r.code < 400 {
			t.Errorf("%s: %d %s %v", path, r.code, clip(r.body), err)
		}
	}
	b.Close()
	within(t, revocation, "a backend that is gone is told", a.is(http.StatusServiceUnavailable, http.MethodGet, root+"/a"))
	a.must(t, http.StatusOK, http.MethodGet, kapis+"/namespaces", nil) // X10: nothing else suffers
}

// X13, X14: a bundle is at its link for everybody, changes with its source, and shows nothing that its writer may not read.
func TestABundleOfAnExtensionIsServed(t *testing.T) {
	a, name, ns := admin(t), unique("bundle"), newNamespace(t)
	link := "/dist/" + name + "/index.js"
	a.create(t, "/api/v1/namespaces/"+ns+"/configmaps", obj{"apiVersion": "v1", "kind": "ConfigMap", "metadata": obj{"name": name},
		"data": obj{"index.js": "export default 1"}})
	spec := obj{"rawFrom": obj{"configMapKeyRef": obj{"namespace": ns, "name": name, "key": "index.js"}}}
	a.create(t, extensionsAPI+"/jsbundles", extensionObject("JSBundle", name, spec))
	eventually(t, "the bundle is served", anonymous().answersWith(http.StatusOK, link, "export default 1"))
	read := func() (version, digest string) {
		var o struct {
			Metadata struct {
				ResourceVersion string
				Annotations     map[string]string
			}
			Status struct{ State, Link string }
		}
		body := a.must(t, http.StatusOK, http.MethodGet, extensionsAPI+"/jsbundles/"+name, nil).body
		if err := json.Unmarshal([]byte(body), &o); err != nil || o.Status.State != "Available" || o.Status.Link != link {
			t.Fatalf("%+v %v", o, err)
		}
		return o.Metadata.ResourceVersion, o.Metadata.Annotations["kapis.dev/sha256"]
	}
	var version, digest string
	eventually(t, "its digest is noted", func(context.Context) error {
		if version, digest = read(); digest == "" {
			return fmt.Errorf("version %s has none", version)
		}
		return nil
	})
	eventually(t, "the address of the version may be cached", func(ctx context.Context) error {
		r, err := anonymous().do(ctx, http.MethodGet, link+"?resourceVersion="+version, nil)
		if err == nil && !strings.Contains(r.header.Get("Cache-Control"), "immutable") {
			err = fmt.Errorf("%v", r.header)
		}
		return err
	})
	a.write(t, http.MethodPatch, "/api/v1/namespaces/"+ns+"/configmaps/"+name, `{"data":{"index.js":"export default 2"}}`, asMerge)
	eventually(t, "its address changes with its content", func(context.Context) error {
		if now, next := read(); now == version || next == digest {
			return fmt.Errorf("version %s still", now)
		}
		return nil
	})
	eventually(t, "the new content is served", anonymous().answersWith(http.StatusOK, link, "export default 2"))

	who := unique("author")
	author := withRole(t, who, obj{"rules": []rule{{[]string{"extensions.kubesphere.io"}, []string{"*"}, []string{"*"}}}})
	// kube-apiserver knows the right a moment after this server, and a write asks both.
	eventually(t, "the right counts", author.accepts(http.StatusCreated, http.MethodPost, extensionsAPI+"/jsbundles?dryRun=All",
		extensionObject("JSBundle", unique("own"), obj{"raw": []byte("x")})))
	r, err := author.do(t.Context(), http.MethodPost, extensionsAPI+"/jsbundles", extensionObject("JSBundle", unique("thief"), spec))
	if err != nil || r.code < 400 || r.code >= 500 || !strings.Contains(r.body, "may not get configmaps") {
		t.Errorf("who may not read a ConfigMap shows it: %d %s %v", r.code, clip(r.body), err)
	}
}

// X4, X29, X42: what nothing could be served of is refused when it is written, and so is what another one has.
func TestObjectsOfExtensionsAreJudged(t *testing.T) {
	a, name := admin(t), unique("judged")
	url := "http://backend.example"
	first := func(kind, plural string, spec obj) {
		a.create(t, extensionsAPI+"/"+plural, extensionObject(kind, name, spec))
	}
	first("APIService", "apiservices", obj{"group": name + ".example.com", "version": "v1", "url": url})
	first("ReverseProxy", "reverseproxies", obj{"matcher": obj{"path": "/proxy/" + name + "/*"}, "upstream": obj{"url": url}})
	first("JSBundle", "jsbundles", obj{"raw": []byte("x")})
	first("ExtensionEntry", "extensionentries", obj{"entries": []obj{{"name": name, "link": "/" + name}}})
	for _, c := range []struct {
		kind, plural string
		spec         obj
		say          string
		taken        bool
	}{
		{"APIService", "apiservices", obj{"group": name + ".example.com", "version": "v1", "url": url}, name + " has", true},
		{"APIService", "apiservices", obj{"group": "iam.kubesphere.io", "version": "v1beta1", "url": url}, "served by this server", false},
		{"APIService", "apiservices", obj{"group": "apps", "version": "v1", "url": url}, "Kubernetes' own", false},
		{"APIService", "apiservices", obj{"group": "x.example.com", "version": "v1"}, "neither a url nor a service", false},
		{"APIService", "apiservices", obj{"group": "x.example.com", "version": "v1", "url": "file:///etc/passwd"}, "http or https", false},
		{"ReverseProxy", "reverseproxies", obj{"matcher": obj{"path": "/proxy/" + name + "/*", "method": "*"}, "upstream": obj{"url": url}}, "already", true},
		{"ReverseProxy", "reverseproxies", obj{"matcher": obj{"path": "/kapis/*"}, "upstream": obj{"url": url}}, "below /proxy/", false},
		{"ReverseProxy", "reverseproxies", obj{"matcher": obj{"path": "/proxy/x/*"}, "upstream": obj{"url": url},
			"directives": obj{"headerUp": []string{"X-Remote-User root"}}}, "headerUp[0]", false},
		{"ReverseProxy", "reverseproxies", obj{"matcher": obj{"path": "/proxy/x/*"}, "upstream": obj{"url": url},
			"directives": obj{"pathRegexp": []string{"( x"}}}, "pathRegexp[0]", false},
		{"JSBundle", "jsbundles", obj{}, "neither raw nor rawFrom", false},
		{"JSBundle", "jsbundles", obj{"rawFrom": obj{"secretKeyRef": obj{"namespace": "kubesphere-system", "name": "x", "key": "y"}}}, "read by everybody", false},
		{"ExtensionEntry", "extensionentries", obj{"entries": []obj{{"name": name}}}, "already", true},
		{"ExtensionEntry", "extensionentries", obj{"entries": []obj{{"name": "x", "link": "javascript:alert(1)"}}}, "neither a path", false},
	} {
		code := http.StatusUnprocessableEntity
		if c.taken {
			code = http.StatusConflict
		}
		r, err := a.do(t.Context(), http.MethodPost, extensionsAPI+"/"+c.plural, extensionObject(c.kind, unique("bad"), c.spec))
		if err != nil || r.code != code || !strings.Contains(r.body, c.say) {
			t.Errorf("%s %v: %d %s %v, want %d and %s", c.kind, c.spec, r.code, clip(r.body), err, code, c.say)
		}
	}
	r := a.must(t, http.StatusOK, http.MethodGet, extensionsAPI+"/extensionentries/"+name, nil)
	if !strings.Contains(r.body, `"state":"Available"`) {
		t.Errorf("an object has no state: %s", r.body)
	}
}

// X42, X3: of objects that are written at one moment, and have one path, the webhook may see none before the other; the oldest one is served, everywhere.
func TestX42OfObjectsOfOneMomentTheOldestIsServed(t *testing.T) {
	a, b, root := admin(t), newShopBackend(t), "/proxy/"+unique("race")
	const at = 8
	var all sync.WaitGroup
	codes := make([]int, at)
	names := make([]string, at)
	for i := range at {
		names[i] = unique("racer")
		t.Cleanup(func() {
			_, _ = a.do(context.Background(), http.MethodDelete, extensionsAPI+"/reverseproxies/"+names[i], nil)
		})
		all.Go(func() {
			r, err := a.do(t.Context(), http.MethodPost, extensionsAPI+"/reverseproxies", extensionObject("ReverseProxy", names[i], obj{
				"matcher": obj{"path": root + "/*"}, "upstream": obj{"url": b.URL}, "directives": obj{"headerUp": []string{"X-Which " + names[i]}}}))
			if err != nil || r.code != http.StatusCreated && (r.code != http.StatusConflict || !strings.Contains(r.body, "already")) {
				t.Errorf("%d %s %v", r.code, clip(r.body), err)
			}
			codes[i] = r.code
		})
	}
	all.Wait()
	var oldest, since string
	for i, name := range names {
		if codes[i] != http.StatusCreated {
			a.must(t, http.StatusNotFound, http.MethodGet, extensionsAPI+"/reverseproxies/"+name, nil)
			continue
		}
		o := decode[struct {
			Metadata struct{ CreationTimestamp string }
		}](t, a.must(t, http.StatusOK, http.MethodGet, extensionsAPI+"/reverseproxies/"+name, nil).body)
		if made := o.Metadata.CreationTimestamp; oldest == "" || made < since || made == since && name < oldest {
			oldest, since = name, made
		}
	}
	if oldest == "" {
		t.Fatal("none is there")
	}
	within(t, revocation, "the oldest one is served", func(ctx context.Context) error {
		if err := a.answersWith(http.StatusOK, root+"/x", `"asked"`)(ctx); err != nil {
			return err
		}
		if is := b.header("X-Which"); is != oldest {
			return fmt.Errorf("%s is served, and not %s", is, oldest)
		}
		return nil
	})
}
