package scope_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	restful "github.com/emicklei/go-restful/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	"kapis.dev/ks-apiserver/pkg/kapis/application/scope"
	"kapis.dev/ks-apiserver/pkg/kapis/application/scopetest"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/web"
)

// mount adds routes as the parts of the store have them.
func mount(s *scope.Store, ws *restful.WebService) {
	for _, at := range []scope.Variant{scope.Platform, scope.InWorkspace} {
		ws.Route(at.Document(ws, scope.Listing(ws, ws.GET(at.Path+"/apps").To(web.Handle(func(r *restful.Request) (any, error) {
			return scope.Apps.List(s, r, nil)
		})))))
		ws.Route(at.Document(ws, ws.GET(at.Path+"/apps/{app}").To(web.Handle(func(r *restful.Request) (any, error) {
			return scope.Apps.Get(s, r, r.PathParameter("app"))
		}))))
		ws.Route(at.Document(ws, ws.POST(at.Path+"/apps").To(web.Handle(func(r *restful.Request) (any, error) {
			a := &v2.Application{}
			if err := r.ReadEntity(a); err != nil {
				return nil, status.BadRequestf("no application")
			}
			return scope.Apps.Create(s, r, a)
		}))))
		ws.Route(at.Document(ws, ws.PATCH(at.Path+"/apps/{app}").Consumes("*/*").To(web.Handle(func(r *restful.Request) (any, error) {
			return scope.Apps.Change(s, r, r.PathParameter("app"), func(a *v2.Application) error {
				a.Spec.AppHome = r.QueryParameter("home")
				return nil
			})
		}))))
		ws.Route(at.Document(ws, ws.POST(at.Path+"/apps/{app}/action").To(web.Handle(func(r *restful.Request) (any, error) {
			if on, err := s.MayOnPlatform(r); err != nil || !on {
				return nil, errors.Join(err, status.Forbiddenf("not on the platform"))
			}
			return scope.Apps.ChangeStatus(s, r, r.PathParameter("app"), func(a *v2.Application) error {
				a.Status.State = v2.StateActive
				return nil
			})
		}))))
		ws.Route(at.Document(ws, ws.DELETE(at.Path+"/apps/{app}").To(web.Handle(func(r *restful.Request) (any, error) {
			return metav1.Status{}, scope.Apps.Delete(s, r, r.PathParameter("app"), func(a *v2.Application) error {
				if a.Status.State == v2.StateActive {
					return apierrors.NewConflict(scope.Apps.Resource(), a.Name, errors.New("active"))
				}
				return nil
			})
		}))))
		ws.Route(at.Document(ws, scope.Listing(ws, ws.GET(at.Path+"/repos").To(web.Handle(func(r *restful.Request) (any, error) {
			return scope.Repos.List(s, r, nil)
		})))))
	}
	ws.Route(scope.Listing(ws, ws.GET("/applications").To(web.Handle(func(r *restful.Request) (any, error) {
		return scope.Releases.List(s, r, map[string]string{v2.LabelApp: "app"})
	}))))
}

