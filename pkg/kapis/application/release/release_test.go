package release_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	restful "github.com/emicklei/go-restful/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/caller"
	"kapis.dev/ks-apiserver/pkg/kapis/application/release"
	"kapis.dev/ks-apiserver/pkg/kapis/application/scope"
	"kapis.dev/ks-apiserver/pkg/kapis/application/scopetest"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/web"
)

func labels(more ...string) map[string]string {
	out := map[string]string{v2.LabelApp: "redis", v2.LabelCluster: "host", v2.LabelNamespace: "web"}
	for i := 0; i < len(more); i += 2 {
		out[more[i]] = more[i+1]
	}
	return out
}

// cluster is the rest of the cluster: what the routes read and write as the caller, by the caller's own rights.
type cluster struct {
	*scopetest.World
	t  *testing.T
	mu sync.Mutex
	// objects are those of custom resources, by their path; denied are paths that the caller may not read; asked are the requests.
	objects map[string]map[string]any
	denied  map[string]bool
	asked   []string
	// kept are users who may enter no member.
	kept map[string]bool
	// broken is a path that is answered with a failure of the server.
	broken string
	// list answers lists; nil for one with one object.
	list func(url.Values) any
}

func (c *cluster) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasPrefix(r.URL.Path, "/apis/application.kubesphere.io/") {
		return c.World.RoundTrip(r)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if got := authz.DecisionFrom(r.Context()).Group; got == scopetest.Group {
		c.t.Errorf("%s %s with the store's rights", r.Method, r.URL)
	}
	c.asked = append(c.asked, r.Method+" "+r.URL.RequestURI())
	rec := httptest.NewRecorder()
	answer, err := c.answer(r)
	web.Write(rec, r, answer, err)
	return rec.Result(), nil
}

func (c *cluster) answer(r *http.Request) (any, error) {
	gr := schema.GroupResource{Resource: "things"}
	if c.denied[r.URL.Path] {
		return nil, apierrors.NewForbidden(gr, "x", nil)
	}
	if r.URL.Path == c.broken {
		return nil, status.Errorf(http.StatusServiceUnavailable, "the server of this kind is away")
	}
	now := c.objects[r.URL.Path]
	switch {
	case r.Method == http.MethodPatch:
		given := map[string]any{}
		raw, err := io.ReadAll(r.Body)
		if err == nil {
			err = json.Unmarshal(raw, &given)
		}
		if err != nil {
			return nil, err
		}
		c.objects[r.URL.Path] = given
		return given, nil
	case r.URL.Query().Get("labelSelector") != "" && c.list != nil:
		return c.list(r.URL.Query()), nil
	case r.URL.Query().Get("labelSelector") != "":
		return map[string]any{"items": []any{map[string]any{"metadata": map[string]any{"name": "a", "managedFields": []any{map[string]any{}}}}}}, nil
	case now == nil:
		return nil, apierrors.NewNotFound(gr, "x")
	case r.Method == http.MethodDelete:
		delete(c.objects, r.URL.Path)
		return metav1.Status{Status: metav1.StatusSuccess}, nil
	}
	return now, nil
}

// longVersion is the name of a version with the digest of a commit in it.
const longVersion = "redis-ab1cd-1.0.0-alpha.20261126.g0123456789abcdef0123456789abcdef01234567"

func namespace(name, workspace string) map[string]any {
	return map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name, "uid": "n-" + name, "resourceVersion": "3",
		"labels": map[string]any{v2.LabelWorkspace: workspace}}}
}

