// Package repo serves the Repos of the application store: repositories that applications come from. What is in them is read by
// ks-controller-manager (pkg/controller/apprepo); here an index is looked at before a Repo is written.
package repo

import (
	"fmt"

	restful "github.com/emicklei/go-restful/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	"kapis.dev/ks-apiserver/pkg/chart/source"
	"kapis.dev/ks-apiserver/pkg/kapis/application/scope"
	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/resource/plan"
	"kapis.dev/ks-apiserver/pkg/store/index"
	"kapis.dev/ks-apiserver/pkg/web"
)

// Handler serves Repos.
type Handler struct {
	store  *scope.Store
	repos  source.Repos
	probes *probes
}

// New returns the handler. charts looks at indexes, and repos are the Repos with their credentials, which no answer shows.
func New(store *scope.Store, charts Prober, repos source.Repos) *Handler {
	return &Handler{store, repos, newProbes(charts)}
}

// Routes adds the routes.
func (h *Handler) Routes(ws *restful.WebService) {
	for _, at := range []scope.Variant{scope.Platform, scope.InWorkspace} {
		name, validate := ws.PathParameter("repo", "name of the repository"),
			ws.QueryParameter("validate", "any value: look at the index of the repository, and write nothing")
		for _, b := range []*restful.RouteBuilder{
			scope.Listing(ws, ws.GET(at.Path+"/repos").To(web.Handle(h.list)).Operation("list"+at.ID+"AppRepos").
				Doc("Repositories of applications: filtered, sorted, one page")),
			ws.POST(at.Path + "/repos").Consumes(restful.MIME_JSON).To(web.Handle(h.create)).Operation("create" + at.ID + "AppRepo").
				Doc("Add a repository, whose index has to be there").Reads(v2.Repo{}).Param(validate),
			ws.GET(at.Path + "/repos/{repo}").To(web.Handle(h.get)).Operation("get" + at.ID + "AppRepo").
				Doc("One repository, without its credential").Writes(v2.Repo{}).Param(name),
			ws.PATCH(at.Path+"/repos/{repo}").Consumes(restful.MIME_JSON, mergePatch).To(web.Handle(h.patch)).
				Operation("patch" + at.ID + "AppRepo").Reads(v2.Repo{}).Param(name).Param(validate).
				Doc("Change a repository: what is absent stays, what is empty is cleared, and another URL clears the credential"),
			ws.DELETE(at.Path + "/repos/{repo}").To(web.Handle(h.delete)).Operation("delete" + at.ID + "AppRepo").
				Doc("Remove a repository, and its applications, but for those that are installed").Param(name),
			ws.POST(at.Path+"/repos/{repo}/action").Consumes(restful.MIME_JSON, "*/*").To(web.Handle(h.action)).
				Operation("sync" + at.ID + "AppRepo").Doc("Have a repository be read at once").Param(name),
			scope.Listing(ws, ws.GET(at.Path+"/repos/{repo}/events").To(web.Handle(h.events)).Operation("list"+at.ID+"AppRepoEvents").
				Doc("How reads of a repository went").Param(name)),
		} {
			ws.Route(at.Document(ws, b))
		}
	}
}

func (h *Handler) list(r *restful.Request) (any, error) { return scope.Repos.List(h.store, r, nil) }

func (h *Handler) get(r *restful.Request) (any, error) {
	return scope.Repos.Get(h.store, r, r.PathParameter("repo"))
}

func (h *Handler) delete(r *restful.Request) (any, error) {
	return success(scope.Repos.Delete(h.store, r, r.PathParameter("repo"), nil))
}

func (h *Handler) action(r *restful.Request) (any, error) {
	_, err := scope.Repos.ChangeStatus(h.store, r, r.PathParameter("repo"), func(repo *v2.Repo) error {
		repo.Status.State = v2.RepoManualTrigger
		return nil
	})
	return success(err)
}

func success(err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return map[string]string{"message": "success"}, nil
}

// events answers the Events of a Repo that the request sees. Those of an object without a namespace are in the namespace default.
func (h *Handler) events(r *restful.Request) (any, error) {
	repo, err := scope.Repos.Get(h.store, r, r.PathParameter("repo"))
	if err != nil {
		return nil, err
	}
	q, err := query.Parse(r.Request.URL.Query())
	if err != nil {
		return nil, err
	}
	ctx := r.Request.Context()
	kind, err := h.store.Resources.Catalog().Resolve(ctx, corev1.SchemeGroupVersion.WithResource("events"))
	if err != nil {
		return nil, err
	}
	uid := string(repo.UID)
	p, err := h.store.Resources.List(ctx, kind, plan.Scope{Namespace: metav1.NamespaceDefault, Only: &plan.Subset{
		Name:  fmt.Sprintf("events of the Repo %q", uid),
		Label: query.Requirement{Key: scope.LabelWorkspace, Op: query.NotIn}, // every object has it
		Holds: func(e *index.Record) bool {
			return e.JSON.GetText("involvedObject", "kind") == "Repo" && e.JSON.GetText("involvedObject", "uid") == uid
		},
	}}, q)
	if err != nil {
		return nil, err
	}
	return p.Items(), nil
}