func newWorld(t *testing.T) *scopetest.World {
	w := scopetest.New(t, map[string][]map[string]any{
		"applications": {
			scopetest.Object("applications", "draft-a", "a", "draft", map[string]string{"tier": "x"}),
			scopetest.Object("applications", "active-a", "a", "active", nil),
			scopetest.Object("applications", "new-b", "b", "", nil),
			scopetest.Object("applications", "suspended-b", "b", "suspended", nil),
			scopetest.Object("applications", "active-system", "", "active", nil),
			scopetest.Object("applications", "draft-system", "system-workspace", "draft", nil),
		},
		"repos": {scopetest.Object("repos", "of-a", "a", "", nil), scopetest.Object("repos", "of-b", "b", "", nil),
			scopetest.Object("repos", "of-all", "", "", nil)},
		"applicationreleases": {
			scopetest.Object("applicationreleases", "rel-a", "a", "", map[string]string{v2.LabelApp: "app"}),
			scopetest.Object("applicationreleases", "rel-b", "b", "", map[string]string{v2.LabelApp: "app"}),
			scopetest.Object("applicationreleases", "rel-system", "", "", map[string]string{v2.LabelApp: "app"}),
			scopetest.Object("applicationreleases", "another-a", "a", "", map[string]string{v2.LabelApp: "app2"}),
		},
	}, mount)
	w.Users = map[string]scopetest.Rights{
		"admin": {Platform: []string{"*"}},
		// Older installations let everybody read applications, in every workspace.
		"reader": {Platform: []string{"get apps", "list apps", "list applications"}},
		"ann":    {Workspaces: map[string][]string{"a": {"*"}}},
		"older":  {Platform: []string{"get apps", "list apps", "list applications"}, Workspaces: map[string][]string{"b": {"*"}}},
		"both":   {Workspaces: map[string][]string{"a": {"list apps"}, "b": {"list repos"}}},
	}
	return w
}

func TestX28ListsShowWhatIsPublicAndTheCallersOwnWorkspaces(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct{ who, path, want string }{
		{"admin", "/apps", "active-a active-system draft-a draft-system new-b suspended-b"},
		{"admin", "/workspaces/a/apps", "active-a active-system draft-a draft-system"},
		{"ann", "/apps", "active-a active-system draft-a"},
		{"ann", "/workspaces/a/apps", "active-a active-system draft-a"},
		{"reader", "/apps", "active-a active-system"},
		{"reader", "/workspaces/a/apps", "active-a active-system"},
		{"older", "/apps", "active-a active-system new-b suspended-b"},
		{"older", "/workspaces/a/apps", "active-a active-system"},
		{"older", "/workspaces/b/apps", "active-system new-b suspended-b"},
		{"both", "/apps", "active-a active-system draft-a"},
		{"admin", "/repos", "of-a of-all of-b"},
		{"ann", "/repos", "of-a of-all"},
		{"ann", "/workspaces/a/repos", "of-a of-all"},
		{"both", "/repos", "of-all of-b"},
		{"admin", "/applications", "rel-a rel-b rel-system"},
		{"ann", "/applications", "rel-a"},
		{"reader", "/applications", ""},
		{"older", "/applications", "rel-b"},
		// Nothing that a caller adds widens it.
		{"reader", "/apps?cel=true", "active-a active-system"},
		{"reader", "/apps?labelSelector=kubesphere.io/workspace%7C!kubesphere.io/workspace", "active-a active-system"},
		{"reader", "/apps?labelSelector=kubesphere.io/workspace%3Db", ""},
		{"reader", "/apps?names=draft-a,new-b", ""},
		{"reader", "/apps?conditions=status%3Ddraft%7Csuspended", ""},
		{"reader", "/apps?fieldSelector=status.state%3Ddraft", ""},
		// No state of applications is none of them, whatever was asked before.
		{"admin", "/repos?name=x", ""},
		{"admin", "/workspaces/b/apps?conditions=status%3Dpassed", ""},
		{"admin", "/workspaces/b/apps", "active-system draft-system new-b suspended-b"},
	} {
		got := scopetest.Names(t, w.Expect(http.StatusOK, c.who, http.MethodGet, c.path, ""))
		slices.Sort(got)
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s %s: %v, want %s", c.who, c.path, got, c.want)
		}
	}
	w.Expect(http.StatusForbidden, "ann", http.MethodGet, "/workspaces/b/apps", "")
	if body := w.Expect(http.StatusOK, "reader", http.MethodGet, "/apps?limit=0&facets=.metadata.name", ""); strings.Contains(body, "draft") ||
		!strings.Contains(body, `"totalItems":2`) {
		t.Errorf("totals and facets show more than the list: %s", body)
	}
}