var rights = []string{"* applications", "* applications/cr", "* apps", "* apps/examplecr"}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	crd := map[string]any{}
	if err := json.Unmarshal([]byte(definition), &crd); err != nil {
		t.Fatal(err)
	}
	app := scopetest.Object("applications", "redis", "shop", v2.StateActive, nil)
	app["spec"] = map[string]any{"resources": []any{map[string]any{"Group": "a.example", "Version": "v1", "Resource": "things"}}}
	version := func(name, workspace, state string) map[string]any {
		return scopetest.Object("applicationversions", name, workspace, state, map[string]string{v2.LabelApp: "redis"})
	}
	theirs := scopetest.Object("applicationreleases", "theirs", "other", v2.ReleaseActive, labels(v2.LabelNamespace, "far"))
	mine := scopetest.Object("applicationreleases", "mine", "shop", v2.ReleaseActive, labels())
	mine["spec"] = map[string]any{"appID": "redis", "appVersionID": "redis-1"}
	c := &cluster{t: t, objects: map[string]map[string]any{}, denied: map[string]bool{}, kept: map[string]bool{}}
	far := scopetest.Object("applicationreleases", "far", "shop", v2.ReleaseActive, labels(v2.LabelCluster, "m1"))
	far["spec"] = map[string]any{"appID": "redis", "appVersionID": "redis-1"}
	gone := scopetest.Object("applicationreleases", "gone", "shop", v2.ReleaseActive, labels(v2.LabelCluster, "none"))
	c.World = scopetest.New(t, map[string][]map[string]any{
		"/api/v1/namespaces": {namespace("web", "shop"), namespace("far", "other")},
		"/api/v1/configmaps": {inventory()}, "/api/v1/namespaces/kubesphere-system/configmaps": {inventory()},
		"/apis/apiextensions.k8s.io/v1/customresourcedefinitions": {crd},
		"applications": {app},
		"applicationversions": {version("redis-1", "shop", v2.StateActive), version("redis-2", "shop", v2.StateDraft), version("redis-3", "other", v2.StateActive),
			version(longVersion, "shop", v2.StateActive)},
		"applicationreleases": {mine, theirs, far, gone},
	}, func(s *scope.Store, ws *restful.WebService) {
		s.AsCaller.Kube = c
		(&release.Handler{Store: s, Fleet: c.fleet(), Now: func() time.Time { return time.Unix(7, 0) }}).Routes(ws)
	})
	c.Users["ann"] = scopetest.Rights{Platform: []string{"*"}}
	c.Users["bob"] = scopetest.Rights{Workspaces: map[string][]string{"shop": rights}}
	return c
}

// fleet are the members m1, which answers, and none, which does not.
func (c *cluster) fleet() *release.Fleet {
	return &release.Fleet{
		Check: func(name string) error {
			switch name {
			case "m1", "none":
				return nil
			case "bare":
				return status.Errorf(http.StatusNotImplemented, "no program runs there")
			}
			return status.Errorf(http.StatusUnprocessableEntity, "there is no such cluster")
		},
		AsCaller: caller.Client{May: authz.Func(func(_ context.Context, u user.Info, i *request.Info) (authz.Decision, error) {
			if i.Cluster != "" && !c.kept[u.GetName()] {
				return authz.Allow("enters", ""), nil
			}
			return authz.Decision{}, nil
		}), Kube: inMember{c}},
	}
}

// inMember answers as a member.
type inMember struct{ *cluster }

func (m inMember) RoundTrip(r *http.Request) (*http.Response, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked = append(m.asked, request.UserFrom(r.Context()).GetName()+" "+r.Method+" "+r.URL.RequestURI())
	rec := httptest.NewRecorder()
	if strings.HasPrefix(r.URL.Path, "/clusters/none/") {
		web.WriteError(rec, r, status.Errorf(http.StatusServiceUnavailable, "it is away"))
		return rec.Result(), nil
	}
	answer, err := m.answer(r)
	web.Write(rec, r, answer, err)
	return rec.Result(), nil
}

func body(name string, labels map[string]string, spec map[string]any) string {
	text, err := json.Marshal(map[string]any{"metadata": map[string]any{"name": name, "labels": labels, "annotations": map[string]any{
		v2.AnnotationUser: "root", v2.AnnotationCreator: "root", "kapis.dev/retry": "forged", "kubesphere.io/description": "cache"},
		"finalizers": []string{"a.example/b"}}, "spec": spec})
	if err != nil {
		panic(err)
	}
	return string(text)
}

func spec(version string) map[string]any {
	return map[string]any{"appID": "redis", "appVersionID": version, "values": "YTogYgo="}
}

