package scope_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	restful "github.com/emicklei/go-restful/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	"kapis.dev/ks-apiserver/pkg/kapis/application/scope"
	"kapis.dev/ks-apiserver/pkg/kapis/application/scopetest"
	"kapis.dev/ks-apiserver/pkg/web"
)

// placements are the workspaces of namespaces.
type placements map[string]string

func (p placements) Placement(namespace string) (workspace string, known bool) {
	workspace, known = p[namespace]
	return workspace, known
}

func (p placements) Placements() uint64 { return uint64(len(p)) }

// S69: a release whose namespace is another workspace's by now, or was made anew by somebody else, is neither workspace's: who has the namespace
// sees no values of those who had one of that name, and who has the workspace removes nothing in what is no longer theirs.
func TestAReleaseOfANamespaceThatHasLeftIsThePlatformsAlone(t *testing.T) {
	in := func(namespace string) map[string]string {
		return map[string]string{v2.LabelNamespace: namespace, v2.LabelCluster: "host"}
	}
	w := scopetest.New(t, map[string][]map[string]any{"applicationreleases": {
		scopetest.Object("applicationreleases", "stays", "a", "active", in("n-a")),
		scopetest.Object("applicationreleases", "moved", "a", "active", in("n-b")),
		scopetest.Object("applicationreleases", "freed", "a", "active", in("n-free")),
		scopetest.Object("applicationreleases", "gone", "a", "active", in("n-gone")),
		scopetest.Object("applicationreleases", "member", "a", "active", map[string]string{v2.LabelNamespace: "n-b", v2.LabelCluster: "m1"}),
	}}, func(s *scope.Store, ws *restful.WebService) {
		for _, at := range []scope.Variant{scope.Platform, scope.InWorkspace, scope.InNamespace} {
			ws.Route(at.Document(ws, scope.Listing(ws, ws.GET(at.Path+"/applications").To(web.Handle(func(r *restful.Request) (any, error) {
				return scope.Releases.List(s, r, nil)
			})))))
			ws.Route(at.Document(ws, ws.GET(at.Path+"/applications/{name}").To(web.Handle(func(r *restful.Request) (any, error) {
				return scope.Releases.Get(s, r, r.PathParameter("name"))
			}))))
			ws.Route(at.Document(ws, ws.DELETE(at.Path+"/applications/{name}").To(web.Handle(func(r *restful.Request) (any, error) {
				return metav1.Status{}, scope.Releases.Delete(s, r, r.PathParameter("name"), nil)
			}))))
		}
	})
	now := placements{"n-a": "a"}
	w.Store.Namespaces = now
	w.Users = map[string]scopetest.Rights{
		"admin": {Platform: []string{"*"}},
		"ann":   {Workspaces: map[string][]string{"a": {"*"}}},
		"bob":   {Workspaces: map[string][]string{"b": {"*"}}, Namespaces: map[string][]string{"n-b": {"*"}, "n-free": {"*"}}},
	}
	lists := func(who, path, want string) {
		t.Helper()
		got := scopetest.Names(t, w.Expect(http.StatusOK, who, http.MethodGet, path, ""))
		slices.Sort(got)
		if strings.Join(got, " ") != want {
			t.Errorf("%s sees %v at %s, want %s", who, got, path, want)
		}
	}
	lists("ann", "/workspaces/a/applications", "freed gone member moved stays")
	now["n-b"], now["n-free"] = "b", "" // the list above is not what is answered from now on
	lists("ann", "/workspaces/a/applications", "gone member stays")
	lists("ann", "/applications", "gone member stays")
	lists("bob", "/namespaces/n-b/applications", "")
	lists("bob", "/namespaces/n-free/applications", "")
	lists("admin", "/applications", "freed gone member moved stays")
	for _, c := range []struct {
		who, path string
		code      int
	}{
		{"ann", "/workspaces/a/applications/moved", http.StatusNotFound},
		{"ann", "/workspaces/a/applications/freed", http.StatusNotFound},
		{"bob", "/namespaces/n-b/applications/moved", http.StatusNotFound},
		{"bob", "/namespaces/n-free/applications/freed", http.StatusNotFound},
		{"ann", "/workspaces/a/applications/stays", http.StatusOK},
		{"ann", "/workspaces/a/applications/gone", http.StatusOK},
		{"admin", "/applications/moved", http.StatusOK},
	} {
		for _, method := range []string{http.MethodGet, http.MethodDelete} {
			w.Expect(c.code, c.who, method, c.path, "")
		}
	}
}