func TestX28AnObjectIsFoundInItsOwnWorkspaceOnly(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		who, path string
		code      int
	}{
		{"admin", "/apps/draft-a", http.StatusOK},
		{"admin", "/workspaces/a/apps/draft-a", http.StatusOK},
		{"admin", "/workspaces/b/apps/draft-a", http.StatusNotFound},
		{"ann", "/workspaces/a/apps/draft-a", http.StatusOK},
		{"ann", "/workspaces/a/apps/new-b", http.StatusNotFound},
		{"ann", "/workspaces/a/apps/active-system", http.StatusOK},
		{"ann", "/workspaces/a/apps/draft-system", http.StatusNotFound},
		{"ann", "/workspaces/b/apps/new-b", http.StatusForbidden},
		{"ann", "/apps/draft-a", http.StatusForbidden},
		{"reader", "/apps/active-a", http.StatusOK},
		{"reader", "/apps/draft-a", http.StatusNotFound},
		{"reader", "/workspaces/a/apps/draft-a", http.StatusNotFound},
		{"older", "/workspaces/a/apps/draft-a", http.StatusNotFound},
		{"older", "/apps/new-b", http.StatusOK},
		{"admin", "/apps/none", http.StatusNotFound},
	} {
		w.Expect(c.code, c.who, http.MethodGet, c.path, "")
	}
}

func TestX28WritesReachThePathsOwnWorkspaceOnly(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		who, method, path string
		code              int
	}{
		{"ann", http.MethodPatch, "/workspaces/a/apps/new-b?home=x", http.StatusNotFound},
		{"ann", http.MethodPatch, "/workspaces/a/apps/active-system?home=x", http.StatusNotFound},
		{"ann", http.MethodPatch, "/workspaces/b/apps/new-b?home=x", http.StatusForbidden},
		{"ann", http.MethodPatch, "/apps/draft-a?home=x", http.StatusForbidden},
		{"older", http.MethodPatch, "/workspaces/b/apps/draft-a?home=x", http.StatusNotFound},
		{"ann", http.MethodDelete, "/workspaces/a/apps/new-b", http.StatusNotFound},
		{"ann", http.MethodDelete, "/workspaces/a/apps/active-a", http.StatusConflict},
		{"ann", http.MethodPatch, "/workspaces/a/apps/A_b?home=x", http.StatusNotFound},
		// A review is for who has the right to it on the platform.
		{"ann", http.MethodPost, "/workspaces/a/apps/draft-a/action", http.StatusForbidden},
		{"ann", http.MethodPatch, "/workspaces/a/apps/draft-a", http.StatusOK}, // nothing changes
	} {
		w.Expect(c.code, c.who, c.method, c.path, "")
	}
	if got := w.Writes(); len(got) > 0 {
		t.Errorf("kube-apiserver got %q", got)
	}
	w.Expect(http.StatusOK, "ann", http.MethodPatch, "/workspaces/a/apps/draft-a?home=x", "")
	w.Expect(http.StatusOK, "admin", http.MethodPost, "/workspaces/a/apps/draft-a/action", "")
	w.Expect(http.StatusOK, "admin", http.MethodPatch, "/apps/new-b?home=y", "")
	w.Expect(http.StatusOK, "older", http.MethodDelete, "/workspaces/b/apps/new-b", "")
	want := []string{"PATCH applications/draft-a", "PATCH applications/draft-a/status", "PATCH applications/new-b", "DELETE applications/new-b"}
	if got := w.Writes(); !slices.Equal(got, want) {
		t.Errorf("kube-apiserver got %q, want %q", got, want)
	}
}