func TestX29WhatDoesNotAgreeIsRefused(t *testing.T) {
	c := newCluster(t)
	with := func(key, value string) string {
		return body("new", labels(v2.LabelWorkspace, "shop", key, value), spec("redis-1"))
	}
	for name, one := range map[string]struct {
		code int
		body string
	}{
		"no JSON":                       {400, "{"},
		"a label that is missing":       {400, with(v2.LabelApp, "")},
		"another workspace in the path": {400, with(v2.LabelWorkspace, "other")},
		"another cluster":               {422, with(v2.LabelCluster, "member")},
		"a namespace of another one":    {422, with(v2.LabelNamespace, "far")},
		"a namespace that is none":      {400, with(v2.LabelNamespace, "../x")},
		"another application":           {400, with(v2.LabelApp, "mysql")},
		"no such version":               {422, body("new", labels(), spec("redis-9"))},
		"a version that is no name":     {422, body("new", labels(), spec("../redis-1"))},
		"a draft":                       {409, body("new", labels(), spec("redis-2"))},
		"another workspace's version":   {422, body("new", labels(), spec("redis-3"))},
		"a long name":                   {400, body(strings.Repeat("x", 54), labels(), spec("redis-1"))},
		"a name that is none":           {400, body("a.b", labels(), spec("redis-1"))},
		"one that is there":             {409, body("mine", labels(), spec("redis-1"))},
	} {
		t.Run(name, func(t *testing.T) {
			c.Expect(one.code, "bob", http.MethodPost, "/workspaces/shop/applications", one.body)
		})
	}
	if writes := c.Writes(); len(writes) != 1 { // the name is known by kube-apiserver alone
		t.Errorf("%q", writes)
	}
	c.Expect(http.StatusRequestEntityTooLarge, "bob", http.MethodPost, "/workspaces/shop/applications", strings.Repeat(" ", 3<<20))
	taken := c.Expect(http.StatusConflict, "bob", http.MethodPost, "/workspaces/shop/applications", body("theirs", labels(), spec("redis-1")))
	if !strings.Contains(taken, `"AlreadyExists"`) || !strings.Contains(taken, "choose another name") { // of a workspace that bob does not see
		t.Error(taken)
	}
}

func TestX33AReleaseSaysWhoAskedForIt(t *testing.T) {
	c := newCluster(t)
	c.Expect(http.StatusOK, "bob", http.MethodPost, "/workspaces/shop/applications", body("new", labels(), spec("redis-1")))
	got := c.Live("applicationreleases", "new")
	meta := got["metadata"].(map[string]any)
	notes := meta["annotations"].(map[string]any)
	if notes[v2.AnnotationUser] != "bob" || notes[v2.AnnotationCreator] != "bob" || notes["kapis.dev/retry"] != nil ||
		notes["kubesphere.io/description"] != "cache" || meta["finalizers"] != nil {
		t.Errorf("%v", meta)
	}
	if l := meta["labels"].(map[string]any); l[v2.LabelWorkspace] != "shop" || l[v2.LabelVersion] != "redis-1" {
		t.Errorf("%v", l)
	}
	c.Set("applicationreleases", "mine", v2.ReleaseFailed)
	before := fmt.Sprint(c.Live("applicationreleases", "mine")["spec"])
	c.Expect(http.StatusOK, "ann", http.MethodPost, "/applications/mine", body("mine", labels(), spec("redis-1")))
	notes = c.Live("applicationreleases", "mine")["metadata"].(map[string]any)["annotations"].(map[string]any)
	if notes[v2.AnnotationUser] != "ann" || notes[v2.AnnotationRetry] != "1970-01-01T00:00:07Z" || notes[v2.AnnotationCreator] != nil {
		t.Errorf("%v", notes)
	}
	if after := fmt.Sprint(c.Live("applicationreleases", "mine")["spec"]); after == before {
		t.Error("the values are not there")
	}
	for _, label := range []string{v2.LabelNamespace, v2.LabelWorkspace, v2.LabelCluster, v2.LabelApp} {
		c.Expect(http.StatusUnprocessableEntity, "ann", http.MethodPost, "/applications/mine", body("mine", labels(label, "elsewhere"), spec("redis-1")))
	}
	c.Expect(http.StatusBadRequest, "ann", http.MethodPost, "/applications/mine", body("yours", labels(), spec("redis-1")))
}

