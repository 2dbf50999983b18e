package discovery_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	restful "github.com/emicklei/go-restful/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientdiscovery "k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"kapis.dev/ks-apiserver/pkg/extension"
	"kapis.dev/ks-apiserver/pkg/kapis/discovery"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/resource"
	"kapis.dev/ks-apiserver/pkg/store"
)

// served is what kube-apiserver says: the kinds, and whether it answers.
type served struct{ more, silent atomic.Bool }

func (s *served) GroupsAndMaybeResourcesWithContext(context.Context) (*metav1.APIGroupList, map[schema.GroupVersion]*metav1.APIResourceList,
	map[schema.GroupVersion]error, error,
) {
	if s.silent.Load() {
		return nil, nil, nil, http.ErrHandlerTimeout
	}
	all := metav1.Verbs{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}
	lists := map[schema.GroupVersion]*metav1.APIResourceList{
		{Version: "v1"}: {APIResources: []metav1.APIResource{
			{Name: "pods", Kind: "Pod", Namespaced: true, Verbs: all, ShortNames: []string{"po"}, Categories: []string{"all"}, SingularName: "pod"},
			{Name: "namespaces", Kind: "Namespace", Verbs: all},
			{Name: "pods/log", Kind: "Pod", Namespaced: true, Verbs: metav1.Verbs{"get"}},
		}},
		{Group: "authorization.k8s.io", Version: "v1"}: {APIResources: []metav1.APIResource{
			{Name: "subjectaccessreviews", Kind: "SubjectAccessReview", Verbs: metav1.Verbs{"create"}},
		}},
		{Group: "things.example", Version: "v1"}: {APIResources: []metav1.APIResource{{Name: "things", Kind: "Thing", Verbs: all}}},
	}
	groups := &metav1.APIGroupList{}
	names := []string{"", "authorization.k8s.io"}
	if s.more.Load() {
		names = append(names, "things.example")
	}
	for _, name := range names {
		v := metav1.GroupVersionForDiscovery{GroupVersion: schema.GroupVersion{Group: name, Version: "v1"}.String(), Version: "v1"}
		groups.Groups = append(groups.Groups, metav1.APIGroup{Name: name, PreferredVersion: v, Versions: []metav1.GroupVersionForDiscovery{v}})
	}
	return groups, lists, nil, nil
}

func (*served) ServerResourcesForGroupVersionWithContext(context.Context, string) (*metav1.APIResourceList, error) {
	return nil, nil
}

// world is a Handler, the catalog that it reads, and what kube-apiserver says.
type world struct {
	http.Handler
	catalog *store.Catalog
	kube    *served
}

func newWorld(t *testing.T, kube *served) world {
	t.Helper()
	srv := httptest.NewServer(http.NotFoundHandler())
	ctx, cancel := context.WithCancel(context.Background())
	st, err := store.New(ctx, store.Options{Config: &rest.Config{Host: srv.URL}, Discovery: kube, Schemas: resource.Schemas(), SyncWait: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); srv.Close() })
	own := new(restful.WebService).Path("/kapis/own.example/v1beta1")
	nothing := func(*restful.Request, *restful.Response) {}
	own.Route(own.GET("/namespaces").To(nothing))
	own.Route(own.GET("/namespaces/{namespace}/quotas").To(nothing))
	own.Route(own.PUT("/users/{user}/password").To(nothing))
	own.Route(own.GET("/{resources}").To(nothing))
	h, err := discovery.New(discovery.Options{Catalog: st.Catalog(), Services: []*restful.WebService{own},
		ByName: schema.GroupVersion{Group: "names.example", Version: "v1"}})
	if err != nil {
		t.Fatal(err)
	}
	st.Catalog().Refresh(t.Context())
	return world{h, st.Catalog(), kube}
}

func (w world) get(path, tag string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	if tag != "" {
		r.Header.Set("If-None-Match", tag)
	}
	rec := httptest.NewRecorder()
	w.ServeHTTP(rec, r)
	return rec
}

// underKapis sends a discovery client's requests to the roots of this server.
type underKapis struct{ http.RoundTripper }

func (u underKapis) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if rest, ok := strings.CutPrefix(r.URL.Path, "/api"); ok {
		r.URL.Path = "/kapi" + rest // of /api and of /apis
	}
	return u.RoundTripper.RoundTrip(r)
}

