package aggregated

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/filter"
	"kapis.dev/ks-apiserver/pkg/kapis/kapistest"
	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/request/requesttest"
	"kapis.dev/ks-apiserver/pkg/resource"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/store"
)

// cluster is a kube-apiserver as a Handler sees it: who the peer is, and what users may do.
type cluster struct {
	mu sync.Mutex
	// allowed are the reviews that are allowed, as "user verb group/resource namespace/name".
	allowed map[string]bool
	asked   []string
	fault   error // of reviews
	proxy   error // of the front proxy
	within  []string
}

func (c *cluster) AuthenticateRequest(r *http.Request) (*authenticator.Response, bool, error) {
	if err := c.Verify(r); err != nil || r.Header.Get("X-Remote-User") == "" {
		return nil, false, err
	}
	return &authenticator.Response{User: &user.DefaultInfo{Name: r.Header.Get("X-Remote-User"), Groups: r.Header["X-Remote-Group"]}}, true, nil
}

func (c *cluster) Cut(h http.Header) { h.Del("X-Remote-User"); h.Del("X-Remote-Group") }

func (c *cluster) Verify(*http.Request) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.proxy
}

func (c *cluster) Fault() error { return c.Verify(nil) }

func (c *cluster) Allowed(_ context.Context, u user.Info, a authorizationv1.ResourceAttributes) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	what := u.GetName() + " " + a.Verb + " " + a.Group + "/" + a.Resource + " " + a.Namespace + "/" + a.Name
	c.asked = append(c.asked, what)
	return c.allowed[what], c.fault
}

func (c *cluster) namespaces(context.Context, user.Info, string, *store.Kind) ([]string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.within, nil
}

func (c *cluster) allow(what ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.allowed == nil {
		c.allowed = map[string]bool{}
	}
	for _, w := range what {
		c.allowed[w] = true
	}
}

func (c *cluster) refuse(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.allowed, what)
}

// serve returns the chain of a Handler.
func serve(t *testing.T, c *cluster, r *resource.Service) http.Handler {
	t.Helper()
	h := New(Options{FrontProxy: c, Reviewer: c, Resources: r, Namespaces: c.namespaces, Unauthenticated: filter.LimitHTTP2, Drain: t.Context()})
	return filter.Chain(h, filter.Info)
}

// ask sends a request as a user.
func ask(t *testing.T, h http.Handler, method, target, body string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, target, strings.NewReader(body))
	if body == "" {
		r.Body, r.ContentLength = http.NoBody, 0
	}
	r.Header.Set("X-Remote-User", "ann")
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Set(name, value)
	}
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, r)
	return rec
}

// O14: what wraps authenticated requests sees the user of each, and of others none; kinds are known by what they are called here.
func TestOnlyAuthenticatedRequestsAreWrapped(t *testing.T) {
	c, r := &cluster{}, kapistest.NewService(t)
	var users []string
	h := filter.Chain(New(Options{FrontProxy: c, Reviewer: c, Resources: r, Namespaces: c.namespaces, Unauthenticated: filter.LimitHTTP2,
		Authenticated: func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				users = append(users, request.UserFrom(r.Context()).GetName())
				next.ServeHTTP(w, r)
			})
		}, Drain: t.Context()}), filter.Info)
	ask(t, h, http.MethodGet, root+"/pods", "")
	ask(t, h, http.MethodGet, pathReady, "")
	c.proxy = errors.New("no certificate")
	if got := ask(t, h, http.MethodGet, root, ""); got.Code != http.StatusUnauthorized || !slices.Equal(users, []string{"ann"}) {
		t.Errorf("%d, and %q were wrapped", got.Code, users)
	}
	of := RealOf(r)
	for path, want := range map[string]string{
		root + "/pods": "pods", root + "/namespaces/a/pods/p": "pods", root + "/users": "users.iam.kubesphere.io", root + "/queries": "", root + "/unicorns": "",
		root: "", "/apis/apps/v1/deployments": "",
	} {
		got := ""
		if real := of(requesttest.Info(t, "GET", path)); real != nil {
			got = schema.GroupResource{Group: real.APIGroup, Resource: real.Resource}.String()
		}
		if got != want {
			t.Errorf("%s is about %q, want %q", path, got, want)
		}
	}
}

const (
	root    = "/apis/query.kapis.dev/v1alpha1"
	allPods = "ann list /pods /"
)