func TestX28WhatIsMadeIsInThePathsWorkspaceAndNamesItsAuthor(t *testing.T) {
	w := newWorld(t)
	const body = `{"metadata":{"name":"%","labels":{"kubesphere.io/workspace":"b"},"annotations":{"application.kubesphere.io/req-user":"admin"}}}`
	w.Expect(http.StatusOK, "ann", http.MethodPost, "/workspaces/a/apps", strings.Replace(body, "%", "mine", 1))
	w.Expect(http.StatusForbidden, "ann", http.MethodPost, "/apps", strings.Replace(body, "%", "theirs", 1))
	w.Expect(http.StatusBadRequest, "ann", http.MethodPost, "/workspaces/a/apps", strings.Replace(body, "%", "../x", 1))
	w.Expect(http.StatusConflict, "ann", http.MethodPost, "/workspaces/a/apps", strings.Replace(body, "%", "new-b", 1))
	w.Expect(http.StatusOK, "admin", http.MethodPost, "/apps", `{"metadata":{"name":"of-all"}}`)
	text, _ := json.Marshal([]any{w.Live("applications", "mine"), w.Live("applications", "of-all")})
	var made []v2.Application
	if err := json.Unmarshal(text, &made); err != nil {
		t.Fatal(err)
	}
	if a := made[0]; a.Labels[scope.LabelWorkspace] != "a" || a.Annotations[v2.AnnotationUser] != "ann" ||
		a.Annotations["kubesphere.io/creator"] != "ann" {
		t.Errorf("%+v", a.ObjectMeta)
	}
	if a := made[1]; a.Labels[scope.LabelWorkspace] != scope.SystemWorkspace || a.Annotations[v2.AnnotationUser] != "admin" {
		t.Errorf("%+v", a.ObjectMeta)
	}
}

func TestOlderParametersOfListsAreTranslated(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct{ query, want string }{
		{"conditions=status%3Dactive%7Csuspended&sortBy=name&ascending=true", "active-a active-system suspended-b"},
		{"conditions=status%3Ddraft&sortBy=name&ascending=true", "draft-a draft-system new-b"}, // what says no state is a draft
		{"conditions=status%3D&sortBy=name&limit=1&page=1", "suspended-b"},
		{"conditions=status%3Dpassed", ""},
		{"conditions=status%3Dactive,noLimit%3Dtrue&limit=200&sortBy=name", "active-system active-a"},
		{"conditions=name%3Dnew-b%7Cdraft-a&orderBy=name", "draft-a new-b"},
		{"conditions=name%7Esystem&orderBy=name&reverse=true", "draft-system active-system"},
		{"conditions=keyword%3Dtier", "draft-a"},
		{"paging=limit%3D2,page%3D2&orderBy=name", "draft-a draft-system"},
		{"order=sequence&sortBy=sequence&statistics=true&labelSelector=tier%3Dx", "draft-a"},
		{"sortBy=create_time&labelSelector=tier%3Dx", "draft-a"},
		{"sortBy=status_time&labelSelector=tier%3Dx", "draft-a"},
		{"conditions=colour%3Dred,status%3Ddraft,colour~r&sortBy=name", "new-b draft-system draft-a"}, // no list knows colours
		{"conditions=status%3Dactive%7Cdraft,appName%3Dshop-x7k2p&label=tier%3Dx", "draft-a"},
	} {
		got := scopetest.Names(t, w.Expect(http.StatusOK, "admin", http.MethodGet, "/apps?"+c.query, ""))
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %q, want %q", c.query, got, c.want)
		}
	}
	w.Expect(http.StatusOK, "admin", http.MethodGet, "/repos?conditions=status%3Dactive", "")
	for _, bad := range []string{"conditions=x", "conditions==x", "conditions=colour%3Dred,x", "conditions=status~a", "conditions=keyword~a",
		"conditions=noLimit~a", "paging=1", "reverse=x&orderBy=name",
		"conditions=status%3Dactive,status%3Ddraft", "labelSelector=%3D%3D", "limit=x", "conditions=" + strings.Repeat("name~a,", 17)} {
		w.Expect(http.StatusBadRequest, "admin", http.MethodGet, "/apps?"+bad, "")
	}
	w.Expect(http.StatusMethodNotAllowed, "admin", http.MethodGet, "/apps?watch=true", "")
}
