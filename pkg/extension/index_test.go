package extension_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"kapis.dev/ks-apiserver/pkg/api/extensions/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/extension"
	"kapis.dev/ks-apiserver/pkg/redaction"
	"kapis.dev/ks-apiserver/pkg/store"
)

type obj = map[string]any

// fed is an index that is fed with objects, as the cache does.
type fed struct {
	t *testing.T
	*extension.Index
	n int
}

func newFed(t *testing.T) *fed {
	t.Helper()
	return &fed{t: t, Index: extension.NewIndex(extension.Options{Taken: func(gv schema.GroupVersion) bool { return gv.Group == "iam.kubesphere.io" }})}
}

func (f *fed) set(resource, name string, spec, status obj) {
	f.t.Helper()
	f.n++
	meta := obj{"name": name, "uid": "uid-" + name, "resourceVersion": fmt.Sprint(f.n), "creationTimestamp": fmt.Sprintf("2026-01-01T00:00:%02dZ", f.n)}
	if labels, ok := spec["labels"]; ok {
		meta["labels"] = labels
		delete(spec, "labels")
	}
	raw, err := json.Marshal(obj{"metadata": meta, "spec": spec, "status": status})
	if err != nil {
		f.t.Fatal(err)
	}
	for gvr, sink := range f.Sinks() {
		if gvr.Resource == resource {
			sink.Set(&store.Object{Name: name, Raw: redaction.Bytes(raw)})
		}
	}
}

func (f *fed) delete(resource, name string) {
	for gvr, sink := range f.Sinks() {
		if gvr.Resource == resource {
			sink.Delete("", name)
		}
	}
}

var available = obj{"state": "Available"}

func (f *fed) service(name, group string) {
	f.set("apiservices", name, obj{"group": group, "version": "v1", "url": "http://backend.example/ignored"}, available)
}

func (f *fed) proxy(name, path, method string) {
	f.set("reverseproxies", name, obj{"matcher": obj{"path": path, "method": method}, "upstream": obj{"url": "http://backend.example"}}, available)
}

func (f *fed) matches(method, path string) string {
	if b := f.Proxy(method, path); b != nil {
		return b.Name
	}
	return ""
}

func TestAGroupHasTheOldestAPIService(t *testing.T) { // X1, X2
	f := newFed(t)
	at := func(group string) *extension.Backend {
		return f.Service(schema.GroupVersion{Group: group, Version: "v1"})
	}
	f.service("first", "shop.example.com")
	f.service("second", "shop.example.com")
	if b := at("shop.example.com"); b == nil || b.Name != "first" || b.Fault != "" || b.Upstream == nil || b.Base != "/kapis/shop.example.com/v1" {
		t.Fatalf("%+v", b)
	}
	before := at("shop.example.com").Upstream
	f.service("third", "other.example.com")
	if at("other.example.com").Upstream != before {
		t.Error("two objects with one backend have two upstreams")
	}
	f.delete("apiservices", "first")
	if b := at("shop.example.com"); b == nil || b.Name != "second" || b.Upstream != before {
		t.Errorf("%+v", b)
	}
	f.set("apiservices", "second", obj{"group": "shop.example.com", "version": "v1", "url": "http://elsewhere.example"}, available)
	if b := at("shop.example.com"); b.Upstream == before || b.Address.Host != "elsewhere.example" { // X12
		t.Errorf("%+v", b.Upstream)
	}
	for _, group := range []string{"iam.kubesphere.io", "apps", "rbac.authorization.k8s.io", "Bad"} { // whose own routes answer
		f.service("taker", group)
		if b := at(group); b != nil {
			t.Errorf("%s: %+v", group, b)
		}
	}
	f.set("apiservices", "off", obj{"group": "off.example.com", "version": "v1", "url": "http://backend.example"}, obj{"state": "Disabled"})
	if b := at("off.example.com"); b == nil || !strings.Contains(b.Fault, `"Disabled"`) || b.Upstream != nil {
		t.Errorf("%+v", b)
	}
}