// X29: a PATCH keeps what it does not say; what may not be changed is refused as in a whole body, and what is no patch, too.
func TestX29APatchOfAReleaseKeepsWhatItDoesNotSay(t *testing.T) {
	c := newCluster(t)
	for _, path := range []string{"/applications/mine", "/workspaces/shop/applications/mine", "/namespaces/web/applications/mine"} {
		c.Expect(http.StatusOK, "ann", http.MethodPatch, path, `{"spec":{"values":"YTogYwo="}}`, "Content-Type: application/merge-patch+json")
	}
	got := c.Live("applicationreleases", "mine")
	is, meta := got["spec"].(map[string]any), got["metadata"].(map[string]any)
	if is["values"] != "YTogYwo=" || is["appVersionID"] != "redis-1" || is["appID"] != "redis" ||
		meta["annotations"].(map[string]any)[v2.AnnotationUser] != "ann" || meta["labels"].(map[string]any)[v2.LabelNamespace] != "web" {
		t.Errorf("%v", got)
	}
	c.Expect(http.StatusOK, "ann", http.MethodPatch, "/applications/mine", `{"spec":{"values":null}}`)
	if is := c.Live("applicationreleases", "mine")["spec"].(map[string]any); is["values"] != nil {
		t.Errorf("%v", is)
	}
	c.Writes()
	for body, code := range map[string]int{
		`{"spec":{"appVersionID":"redis-9"}}`:                         http.StatusUnprocessableEntity,
		`{"spec":{"appVersionID":""}}`:                                http.StatusBadRequest,
		`{"metadata":{"labels":{"` + v2.LabelNamespace + `":"far"}}}`: http.StatusUnprocessableEntity,
		`{"metadata":{"name":"yours"}}`:                               http.StatusBadRequest,
		`{"spec":7}`:                                                  http.StatusBadRequest,
		`[]`:                                                          http.StatusBadRequest,
		`null`:                                                        http.StatusBadRequest,
		`{`:                                                           http.StatusBadRequest,
		strings.Repeat(" ", 3<<20):                                    http.StatusRequestEntityTooLarge,
	} {
		if got, answer := c.Send("ann", http.MethodPatch, "/applications/mine", body); got != code {
			t.Errorf("%.60s: %d %.200s, want %d", body, got, answer, code)
		}
	}
	c.Expect(http.StatusNotFound, "ann", http.MethodPatch, "/namespaces/web/applications/theirs", `{"spec":{"values":null}}`)
	if writes := c.Writes(); len(writes) != 0 {
		t.Errorf("%q", writes)
	}
}

// X29: what was made, passed or moved a moment before it is asked for is no reason to refuse a release, though the caches do not have it yet.
func TestX29WhatWasWrittenJustBeforeIsNotRefused(t *testing.T) {
	c := newCluster(t)
	c.Set("applicationversions", "redis-2", v2.StateActive)
	c.Expect(http.StatusOK, "bob", http.MethodPost, "/workspaces/shop/applications", body("passed", labels(), spec("redis-2")))
	c.Users["bob"] = scopetest.Rights{Platform: []string{"get namespaces"}, Workspaces: map[string][]string{"shop": rights}}
	at := labels(v2.LabelNamespace, "new")
	c.Expect(http.StatusUnprocessableEntity, "bob", http.MethodPost, "/workspaces/shop/applications", body("new", at, spec("redis-1")))
	c.objects["/api/v1/namespaces/new"] = namespace("new", "other")
	c.Expect(http.StatusUnprocessableEntity, "bob", http.MethodPost, "/workspaces/shop/applications", body("new", at, spec("redis-1")))
	c.objects["/api/v1/namespaces/new"] = namespace("new", "shop")
	c.Expect(http.StatusOK, "bob", http.MethodPost, "/workspaces/shop/applications", body("new", at, spec("redis-1")))
}