type list struct {
	Kind, APIVersion string
	Metadata         struct{ ResourceVersion, Continue string }
	TotalItems       int
	Items            []struct {
		APIVersion, Kind string
		Metadata         struct{ Namespace, Name string }
	}
}

func listOf(t *testing.T, rec *httptest.ResponseRecorder) (l list, names string) {
	t.Helper()
	if err := json.Unmarshal(rec.Body.Bytes(), &l); err != nil || rec.Code != http.StatusOK {
		t.Fatalf("%d %s %v", rec.Code, rec.Body, err)
	}
	for _, i := range l.Items {
		names += i.Metadata.Namespace + "/" + i.Metadata.Name + " "
	}
	return l, strings.TrimSpace(names)
}

func TestNobodyIsAnsweredButTheFrontProxysUsers(t *testing.T) { // O29
	c := &cluster{}
	c.allow(allPods)
	r := kapistest.NewService(t)
	r.Catalog().Refresh(t.Context())
	h := serve(t, c, r)
	paths := []string{root + "/pods", root, "/apis", "/apis/query.kapis.dev", "/openapi/v3", root + "/namespaces/a/pods/p1", "/", "/metrics",
		"/kapis/version", "/api/v1/pods", "/oauth/token"}
	for name, c := range map[string]struct {
		headers []string
		code    int
	}{
		"no user":                {[]string{"X-Remote-User: "}, http.StatusUnauthorized},
		"a token":                {[]string{"X-Remote-User: ", "Authorization: Bearer x", "Cookie: token=x"}, http.StatusUnauthorized},
		"impersonation":          {[]string{"Impersonate-User: root"}, http.StatusForbidden},
		"impersonation of extra": {[]string{"impersonate-extra-x: y"}, http.StatusForbidden},
	} {
		for _, path := range paths {
			if rec := ask(t, h, http.MethodGet, path, "", c.headers...); rec.Code != c.code {
				t.Errorf("%s: %s: %d %s, want %d", name, path, rec.Code, rec.Body, c.code)
			}
		}
	}
	c.proxy = errors.New("another authority")
	for _, path := range paths {
		if rec := ask(t, h, http.MethodGet, path, ""); rec.Code != http.StatusUnauthorized || strings.Contains(rec.Body.String(), "authority") {
			t.Errorf("%s: %d %s, want a 401 without a reason", path, rec.Code, rec.Body)
		}
	}
	if rec := ask(t, h, http.MethodGet, "/readyz", ""); rec.Code != http.StatusServiceUnavailable || strings.Contains(rec.Body.String(), "authority") {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
	c.proxy = nil
	if rec := ask(t, h, http.MethodGet, "/readyz", "", "X-Remote-User: "); rec.Code != http.StatusOK || rec.Body.String() != "ok" {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
}

func TestTheRealKindsRightDecides(t *testing.T) { // O30
	c := &cluster{}
	c.allow(allPods, "ann list /pods a/", "ann get /pods a/p1", "ann list query.kapis.dev/pods /", "ann get /namespaces a/a")
	h := serve(t, c, kapistest.NewService(t))
	l, names := listOf(t, ask(t, h, http.MethodGet, root+"/pods", ""))
	if names != "a/p1 a/p2 b/p3" || l.Kind != "PodList" || l.APIVersion != "v1" || l.Items[0].APIVersion != "v1" || l.Items[0].Kind != "Pod" ||
		l.Metadata.ResourceVersion == "" {
		t.Errorf("got %q of %+v", names, l)
	}
	if _, names := listOf(t, ask(t, h, http.MethodGet, root+"/namespaces/a/pods", "")); names != "a/p1 a/p2" {
		t.Errorf("got %q", names)
	}
	for _, path := range []string{"/namespaces/a/pods/p1", "/namespaces/a"} {
		if rec := ask(t, h, http.MethodGet, root+path, ""); rec.Code != http.StatusOK {
			t.Errorf("%s: %d %s", path, rec.Code, rec.Body)
		}
	}
	c.mu.Lock()
	asked := slices.Clone(c.asked)
	c.mu.Unlock()
	if want := []string{allPods, "ann list /pods a/", "ann get /pods a/p1", "ann get /namespaces a/a"}; !slices.Equal(asked, want) {
		t.Errorf("asked %q, want %q", asked, want)
	}
	for path, code := range map[string]int{
		"/namespaces/b/pods": 403, "/namespaces/a/pods/p2": 403, "/namespaces/b/pods/p3": 403, "/users": 403, "/namespaces": 403,
		"/pods?watch=true": 403, "/namespaces/a/pods?watch=1": 403, "/workspaces": 403, "/bindings": 403, "/nothing": 404, "/pods/p1": 403,
		"/namespaces/a/users": 404, "/namespaces/a/pods/p1/log": 404, "/watch/pods": 404, "/namespaces/a/": 200, "/queries": 405,
		"/namespaces/b/pods?namespace=a": 403, "/pods?managedFields=true": 400, "/pods?limit=x": 400, "/pods?view=other": 400,
		"/pods.v1": 404, "/namespaces//pods": 400, "/Pods": 404,
	} {
		if rec := ask(t, h, http.MethodGet, root+path, ""); rec.Code != code {
			t.Errorf("%s: %d %s, want %d", path, rec.Code, rec.Body, code)
		}
	}
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		for _, path := range []string{"/pods", "/namespaces/a/pods/p1", "", "/../.."} {
			if rec := ask(t, h, method, root+path, ""); rec.Code < 400 || rec.Code >= 500 {
				t.Errorf("%s %s: %d %s", method, path, rec.Code, rec.Body)
			}
		}
	}
	c.fault = status.Errorf(http.StatusServiceUnavailable, "no answer")
	if rec := ask(t, h, http.MethodGet, root+"/pods", ""); rec.Code != http.StatusServiceUnavailable {
		t.Errorf("a review without an answer: %d %s", rec.Code, rec.Body)
	}
}

func TestPartialListsAreOfReviewedNamespaces(t *testing.T) { // O32
	c := &cluster{within: []string{"a", "b", "c"}}
	c.allow("ann list /pods b/")
	h := serve(t, c, kapistest.NewService(t))
	rec := ask(t, h, http.MethodGet, root+"/pods", "")
	if l, names := listOf(t, rec); names != "b/p3" || rec.Header().Get("X-Kapis-Partial") != "true" || l.TotalItems != 1 {
		t.Errorf("got %q %v", names, rec.Header())
	}
	for _, path := range []string{"/users", "/workspaces", "/namespaces", "/pods?watch=true", "/namespaces/a/pods", "/pods/p3"} {
		if rec := ask(t, h, http.MethodGet, root+path, ""); rec.Code != http.StatusForbidden {
			t.Errorf("%s: %d %s", path, rec.Code, rec.Body)
		}
	}
	c.refuse("ann list /pods b/")
	if rec := ask(t, h, http.MethodGet, root+"/pods", ""); rec.Code != http.StatusForbidden || !strings.Contains(rec.Body.String(), `User \"ann\" cannot list`) {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
	c.allow("ann list /pods b/")
	c.within = make([]string, mostNamespaces+1)
	for i := range c.within {
		c.within[i] = "b"
	}
	if rec := ask(t, h, http.MethodGet, root+"/pods", ""); rec.Code != http.StatusForbidden || !strings.Contains(rec.Body.String(), "name one") {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
	c.within, c.fault = []string{"b"}, status.Errorf(http.StatusServiceUnavailable, "no answer")
	if rec := ask(t, h, http.MethodGet, root+"/pods", ""); rec.Code != http.StatusServiceUnavailable {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
}

// kubectl follows continue until it is empty.
func TestContinueLeadsToTheLastPage(t *testing.T) {
	c := &cluster{}
	c.allow(allPods)
	h := serve(t, c, kapistest.NewService(t))
	token, got := "", []string{}
	for range 3 {
		l, names := listOf(t, ask(t, h, http.MethodGet, root+"/pods?limit=2&resourceVersion=0&continue="+url.QueryEscape(token), ""))
		got = append(got, names)
		if token = l.Metadata.Continue; token == "" {
			break
		}
	}
	if !slices.Equal(got, []string{"a/p1 a/p2", "b/p3"}) {
		t.Errorf("got %q", got)
	}
	if l, names := listOf(t, ask(t, h, http.MethodGet, root+"/pods?limit=0&sortBy=name&ascending=false", "")); names != "b/p3 a/p2 a/p1" || l.Metadata.Continue != "" {
		t.Errorf("got %q %+v", names, l)
	}
	first, _ := listOf(t, ask(t, h, http.MethodGet, root+"/pods?limit=1&offset=1", ""))
	if _, names := listOf(t, ask(t, h, http.MethodGet, root+"/pods?limit=1&offset=1&continue="+first.Metadata.Continue, "")); names != "b/p3" {
		t.Errorf("after the second of three: %q", names)
	}
	if _, names := listOf(t, ask(t, h, http.MethodGet, root+"/pods?continue=eyJwIjoyLCJsIjoyfQ", "")); names != "b/p3" { // by an earlier release
		t.Errorf("on the second page: %q", names)
	}
	for _, token := range []string{
		"x", "3", "e30", "eyJwIjoxLCJsIjoxfQ", "eyJwIjoyLCJsIjotMX0", base64.RawURLEncoding.EncodeToString([]byte(`{"a":"!","l":1}`)),
		base64.RawURLEncoding.EncodeToString([]byte(`{"a":"` + (&query.Cursor{}).String() + `"}`)),
	} {
		if rec := ask(t, h, http.MethodGet, root+"/pods?continue="+token, ""); rec.Code != http.StatusBadRequest {
			t.Errorf("%s: %d %s", token, rec.Code, rec.Body)
		}
	}
	if rec := ask(t, h, http.MethodGet, root+"/pods?page=1&continue=eyJwIjoyLCJsIjoyfQ", ""); rec.Code != http.StatusBadRequest {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
}

// An object that is there all the time is on one page, whatever goes before it meanwhile.
func TestPagesThatFollowEachOtherHaveEachObjectOnce(t *testing.T) {
	c := &cluster{}
	c.allow(allPods)
	h := serve(t, c, kapistest.NewService(t))
	for sorted, want := range map[string]string{"": "a/p2", "&sortBy=name&ascending=true": "a/p2", "&sortBy=namespace": "a/p2"} {
		first, names := listOf(t, ask(t, h, http.MethodGet, root+"/pods?limit=1"+sorted, ""))
		gone := strings.TrimLeft(names, "ab/")
		second, names := listOf(t, ask(t, h, http.MethodGet, root+"/pods?limit=1&fieldSelector=metadata.name!%3D"+gone+sorted+"&continue="+
			first.Metadata.Continue, ""))
		if names != want {
			t.Errorf("%s: without %s, the second page has %q, want %s", sorted, gone, names, want)
		}
		if second.Metadata.Continue == "" {
			t.Errorf("%s: the second page of three is the last one", sorted)
		}
	}
}

func TestAQueryIsAnsweredInItsStatus(t *testing.T) { // O30
	c := &cluster{}
	c.allow(allPods, "ann list /pods a/")
	h := serve(t, c, kapistest.NewService(t))
	create := func(spec string) *httptest.ResponseRecorder {
		return ask(t, h, http.MethodPost, root+"/queries?fieldManager=kubectl-create&fieldValidation=Strict",
			`{"apiVersion":"query.kapis.dev/v1alpha1","kind":"Query","metadata":{"generateName":"q-"},"spec":`+spec+`,"status":{"items":[1]}}`,
			"Content-Type: application/json")
	}
	rec := create(`{"resource":"pods","sortBy":["name"],"ascending":false,"limit":2,"facets":".metadata.namespace"}`)
	var got struct {
		Kind   string
		Spec   map[string]any
		Status struct {
			list
			Facets  json.RawMessage
			Partial bool
		}
	}
	if err := json.Unmarshal(rec.Body.Bytes(), &got); err != nil || rec.Code != http.StatusCreated || got.Kind != "Query" || got.Status.TotalItems != 3 ||
		len(got.Status.Items) != 2 || got.Status.Items[0].Metadata.Name != "p3" || len(got.Status.Facets) == 0 || got.Spec["resource"] != "pods" {
		t.Errorf("%d %s %v", rec.Code, rec.Body, err)
	}
	if rec := create(`{"resource":"pods","namespace":"a"}`); rec.Code != http.StatusCreated || strings.Contains(rec.Body.String(), "p3") {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
	for spec, code := range map[string]int{
		`{"resource":"pods","namespace":"b"}`: 403, `{"resource":"users"}`: 403, `{}`: 400, `{"resource":"nothing"}`: 404,
		`{"resource":"pods","watch":true}`: 400, `{"resource":"pods","view":"live"}`: 400, `{"resource":"pods","limit":{}}`: 400,
		`{"resource":"pods","colour":"red"}`: 400, `{"resource":"pods","labelSelctor":"a=b"}`: 400, `{"resource":"pods","nodeName":"n"}`: 201,
		`{"resource":"pods","limit":-1}`: 400, `{"resource":"pods","limit":100000}`: 400, `[]`: 400, `{"resource":"pods","continue":"x"}`: 400,
		`{"resource":"pods","cel":"object."}`: 400, `{"resource":"pods","facets":[1]}`: 400,
	} {
		if rec := create(spec); rec.Code != code {
			t.Errorf("%s: %d %s, want %d", spec, rec.Code, rec.Body, code)
		}
	}
	for _, body := range []string{"", "{}", `{"apiVersion":"v1","kind":"Query","spec":{"resource":"pods"}}`, "[", strings.Repeat(" ", longestQuery+1)} {
		if rec := ask(t, h, http.MethodPost, root+"/queries", body, "Content-Type: application/json"); rec.Code < 400 || rec.Code >= 500 {
			t.Errorf("%.20s: %d %s", body, rec.Code, rec.Body)
		}
	}
	yaml := "apiVersion: query.kapis.dev/v1alpha1\nkind: Query\nspec: {resource: pods, limit: 1}\n"
	if rec := ask(t, h, http.MethodPost, root+"/queries", yaml, "Content-Type: application/yaml"); rec.Code != http.StatusCreated {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
}

func TestDiscoveryIsOfKindsThatCanBeListed(t *testing.T) { // O34
	c, r := &cluster{}, kapistest.NewService(t)
	r.Catalog().Refresh(t.Context())
	h := serve(t, c, r)
	const v2 = "Accept: application/json;as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io,application/json"
	rec := ask(t, h, http.MethodGet, "/apis", "", v2)
	tag := rec.Header().Get("ETag")
	var groups struct {
		Items []struct {
			Metadata struct{ Name string }
			Versions []struct {
				Version   string
				Resources []struct {
					Resource   string
					Verbs      []string
					ShortNames []string
					Categories []string
				}
			}
		}
	}
	if err := json.Unmarshal(rec.Body.Bytes(), &groups); err != nil || len(groups.Items) != 1 || tag == "" ||
		!strings.Contains(rec.Header().Get("Content-Type"), "as=APIGroupDiscoveryList") {
		t.Fatalf("%d %s %v", rec.Code, rec.Body, err)
	}
	var plurals []string
	for _, r := range groups.Items[0].Versions[0].Resources {
		plurals = append(plurals, r.Resource)
		want := []string{"get", "list"}
		if r.Resource == "queries" {
			want = []string{"create"}
		}
		if !slices.Equal(r.Verbs, want) || r.ShortNames != nil || r.Categories != nil {
			t.Errorf("%+v: what walks discovery could begin something with it", r)
		}
	}
	if want := []string{"namespaces", "pods", "users", "workspaces", "queries"}; !slices.Equal(plurals, want) {
		t.Errorf("got %q, want %q", plurals, want)
	}
	if rec := ask(t, h, http.MethodGet, "/apis", "", v2, "If-None-Match: "+tag); rec.Code != http.StatusNotModified || rec.Body.Len() > 0 {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
	for path, want := range map[string]string{
		"/apis": `"kind":"APIGroupList"`, "/apis/query.kapis.dev": `"kind":"APIGroup"`, root: `{"name":"pods","singularName":"pod","namespaced":true,"version":"v1","kind":"Pod","verbs":["get","list"]}`,
		"/openapi/v3": `"apis/query.kapis.dev/v1alpha1"`, "/openapi/v3" + root: `"fieldValidation"`,
	} {
		if rec := ask(t, h, http.MethodGet, path, ""); rec.Code != http.StatusOK || !strings.Contains(rec.Body.String(), want) {
			t.Errorf("%s: %d %s, want %s", path, rec.Code, rec.Body, want)
		}
	}
	if rec := ask(t, h, http.MethodGet, "/openapi/v2", ""); rec.Code != http.StatusNotFound {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.asked) > 0 {
		t.Errorf("discovery asked for %q", c.asked)
	}
}

// A kind whose plural means another group's has that of its group in its name.
func TestKindsOfOnePluralHaveNamesOfTheirOwn(t *testing.T) { // O34
	st := kapistest.NewAccounts(t, nil)
	st.Catalog().Refresh(t.Context())
	names := map[string]string{}
	for _, k := range st.Catalog().All() {
		name := nameOf(st.Catalog(), k)
		if names[name] != "" {
			t.Errorf("%s is %s and %s", name, names[name], k.GVR.GroupResource())
		}
		names[name] = k.GVR.GroupResource().String()
		if back := named(st.Catalog(), name); back == nil || back.GVR != k.GVR { // another refresh may have replaced the Kind itself
			t.Errorf("%s is %+v, want %+v", name, back, k)
		}
	}
	if names["clusterroles-iam.kubesphere.io"] != "clusterroles.iam.kubesphere.io" || names["users"] != "users.iam.kubesphere.io" {
		t.Errorf("got %v", names)
	}
	both := append(st.Catalog().All(), &store.Kind{Kind: "ClusterRole",
		GVR: schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}})
	seen := map[string]string{}
	for k, kind := range discoveredKinds(st.Catalog(), both) {
		if seen[kind] != "" {
			t.Errorf("discovery calls both %s and %s %s: kubectl would read one for the other", seen[kind], k.GVR.GroupResource(), kind)
		}
		seen[kind] = k.GVR.GroupResource().String()
	}
	if seen["ClusterRole"] != "clusterroles.rbac.authorization.k8s.io" || seen["ClusterRole.iam.kubesphere.io"] != "clusterroles.iam.kubesphere.io" ||
		seen["User"] != "users.iam.kubesphere.io" {
		t.Errorf("got %v", seen)
	}
	for _, name := range []string{"", "-", "pods-", "-iam.kubesphere.io", "users-iam.kubesphere.io", "clusterroles"} {
		if k := named(st.Catalog(), name); k != nil {
			t.Errorf("%q is %+v", name, k)
		}
	}
}

// A watch ends when the right does, and when the peer is no longer the front proxy.
func TestAWatchEndsWithTheRight(t *testing.T) { // O30
	for name, end := range map[string]func(*cluster){
		"TheRight":      func(c *cluster) { c.refuse("ann watch /pods /") },
		"TheFrontProxy": func(c *cluster) { c.mu.Lock(); c.proxy = errors.New("another authority"); c.mu.Unlock() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &cluster{}
			c.allow("ann watch /pods /")
			srv := httptest.NewServer(serve(t, c, kapistest.NewService(t)))
			defer srv.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, srv.URL+root+"/pods?watch=true", nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("X-Remote-User", "ann")
			res, err := http.DefaultClient.Do(r)
			if err != nil || res.StatusCode != http.StatusOK {
				t.Fatal(res, err)
			}
			defer res.Body.Close()
			events := json.NewDecoder(res.Body)
			var event struct{ Type string }
			for range 3 {
				if err := events.Decode(&event); err != nil || event.Type != "ADDED" {
					t.Fatalf("%+v %v", event, err)
				}
			}
			end(c)
			for err == nil {
				err = events.Decode(&event)
			}
			if ctx.Err() != nil {
				t.Error("the watch goes on")
			}
		})
	}
}

// S55: who is not the front proxy gets a bounded number of answers on an HTTP/2 connection, of readiness too.
func TestConnectionsOfStrangersEnd(t *testing.T) {
	c := &cluster{}
	c.allow(allPods)
	h := serve(t, c, kapistest.NewService(t))
	ends := func(path string) bool {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
		r.ProtoMajor = 2
		r.Header.Set("X-Remote-User", "ann")
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, r)
		return rec.Header().Get("Connection") == "close"
	}
	if ends(root + "/pods") {
		t.Error("a connection of the front proxy ends")
	}
	c.proxy = errors.New("the peer has no certificate")
	for _, path := range []string{"/readyz", root + "/pods"} {
		if !ends(path) {
			t.Errorf("a connection of somebody else goes on after %s", path)
		}
	}
}

// O49: kube-apiserver is told to come again where it can't be told yet who it is, and refused where it is not the front proxy.
func TestO49WhoCanNotBeToldYetComesAgain(t *testing.T) {
	c := &cluster{}
	h := serve(t, c, kapistest.NewService(t))
	for code, err := range map[int]error{
		http.StatusServiceUnavailable: status.RetryAfter(1, status.Errorf(http.StatusServiceUnavailable, "not read yet")),
		http.StatusUnauthorized:       errors.New("not the front proxy"),
	} {
		c.proxy = err
		got := ask(t, h, http.MethodGet, pathVersion, "")
		if got.Code != code || (got.Header().Get("Retry-After") != "") != (code == http.StatusServiceUnavailable) {
			t.Errorf("%v: %d, %v", err, got.Code, got.Header())
		}
	}
}
