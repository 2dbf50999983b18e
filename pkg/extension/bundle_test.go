package extension_test

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/api/extensions/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/extension"
)

// sources are keys of ConfigMaps and Secrets.
type sources struct {
	mu    sync.Mutex
	keys  map[string]string // "configmap namespace/name/key"
	reads int
}

func (s *sources) Key(_ context.Context, secret bool, r *v1alpha1.KeyReference) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	kind := "configmap "
	if secret {
		kind = "secret "
	}
	text, ok := s.keys[kind+r.Namespace+"/"+r.Name+"/"+r.Key]
	if !ok {
		return nil, errors.New("no such key")
	}
	return []byte(text), nil
}

func (s *sources) put(key, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys[key] = text
}

// dist serves the files of bundles.
type dist struct {
	*fed
	*sources
	files *extension.Files
	now   time.Time
}

func newDist(t *testing.T) *dist {
	t.Helper()
	d := &dist{fed: newFed(t), sources: &sources{keys: map[string]string{}}, now: time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)}
	d.files = extension.NewFiles(d.Index, d.sources, func() time.Time { return d.now })
	return d
}

func (d *dist) get(link string, headers ...string) *httptest.ResponseRecorder {
	d.t.Helper()
	r := httptest.NewRequest(http.MethodGet, link, nil)
	for _, line := range headers {
		k, v, _ := strings.Cut(line, ": ")
		r.Header.Set(k, v)
	}
	w := httptest.NewRecorder()
	f := d.File(r.URL.Path)
	if f == nil {
		w.WriteHeader(http.StatusNotFound)
		return w
	}
	if f.Fault() != "" || d.files.Serve(w, r, f) != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	return w
}

func linked(link string) obj { return obj{"state": "Available", "link": link} }