func TestClientGoWalksTheDocuments(t *testing.T) {
	srv := httptest.NewServer(newWorld(t, &served{}))
	defer srv.Close()
	client, err := clientdiscovery.NewDiscoveryClientForConfig(&rest.Config{Host: srv.URL,
		WrapTransport: func(rt http.RoundTripper) http.RoundTripper { return underKapis{rt} }})
	if err != nil {
		t.Fatal(err)
	}
	_, lists, err := client.ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]metav1.APIResource{}
	for _, list := range lists {
		for _, r := range list.APIResources {
			got[list.GroupVersion+" "+r.Name] = r
		}
	}
	for key, want := range map[string]metav1.APIResource{
		"v1 pods": {Kind: "Pod", Namespaced: true,
			Verbs: metav1.Verbs{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}},
		"authorization.k8s.io/v1 subjectaccessreviews": {Kind: "SubjectAccessReview", Verbs: metav1.Verbs{"create"}},
		"own.example/v1beta1 namespaces":               {Kind: "Namespace", Verbs: metav1.Verbs{"list"}, Version: "v1"},
		"own.example/v1beta1 quotas":                   {Kind: "Quotas", Namespaced: true, Verbs: metav1.Verbs{"list"}},
		"own.example/v1beta1 users/password":           {Kind: "Password", Verbs: metav1.Verbs{"update"}},
		"names.example/v1 pods":                        {Kind: "Pod", Namespaced: true, Verbs: metav1.Verbs{"get", "list", "watch"}, Version: "v1"},
	} {
		r, ok := got[key]
		// Clients fill in the version of the list where a resource has none.
		if !ok || r.Kind != want.Kind || r.Namespaced != want.Namespaced || !slices.Equal(r.Verbs, want.Verbs) {
			t.Errorf("%s: %+v, want %+v", key, r, want)
		}
		if want.Version != "" && r.Version != want.Version {
			t.Errorf("%s: is of version %q, want %q", key, r.Version, want.Version)
		}
	}
	if _, ok := got["names.example/v1 subjectaccessreviews"]; ok {
		t.Error("a kind that can't be listed is offered by its name")
	}
	groups, err := restmapper.GetAPIGroupResources(client)
	if err != nil {
		t.Fatal(err)
	}
	short := restmapper.NewShortcutExpander(restmapper.NewDiscoveryRESTMapper(groups), client, nil)
	if gvr, err := short.ResourceFor(schema.GroupVersionResource{Resource: "po"}); err != nil || gvr.Resource != "pods" {
		t.Errorf("po is %v: %v", gvr, err)
	}
}

// X11: groups of extensions are told as their backends describe their routes, and as nothing else: of another one's group or of one that was left out
// nothing is.
func TestX11DocumentsHaveTheGroupsOfExtensions(t *testing.T) {
	w := newWorld(t, &served{})
	of := func(of any, routes map[schema.GroupVersion][]extension.Route) {
		w.Handler.(*discovery.Handler).Extensions = func(context.Context) (map[schema.GroupVersion][]extension.Route, any) { return routes, of }
	}
	route := func(method, path, kind string) extension.Route {
		pattern, err := request.ParsePattern(method, path)
		if err != nil {
			t.Fatal(err)
		}
		return extension.Route{Pattern: pattern, Kind: kind}
	}
	const base = "/kapis/shop.example/v1"
	shop, late := schema.GroupVersion{Group: "shop.example", Version: "v1"}, schema.GroupVersion{Group: "shop.example", Version: "v1beta1"}
	of("first", map[schema.GroupVersion][]extension.Route{shop: {
		route("GET", base+"/namespaces/{namespace}/orders", "Order"), route("POST", base+"/namespaces/{namespace}/orders", "Order"),
		route("GET", base+"/watch/namespaces/{namespace}/orders", "Order"), route("GET", base+"/namespaces/{namespace}/orders/{name}", "Order"),
		route("DELETE", base+"/namespaces/{namespace}/orders", "Order"), route("PUT", base+"/namespaces/{namespace}/orders/{name}/status", "Order"),
		route("GET", base+"/orders", "Order"), route("GET", base+"/pods", ""), route("GET", base, ""), route("GET", "/kapis/other.example/v1/things", "Thing"),
		route("GET", "/kapis/{group}/v1/x", ""),
	}, late: nil})
	first := w.get("/kapis", "")
	if !strings.Contains(first.Body.String(), `"shop.example/v1"`) || strings.Contains(first.Body.String(), "other.example") ||
		strings.Contains(first.Body.String(), `"shop.example/v1beta1"`) {
		t.Errorf("%s", first.Body)
	}
	var group metav1.APIGroup
	err := json.Unmarshal(w.get("/kapis/shop.example", "").Body.Bytes(), &group)
	if err != nil || group.PreferredVersion.Version != "v1" || len(group.Versions) != 1 {
		t.Errorf("%+v %v", group, err)
	}
	var list metav1.APIResourceList
	if err := json.Unmarshal(w.get(base, "").Body.Bytes(), &list); err != nil {
		t.Fatal(err)
	}
	want := []metav1.APIResource{
		{Name: "orders", Kind: "Order", Namespaced: true, Verbs: metav1.Verbs{"create", "deletecollection", "get", "list", "watch"}},
		{Name: "orders/status", Kind: "Status", Namespaced: true, Verbs: metav1.Verbs{"update"}},
		{Name: "pods", Kind: "Pods", Verbs: metav1.Verbs{"list"}}, // of the extension, and not those of Kubernetes
	}
	if list.GroupVersion != "shop.example/v1" || !reflect.DeepEqual(list.APIResources, want) {
		t.Errorf("%+v", list)
	}
	for path, code := range map[string]int{"/kapis/shop.example/v1beta1": 404, "/kapis/other.example": 404, "/kapis/other.example/v1": 404} {
		if got := w.get(path, ""); got.Code != code {
			t.Errorf("GET %s is %d, want %d: %s", path, got.Code, code, got.Body)
		}
	}
	if again := w.get("/kapis", first.Header().Get("ETag")); again.Code != http.StatusNotModified {
		t.Errorf("the same groups: %d", again.Code)
	}
	of("second", nil)
	if got := w.get(base, ""); got.Code != http.StatusNotFound {
		t.Errorf("of an extension that is gone: %d %s", got.Code, got.Body)
	}
}