// X33: a version whose name is longer than a label may be is installed: the label does without it.
func TestX33AVersionWithALongNameIsInstalled(t *testing.T) {
	c := newCluster(t)
	c.Expect(http.StatusOK, "bob", http.MethodPost, "/workspaces/shop/applications", body("new", labels(), spec(longVersion)))
	got := c.Live("applicationreleases", "new")
	if is, l := got["spec"].(map[string]any), got["metadata"].(map[string]any)["labels"].(map[string]any); is["appVersionID"] != longVersion ||
		l[v2.LabelVersion] != "" {
		t.Errorf("%v %v", is, l)
	}
	c.Expect(http.StatusOK, "ann", http.MethodPost, "/applications/mine", body("mine", labels(), spec(longVersion)))
	if l := c.Live("applicationreleases", "mine")["metadata"].(map[string]any)["labels"].(map[string]any); l[v2.LabelVersion] != "" {
		t.Errorf("%v", l)
	}
}

// X33: what is saved again after it did not become ready is done again, as what failed.
func TestX33WhatIsSavedAgainIsTriedAgain(t *testing.T) {
	for state, again := range map[string]bool{v2.ReleaseFailed: true, v2.ReleaseDeployFailed: true, v2.ReleaseTimeout: true, v2.ReleaseActive: false} {
		c := newCluster(t)
		c.Set("applicationreleases", "mine", state)
		c.Expect(http.StatusOK, "ann", http.MethodPost, "/applications/mine", body("mine", labels(), spec("redis-1")))
		notes := c.Live("applicationreleases", "mine")["metadata"].(map[string]any)["annotations"].(map[string]any)
		if got := notes[v2.AnnotationRetry] != nil; got != again {
			t.Errorf("%s: %v", state, notes)
		}
	}
}

func TestX28NobodySeesOrChangesAnotherWorkspacesReleases(t *testing.T) {
	c := newCluster(t)
	mine := c.Expect(http.StatusOK, "bob", http.MethodGet, "/workspaces/shop/applications?sortBy=name&ascending=true", "")
	if got := scopetest.Names(t, mine); !slices.Equal(got, []string{"far", "gone", "mine"}) {
		t.Errorf("%q", got)
	}
	if got := scopetest.Names(t, c.Expect(http.StatusOK, "ann", http.MethodGet, "/applications?appID=mysql", "")); len(got) != 0 {
		t.Errorf("%q", got)
	}
	for _, path := range []string{"/namespaces/web/applications/theirs", "/namespaces/web/applications/none", "/namespaces/web/applications/a.."} {
		for _, method := range []string{http.MethodGet, http.MethodDelete} {
			c.Expect(http.StatusNotFound, "ann", method, path, "")
		}
		c.Expect(http.StatusNotFound, "ann", http.MethodPost, path, body("", labels(), spec("redis-1")))
	}
	c.Expect(http.StatusNotFound, "bob", http.MethodGet, "/workspaces/shop/applications/theirs/cr?group=a.example&version=v1&resource=things", "")
	c.Expect(http.StatusOK, "ann", http.MethodDelete, "/namespaces/web/applications/mine", "")
	if c.Live("applicationreleases", "mine") != nil {
		t.Error("it is still there")
	}
}

const kind = "?group=a.example&version=v1&resource=things&namespace=web&cluster=host"