// A backend may have its group below another root than ours; one that is no path is told, and nothing is passed on.
func TestX4TheRootOfABackendIsAPath(t *testing.T) {
	for root, want := range map[string]string{"/apis": "", "/a/b": "", "apis": "no path", "": "no path", "/": "no path", "/apis/": "no path",
		"/../apis": "no path", "/a/%2e%2e": "no path", "/apis?x=": "no path", "//host": "no path", "/a\b": "no path", "/a//b": "no path", "/a\r\nX: y": "no path",
		"http://host/apis": "no path"} {
		o := &v1alpha1.APIService{ObjectMeta: metav1.ObjectMeta{Name: "shop", Annotations: map[string]string{v1alpha1.AnnotationRoot: root}},
			Spec: v1alpha1.APIServiceSpec{Group: "shop.example.com", Version: "v1", Endpoint: v1alpha1.Endpoint{URL: ptr.To("http://backend.example")}}}
		err := extension.CheckAPIService(o, nil)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", root, err)
		}
		f := newFed(t)
		o.Status.State = v1alpha1.StateAvailable
		raw, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		for gvr, sink := range f.Sinks() {
			if gvr.Resource == "apiservices" {
				sink.Set(&store.Object{Name: "shop", Raw: redaction.Bytes(raw)})
			}
		}
		b := f.Service(schema.GroupVersion{Group: "shop.example.com", Version: "v1"})
		if b == nil || !strings.Contains(b.Fault, want) || want == "" && (b.Fault != "" || b.Root != root) {
			t.Errorf("%q: %+v", root, b)
		}
	}
}

func TestPathsAreMatchedByRank(t *testing.T) { // X3
	f := newFed(t)
	f.proxy("all", "/proxy/a/*", "*")
	f.proxy("younger", "/proxy/a/*", "*")
	f.proxy("posts", "/proxy/a/*", "POST")
	f.proxy("deeper", "/proxy/a/b/*", "*")
	f.proxy("exact", "/proxy/a/b/c", "GET")
	f.proxy("prefix", "/proxy/abc*", "*")
	for request, want := range map[string]string{
		"GET /proxy/a/x": "all", "POST /proxy/a/x": "posts", "GET /proxy/a/b/x": "deeper", "POST /proxy/a/b/x": "deeper", "GET /proxy/a/b/c": "exact",
		"POST /proxy/a/b/c": "deeper", "GET /proxy/a": "", "GET /proxy/a/": "all", "GET /proxy/abcd": "prefix", "GET /proxy/ab": "", "GET /proxy/b": "",
	} {
		method, path, _ := strings.Cut(request, " ")
		if got := f.matches(method, path); got != want {
			t.Errorf("%s: %q, want %q", request, got, want)
		}
	}
	for _, path := range []string{"/", "/proxy/", "/proxy/*", "/kapis/x/*", "/proxy/../kapis", "/proxy/a//b", "/proxy/a*b", "proxy/a", "/proxy/a?b", "/oauth/*"} {
		f.proxy("odd", path, "*")
		if got := f.matches("GET", strings.TrimSuffix(path, "*")+"x"); got == "odd" {
			t.Errorf("%s matches", path)
		}
	}
	f.set("reverseproxies", "theirs", obj{"labels": obj{"kubesphere.io/reverse-proxy-target": "ks-console"}, "matcher": obj{"path": "/proxy/console/*"},
		"upstream": obj{"url": "http://backend.example"}}, available)
	if got := f.matches("GET", "/proxy/console/x"); got != "" {
		t.Errorf("what the console serves is served by %s", got)
	}
	f.delete("reverseproxies", "exact")
	if got := f.matches("GET", "/proxy/a/b/c"); got != "deeper" {
		t.Errorf("without the exact one: %s", got)
	}
}

