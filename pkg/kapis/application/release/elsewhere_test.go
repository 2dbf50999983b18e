package release_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	"kapis.dev/ks-apiserver/pkg/kapis/application/scopetest"
)

// X33: a release is made in a member by who may in its workspace, in the caller's name; which namespaces there are is the member's to say.
func TestX33AReleaseIsMadeInAMember(t *testing.T) {
	c := newCluster(t)
	in := func(cluster string) string {
		return body("new", labels(v2.LabelCluster, cluster, v2.LabelNamespace, "there"), spec("redis-1"))
	}
	for cluster, code := range map[string]int{"bare": http.StatusNotImplemented, "unknown": http.StatusUnprocessableEntity} {
		c.Expect(code, "bob", http.MethodPost, "/workspaces/shop/applications", in(cluster))
	}
	if writes := c.Writes(); len(writes) > 0 {
		t.Errorf("%q", writes)
	}
	c.Expect(http.StatusOK, "bob", http.MethodPost, "/workspaces/shop/applications", in("none"))
	meta, _ := c.Live("applicationreleases", "new")["metadata"].(map[string]any)
	notes, _ := meta["annotations"].(map[string]any)
	if l, _ := meta["labels"].(map[string]any); l[v2.LabelCluster] != "none" || notes[v2.AnnotationUser] != "bob" {
		t.Errorf("%v", meta)
	}
	c.Expect(http.StatusOK, "bob", http.MethodPost, "/workspaces/shop/applications/far", body("far", labels(v2.LabelCluster, "m1"), spec("redis-1")))
	c.Expect(http.StatusUnprocessableEntity, "bob", http.MethodPost, "/workspaces/shop/applications/far", body("far", labels(), spec("redis-1")))
	c.Expect(http.StatusOK, "bob", http.MethodDelete, "/workspaces/shop/applications/far", "")
	if len(c.asked) > 0 {
		t.Errorf("the member was asked %q", c.asked)
	}
}

// X28: a right in a namespace of this cluster is none in the namespace of that name in another one.
func TestX28ARightInANamespaceIsNoneInAnotherClusters(t *testing.T) {
	c := newCluster(t)
	// The right in the namespace is the platform's as this world has it; only what asks about a workspace tells them apart.
	c.Users["eve"] = scopetest.Rights{Namespaces: map[string][]string{"web": {"* applications", "* applications/cr", "get namespaces"}}}
	c.Expect(http.StatusOK, "eve", http.MethodGet, "/namespaces/web/applications/mine", "")
	c.Expect(http.StatusNotFound, "eve", http.MethodGet, "/namespaces/web/applications/far", "")
	c.Expect(http.StatusNotFound, "eve", http.MethodDelete, "/namespaces/web/applications/far", "")
	c.Expect(http.StatusNotFound, "eve", http.MethodPost, "/namespaces/web/applications/far", body("far", labels(v2.LabelCluster, "m1"), spec("redis-1")))
	c.Expect(http.StatusNotFound, "eve", http.MethodGet, "/namespaces/web/applications/far/cr?group=a.example&version=v1&resource=things", "")
	c.Expect(http.StatusForbidden, "eve", http.MethodPost, "/namespaces/web/applications",
		body("new", labels(v2.LabelCluster, "m1", v2.LabelWorkspace, "shop"), spec("redis-1")))
	if got := scopetest.Names(t, c.Expect(http.StatusOK, "eve", http.MethodGet, "/namespaces/web/applications", "")); !slices.Equal(got, []string{"mine"}) {
		t.Errorf("%q", got)
	}
	if len(c.asked) > 0 || c.Live("applicationreleases", "far") == nil || c.Live("applicationreleases", "new") != nil {
		t.Errorf("the member was asked %q", c.asked)
	}
}

// X35: objects of a release in a member are read there, as the caller; what this cluster knows is answered also where that does not answer.
func TestX35ObjectsInAMemberAreReadThereAsTheCaller(t *testing.T) {
	c := newCluster(t)
	there := "/clusters/m1/kapis/application.kubesphere.io/v2/namespaces/web/applications/far"
	c.objects[there] = map[string]any{"metadata": map[string]any{"name": "far"}, "status": map[string]any{"state": "forged",
		"realTimeResources": []any{map[string]any{"kind": "Deployment", "metadata": map[string]any{"name": "web"}}}}}
	show := func(name string) (out v2.ApplicationRelease) {
		if err := json.Unmarshal([]byte(c.Expect(http.StatusOK, "bob", http.MethodGet, "/workspaces/shop/applications/"+name, "")), &out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	if got := show("far"); got.Status.State != v2.ReleaseActive || len(got.Status.RealTimeResources) != 1 ||
		!slices.Equal(c.asked, []string{"bob GET " + there}) {
		t.Errorf("%+v of %q", got.Status, c.asked)
	}
	if got := show("gone"); got.Status.State != v2.ReleaseActive || got.Status.RealTimeResources != nil {
		t.Errorf("%+v", got.Status)
	}
	c.kept["bob"], c.asked = true, nil
	if got := show("far"); got.Status.RealTimeResources != nil || len(c.asked) > 0 {
		t.Errorf("a caller who may not enter it: %+v, %q", got.Status, c.asked)
	}
	c.kept["bob"] = false
	at, kind := "/workspaces/shop/applications/far/cr", "?group=a.example&version=v1&resource=things&cluster=m1"
	thing := `{"apiVersion":"a.example/v1","kind":"Thing","metadata":{"name":"one"}}`
	c.Expect(http.StatusOK, "bob", http.MethodPost, at+kind, thing)
	if got := c.asked[len(c.asked)-1]; !strings.HasPrefix(got, "bob PATCH /clusters/m1/apis/a.example/v1/namespaces/web/things/one?") {
		t.Error(got)
	}
	c.Expect(http.StatusOK, "bob", http.MethodGet, at+"/one"+kind, "")
	c.Expect(http.StatusOK, "bob", http.MethodDelete, at+"/one"+kind, "")
	c.Expect(http.StatusBadRequest, "bob", http.MethodGet, at+"/one"+strings.Replace(kind, "m1", "host", 1), "")
}