func encoded(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

func TestABundleIsServedFromItsObject(t *testing.T) { // X13, X14
	d := newDist(t)
	code := "export default " + strings.Repeat("x", 4000)
	d.set("jsbundles", "shop", obj{"raw": encoded(code)}, linked("/dist/shop/index.js"))
	w := d.get("/dist/shop/index.js?resourceVersion=1")
	if w.Code != 200 || w.Body.String() != code || w.Header().Get("Content-Type") != "application/javascript" || w.Header().Get("X-Content-Type-Options") != "nosniff" ||
		!strings.Contains(w.Header().Get("Cache-Control"), "immutable") {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	tag := w.Header().Get("Etag")
	if w := d.get("/dist/shop/index.js", "If-None-Match: "+tag); w.Code != http.StatusNotModified || w.Header().Get("Cache-Control") != "no-cache" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	if w := d.get("/dist/shop/index.js", `If-None-Match: "x", W/`+tag); w.Code != http.StatusNotModified || w.Body.Len() > 0 {
		t.Errorf("one tag of several: %d", w.Code)
	}
	if w := d.get("/dist/shop/index.js", `If-None-Match: "x"`); w.Code != http.StatusOK || w.Header().Get("Content-Length") != strconv.Itoa(len(code)) {
		t.Errorf("another tag: %d %v", w.Code, w.Header())
	}
	if w := d.get("/dist/shop/index.js?resourceVersion=0"); w.Header().Get("Cache-Control") != "no-cache" {
		t.Errorf("a version that is over: %v", w.Header())
	}
	zipped := d.get("/dist/shop/index.js", "Accept-Encoding: gzip")
	if zipped.Header().Get("Content-Encoding") != "gzip" || zipped.Body.Len() > len(code)/2 || zipped.Header().Get("Etag") == tag {
		t.Errorf("%v, %d bytes", zipped.Header(), zipped.Body.Len())
	}
	if w := d.get("/dist/shop/index.js", "Range: bytes=0-5", "Accept-Encoding: gzip"); w.Code != http.StatusPartialContent || w.Body.String() != "export" {
		t.Errorf("%d %q", w.Code, w.Body)
	}
	d.set("jsbundles", "shop", obj{"raw": encoded(encoded("twice"))}, linked("/dist/shop/index.js"))
	if w := d.get("/dist/shop/index.js"); w.Body.String() != "twice" || w.Header().Get("Etag") == tag {
		t.Errorf("%q", w.Body)
	}
	d.set("jsbundles", "shop", obj{"raw": encoded("x")}, obj{"state": "Disabled", "link": "/dist/shop/index.js"})
	if w := d.get("/dist/shop/index.js"); w.Code != http.StatusServiceUnavailable {
		t.Errorf("disabled: %d", w.Code)
	}
	d.delete("jsbundles", "shop")
	if w := d.get("/dist/shop/index.js"); w.Code != http.StatusNotFound {
		t.Errorf("deleted: %d", w.Code)
	}
}

func TestABundleFollowsItsSource(t *testing.T) { // X14
	d := newDist(t)
	const key = "configmap shop/web/index.js"
	d.put(key, "one")
	d.set("jsbundles", "shop", obj{"rawFrom": obj{"configMapKeyRef": obj{"namespace": "shop", "name": "web", "key": "index.js"}},
		"assets": obj{"files": []obj{{"link": "/dist/shop/logo.svg", "configMapKeyRef": obj{"namespace": "shop", "name": "web", "key": "logo"}}}}},
		linked("/dist/shop/index.js"))
	d.put("configmap shop/web/logo", "<svg/>")
	for range 3 {
		if w := d.get("/dist/shop/index.js?resourceVersion=1"); w.Body.String() != "one" || w.Header().Get("Cache-Control") != "no-cache" {
			t.Fatalf("%q %v", w.Body, w.Header())
		}
	}
	if d.reads != 1 {
		t.Errorf("read %d times", d.reads)
	}
	if w := d.get("/dist/shop/logo.svg"); w.Header().Get("Content-Type") != "image/svg+xml" || !strings.Contains(w.Header().Get("Content-Security-Policy"), "sandbox") {
		t.Errorf("%v", w.Header())
	}
	d.put(key, "two")
	d.now = d.now.Add(11 * time.Second)
	if w := d.get("/dist/shop/index.js"); w.Body.String() != "two" {
		t.Errorf("after a change: %q", w.Body)
	}
	d.mu.Lock()
	delete(d.keys, key)
	d.mu.Unlock()
	d.now = d.now.Add(time.Hour)
	if w := d.get("/dist/shop/index.js"); w.Body.String() != "two" {
		t.Errorf("without its source: %d %q", w.Code, w.Body)
	}
	d.now = d.now.Add(24 * time.Hour)
	if w := d.get("/dist/shop/index.js"); w.Code != http.StatusServiceUnavailable {
		t.Errorf("without its source for a day: %d %q", w.Code, w.Body)
	}
}

// X14: a source that can't be read, which takes up to three seconds to know, is not asked by each page: the last content is there at once. Once the source is
// there again, or the bundle names another one, that counts.
func TestX14ASourceThatIsAwayIsNotAskedByEachPage(t *testing.T) {
	d := newDist(t)
	const link, key = "/dist/shop/index.js", "configmap shop/web/index.js"
	of := func(name string) obj {
		return obj{"rawFrom": obj{"configMapKeyRef": obj{"namespace": "shop", "name": name, "key": "index.js"}}}
	}
	lose := func() (reads int) {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.keys, key)
		d.now = d.now.Add(11 * time.Second)
		return d.reads
	}
	d.put(key, "one")
	d.set("jsbundles", "shop", of("web"), linked(link))
	d.get(link)
	reads := lose()
	for range 5 {
		if w := d.get(link); w.Code != http.StatusOK || w.Body.String() != "one" {
			t.Errorf("%d %q", w.Code, w.Body)
		}
	}
	if n := d.reads - reads; n != 1 {
		t.Errorf("the source was asked %d times", n)
	}
	d.put(key, "two")
	d.now = d.now.Add(11 * time.Second)
	if w := d.get(link); w.Body.String() != "two" {
		t.Errorf("%q", w.Body)
	}
	lose()
	d.get(link)
	d.put("configmap shop/other/index.js", "three")
	d.set("jsbundles", "shop", of("other"), linked(link))
	if w := d.get(link); w.Body.String() != "three" {
		t.Errorf("of another source: %q", w.Body)
	}
}

func TestABundleShowsNoSecretAndNoPage(t *testing.T) { // X13
	d := newDist(t)
	d.put("secret kube-system/admin/token", "canary")
	d.put("secret extension-shop/web/index.js", "fine")
	secret := func(namespace, name, key string) obj {
		return obj{"rawFrom": obj{"secretKeyRef": obj{"namespace": namespace, "name": name, "key": key}}}
	}
	labelled := func(spec obj) obj { spec["labels"] = obj{"kubesphere.io/extension-ref": "shop"}; return spec }
	d.set("jsbundles", "a", secret("kube-system", "admin", "token"), linked("/dist/a/index.js"))
	d.set("jsbundles", "b", labelled(secret("kube-system", "admin", "token")), linked("/dist/shop/b.js"))
	d.set("jsbundles", "c", obj{"raw": encoded("x"), "assets": obj{"files": []obj{{"link": "/dist/c/page.html", "mimeType": "text/html",
		"configMapKeyRef": obj{"namespace": "c", "name": "c", "key": "c"}}}}}, linked("/dist/c/index.js"))
	d.set("jsbundles", "d", labelled(obj{"raw": encoded("x")}), linked("/dist/other/index.js"))
	for _, link := range []string{"/dist/a/index.js", "/dist/shop/b.js", "/dist/c/page.html", "/dist/c/index.js", "/dist/other/index.js"} {
		if w := d.get(link); w.Code != http.StatusNotFound || strings.Contains(w.Body.String(), "canary") {
			t.Errorf("%s: %d %s", link, w.Code, w.Body)
		}
	}
	d.set("jsbundles", "e", labelled(secret("extension-shop", "web", "index.js")), linked("/dist/shop-more/index.js"))
	if w := d.get("/dist/shop-more/index.js"); w.Body.String() != "fine" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	for _, link := range []string{"/dist/x", "/dist/", "/dist//x.js", "/dist/x/../y.js", "/kapis/x/y.js", "/dist/x/", "/dist/x/y*.js", "/dist/x/%2e.js"} {
		d.set("jsbundles", "odd", obj{"raw": encoded("x")}, linked(link))
		if f := d.File(link); f != nil {
			t.Errorf("a bundle has the link %s", link)
		}
	}
	if w := d.get("/dist/e/none.html"); w.Code != http.StatusNotFound {
		t.Error("a link that no bundle has is served")
	}
}

func TestTheOlderBundleHasALink(t *testing.T) { // X42
	d := newDist(t)
	d.set("jsbundles", "older", obj{"raw": encoded("older")}, linked("/dist/a/index.js"))
	d.set("jsbundles", "aaa", obj{"raw": encoded("younger")}, linked("/dist/a/index.js"))
	if w := d.get("/dist/a/index.js"); w.Body.String() != "older" {
		t.Errorf("%s", w.Body)
	}
	d.delete("jsbundles", "older")
	if w := d.get("/dist/a/index.js"); w.Body.String() != "younger" {
		t.Errorf("%s", w.Body)
	}
}