func TestDocumentsFollowTheKindsAndHaveTags(t *testing.T) {
	w := newWorld(t, &served{})
	first := w.get("/kapis", "")
	tag := first.Header().Get("ETag")
	if first.Code != http.StatusOK || tag == "" || strings.Contains(first.Body.String(), "things.example") {
		t.Fatalf("%d %s %s", first.Code, tag, first.Body)
	}
	w.catalog.Refresh(t.Context()) // nothing has changed
	if again := w.get("/kapis", tag); again.Code != http.StatusNotModified || again.Body.Len() > 0 {
		t.Errorf("the same groups: %d %s", again.Code, again.Body)
	}
	w.kube.more.Store(true)
	w.catalog.Refresh(t.Context())
	if then := w.get("/kapis", tag); then.Code != http.StatusOK || !strings.Contains(then.Body.String(), "things.example") {
		t.Errorf("a new group: %d %s", then.Code, then.Body)
	}
	for path, code := range map[string]int{"/kapi": 200, "/kapi/v1": 200, "/kapis/things.example": 200, "/kapis/things.example/v1": 200, "/kapis/": 200,
		"/kapis/none.example": 404, "/kapis/things.example/v2": 404, "/kapi/v2": 404, "/kapis//v1": 404} {
		if got := w.get(path, ""); got.Code != code {
			t.Errorf("GET %s is %d, want %d: %s", path, got.Code, code, got.Body)
		}
	}
	if got := httptest.NewRecorder(); true {
		w.ServeHTTP(got, httptest.NewRequest(http.MethodDelete, "/kapis", nil))
		if got.Code != http.StatusMethodNotAllowed {
			t.Errorf("DELETE /kapis is %d", got.Code)
		}
	}
}

func TestNothingIsSaidBeforeKubeAPIServerHas(t *testing.T) {
	kube := &served{}
	kube.silent.Store(true)
	if got := newWorld(t, kube).get("/kapis", ""); got.Code != http.StatusServiceUnavailable || got.Header().Get("Retry-After") == "" {
		t.Errorf("%d %v", got.Code, got.Header())
	}
}

func TestPathsOfDiscovery(t *testing.T) {
	for path, want := range map[string]bool{"/kapis": true, "/kapis/": true, "/kapis/apps": true, "/kapis/apps/v1": true, "/kapi": true, "/kapi/v1": true,
		"/kapis/version": false, "/kapis/apps/v1/deployments": false, "/kapi/v1/pods": false, "/kapisx": false, "/kapix/v1": false, "/apis": false, "/": false} {
		if discovery.IsPath(path) != want {
			t.Errorf("%s: %v", path, !want)
		}
	}
}