func TestX35CustomResourcesAreReadAndWrittenAsTheCaller(t *testing.T) {
	c := newCluster(t)
	c.Users["bob"] = scopetest.Rights{Platform: []string{"* things"}, Workspaces: map[string][]string{"shop": rights}}
	at, root := "/workspaces/shop/applications/mine/cr", "/apis/a.example/v1/namespaces/web/things"
	thing := `{"apiVersion":"a.example/v1","kind":"Thing","metadata":{"name":"one","labels":{"a":"b"}}}`
	c.Expect(http.StatusOK, "bob", http.MethodPost, at+kind, thing)
	meta, _ := c.objects[root+"/one"]["metadata"].(map[string]any)
	if l, _ := meta["labels"].(map[string]any); l[v2.LabelRelease] != "mine" || l["a"] != "b" || meta["namespace"] != "web" {
		t.Errorf("%v", meta)
	}
	if got := c.asked[len(c.asked)-1]; got != "PATCH "+root+"/one?fieldManager=applicationOperator&force=true" {
		t.Error(got)
	}
	c.Expect(http.StatusOK, "bob", http.MethodGet, at+"/one"+kind, "")
	if list := c.Expect(http.StatusOK, "bob", http.MethodGet, at+kind, ""); !strings.Contains(list, `"totalItems":1`) || strings.Contains(list, "managedFields") {
		t.Error(list)
	}
	if got, want := c.asked[len(c.asked)-1], url.QueryEscape(v2.LabelRelease+"=mine"); !strings.Contains(got, want) {
		t.Error(got)
	}
	c.objects[root+"/two"] = map[string]any{"metadata": map[string]any{"name": "two", "uid": "u"}}
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		c.Expect(http.StatusNotFound, "bob", method, at+"/two"+kind, "")
	}
	c.Expect(http.StatusConflict, "bob", http.MethodPost, at+kind, strings.Replace(thing, "one", "two", 1))
	c.Expect(http.StatusOK, "bob", http.MethodDelete, at+"/one"+kind, "")
	if slices.Sorted(maps.Keys(c.objects))[0] != root+"/two" {
		t.Errorf("%v", c.objects)
	}
	c.Users["bob"] = scopetest.Rights{Workspaces: map[string][]string{"shop": rights}}
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		c.Expect(http.StatusForbidden, "bob", method, at+kind, thing)
	}
}

func TestX35OnlyKindsOfTheApplicationInItsNamespace(t *testing.T) {
	c := newCluster(t)
	at := "/workspaces/shop/applications/mine/cr"
	for query, code := range map[string]int{
		"?group=&version=v1&resource=secrets":                          400,
		"?group=a.example&version=v1&resource=others":                  422,
		"?group=a.example&version=v2&resource=things":                  422,
		"?group=a.example&version=v1&resource=things/status":           400,
		"?group=a.example&version=..&resource=things":                  400,
		"?group=../../api&version=v1&resource=things":                  400,
		"?group=a.example&version=v1&resource=things&namespace=far":    400,
		"?group=a.example&version=v1&resource=things&cluster=another":  400,
		"?group=rbac.authorization.k8s.io&version=v1&resource=roles":   422,
		"?group=a.example&version=v1&resource=things%3Fa":              400,
		"?group=a.example&version=v1&resource=things&namespace=..%2Fx": 400,
	} {
		c.Expect(code, "ann", http.MethodGet, at+query, "")
	}
	for _, thing := range []string{
		`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"one"}}`,
		`{"apiVersion":"a.example/v1","kind":"Thing","metadata":{"name":"../one"}}`,
		`{"apiVersion":"a.example/v1","kind":"Thing","metadata":{"name":"one","namespace":"far"}}`,
		`[]`, `{`,
	} {
		c.Expect(http.StatusBadRequest, "ann", http.MethodPost, at+kind, thing)
	}
	if len(c.asked) > 0 {
		t.Errorf("%q", c.asked)
	}
}