// X3, X42: of ReverseProxies of two extensions of which one matches in the other's path, the older one has its whole path, in whatever order they are seen.
func TestX3NobodyMatchesInAnothersPath(t *testing.T) {
	type one struct{ name, extension, path, method string }
	all := []one{ // by age
		{"narrow", "early", "/proxy/shop/early/*", "*"}, {"a", "grafana", "/proxy/grafana/*", "*"}, {"deeper", "grafana", "/proxy/grafana/own/*", "*"},
		{"api", "other", "/proxy/grafana/api/*", "*"}, {"post", "other", "/proxy/grafana/*", "POST"}, {"exact", "other", "/proxy/grafana/login", "GET"},
		{"admins", "", "/proxy/grafana/x", "*"}, {"wide", "shop", "/proxy/shop/*", "*"}, {"below", "third", "/proxy/shop/third/*", "*"},
		{"gets", "reader", "/proxy/m/*", "GET"}, {"posts", "writer", "/proxy/m/*", "POST"}, {"near", "other", "/proxy/grafanas/*", "*"},
	}
	f := newFed(t)
	set := func(i int) {
		f.n = i
		o := all[i]
		f.set("reverseproxies", o.name, obj{"labels": obj{v1alpha1.LabelExtension: o.extension}, "matcher": obj{"path": o.path, "method": o.method},
			"upstream": obj{"url": "http://backend.example"}}, available)
	}
	for i := range all {
		set(len(all) - 1 - i)
	}
	for request, want := range map[string]string{
		"GET /proxy/grafana/api/x": "a", "POST /proxy/grafana/y": "a", "GET /proxy/grafana/login": "a", "GET /proxy/grafana/x": "a",
		"GET /proxy/grafana/own/x": "deeper", "GET /proxy/grafanas/x": "near",
		"GET /proxy/shop/early/x": "narrow", "GET /proxy/shop/x": "", "GET /proxy/shop/third/x": "below", "GET /proxy/m/x": "gets", "POST /proxy/m/x": "posts",
	} {
		method, path, _ := strings.Cut(request, " ")
		if got := f.matches(method, path); got != want {
			t.Errorf("%s: %q, want %q", request, got, want)
		}
	}
	f.delete("reverseproxies", "a")
	if got := f.matches("GET", "/proxy/grafana/api/x"); got != "api" {
		t.Errorf("once the path is free, %q has it", got)
	}
}

// Backends at one host share connections, and each has its own path.
func TestBackendsOfOneHostHaveTheirOwnPaths(t *testing.T) { // X4, X12
	f := newFed(t)
	for _, name := range []string{"a", "b"} {
		f.set("reverseproxies", name, obj{"matcher": obj{"path": "/proxy/" + name + "/*"}, "upstream": obj{"url": "http://backend.example/in-" + name}}, available)
	}
	a, b := f.Proxy("GET", "/proxy/a/x"), f.Proxy("GET", "/proxy/b/x")
	if a.Upstream != b.Upstream || a.Address.Path != "/in-a" || b.Address.Path != "/in-b" {
		t.Errorf("%+v %+v", a.Address, b.Address)
	}
}

func TestEndpointsAreURLsOrServices(t *testing.T) { // X6
	for want, spec := range map[string]obj{
		"http web.shop.svc:8080 ":        {"service": obj{"namespace": "shop", "name": "web", "port": 8080}},
		"https web.shop.svc:443 /x":      {"service": obj{"namespace": "shop", "name": "web", "path": "x/"}},
		"https backend.example:8443 /in": {"url": "https://Backend.example:8443/in/"},
	} {
		f := newFed(t)
		f.set("reverseproxies", "p", obj{"matcher": obj{"path": "/proxy/p/*"}, "upstream": spec}, available)
		b := f.Proxy("GET", "/proxy/p/x")
		if b == nil || b.Upstream == nil {
			t.Errorf("%v: %+v", spec, b)
			continue
		}
		if a := b.Address; a.Scheme+" "+a.Host+" "+a.Path != want {
			t.Errorf("%v: %+v", spec, a)
		}
	}
	for _, spec := range []obj{
		{}, {"url": "ftp://x"}, {"url": "http://user:secret@x"}, {"url": "http://x?y=z"}, {"url": "x"}, {"url": "http://x", "caBundle": "bm8="},
		{"url": "http://x", "service": obj{"namespace": "a", "name": "b"}}, {"service": obj{"namespace": "a/b", "name": "c"}},
		{"service": obj{"namespace": "a", "name": "b.evil.example#"}}, {"service": obj{"namespace": "a", "name": "b", "path": "/../x"}},
	} {
		f := newFed(t)
		f.set("reverseproxies", "p", obj{"matcher": obj{"path": "/proxy/p/*"}, "upstream": spec}, available)
		if b := f.Proxy("GET", "/proxy/p/x"); b == nil || !strings.Contains(b.Fault, "not valid") || strings.Contains(b.Fault, "secret") {
			t.Errorf("%v: %+v", spec, b)
		}
	}
}