func TestX35AReleaseShowsWhatItsCallerMayReadOfIt(t *testing.T) {
	c := newCluster(t)
	c.Users["bob"] = scopetest.Rights{Platform: []string{"get configmaps", "get things"}, Workspaces: map[string][]string{"shop": rights}}
	c.Users["eve"] = scopetest.Rights{Workspaces: map[string][]string{"shop": rights}}
	for _, name := range []string{"one", "hidden", "x"} {
		c.objects["/api/v1/namespaces/web/configmaps/"+name] = map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
			"metadata": map[string]any{"name": name, "managedFields": []any{map[string]any{"manager": "helm"}}}}
	}
	c.denied["/api/v1/namespaces/web/configmaps/hidden"] = true
	c.objects["/apis/a.example/v1/namespaces/web/things/three"] = map[string]any{"metadata": map[string]any{"name": "three"}}
	show := func(who string) (names []string) {
		var got v2.ApplicationRelease
		if err := json.Unmarshal([]byte(c.Expect(http.StatusOK, who, http.MethodGet, "/namespaces/web/applications/mine", "")), &got); err != nil {
			t.Fatal(err)
		}
		if got.Name != "mine" || got.Kind != "ApplicationRelease" || got.Status.State != v2.ReleaseActive {
			t.Errorf("%+v", got)
		}
		for _, o := range got.Status.RealTimeResources {
			var u unstructured.Unstructured
			if err := json.Unmarshal(o.Raw, &u.Object); err != nil || u.GetManagedFields() != nil {
				t.Errorf("%s %v", o.Raw, err)
			}
			names = append(names, u.GetName())
		}
		return names
	}
	// bob and eve read it by the right in the namespace, which this cluster gives by the platform's.
	for _, who := range []string{"bob", "eve"} {
		r := c.Users[who]
		r.Platform = append(r.Platform, "get applications", "update applications")
		c.Users[who] = r
	}
	if got := show("bob"); !slices.Equal(got, []string{"one", "three"}) {
		t.Errorf("%q of %q", got, c.asked)
	}
	c.asked = nil
	if got := show("eve"); len(got) != 0 || len(c.asked) != 0 {
		t.Errorf("%q by %q", got, c.asked)
	}
}

func TestX35AnExampleHasWhatItsSchemaRequires(t *testing.T) {
	c := newCluster(t)
	got := map[string]any{}
	answer := c.Expect(http.StatusOK, "bob", http.MethodGet, "/workspaces/shop/apps/redis/examplecr/things.a.example", "")
	if err := json.Unmarshal([]byte(answer), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"apiVersion": "a.example/v1", "kind": "Thing", "metadata": map[string]any{"name": "example"},
		"spec": map[string]any{"size": float64(3), "mode": "fast", "name": ""}}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
	for _, other := range []string{"others.a.example", "things", "things.b.example"} {
		c.Expect(http.StatusNotFound, "bob", http.MethodGet, "/workspaces/shop/apps/redis/examplecr/"+other, "")
	}
	c.Expect(http.StatusNotFound, "bob", http.MethodGet, "/workspaces/shop/apps/none/examplecr/things.a.example", "")
}

const definition = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
	"metadata":{"name":"things.a.example","uid":"d","resourceVersion":"2"},
	"spec":{"group":"a.example","names":{"plural":"things","kind":"Thing"},"scope":"Namespaced","versions":[{"name":"v1","served":true,"storage":true,"schema":
	{"openAPIV3Schema":{"type":"object","properties":{"apiVersion":{"type":"string"},"status":{"type":"object","properties":{"a":{"type":"string","default":"x"}}},
	"spec":{"type":"object","required":["name","mode"],"properties":{"name":{"type":"string"},"mode":{"type":"string","enum":["fast","slow"]},
	"size":{"type":"integer","default":3},"optional":{"type":"string"}}}}}}}]}}`

func inventory() map[string]any {
	object := func(kind, resource, group, name string) string {
		return fmt.Sprintf(`{"group":%q,"version":"v1","kind":%q,"resource":%q,"namespace":"web","name":%q}`, group, kind, resource, name)
	}
	all := []string{object("ConfigMap", "configmaps", "", "one"), object("ConfigMap", "configmaps", "", "hidden"),
		object("ConfigMap", "configmaps", "", "gone"), object("ConfigMap", "configmaps", "", "../configmaps/x"), object("Thing", "things", "a.example", "three")}
	for i := range 60 {
		all = append(all, object("ConfigMap", "configmaps", "", fmt.Sprintf("large-%d", i)))
	}
	text := `{"type":"helm","namespace":"web","objects":[` + strings.Join(all, ",") + `]}`
	return map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "application-release-u-mine",
		"namespace": "kubesphere-system", "uid": "i", "resourceVersion": "4"}, "data": map[string]any{"inventory.json": text}}
}
