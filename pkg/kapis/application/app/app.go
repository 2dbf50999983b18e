package app

import (
	"net/http"
	"slices"
	"strconv"

	restful "github.com/emicklei/go-restful/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	"kapis.dev/ks-apiserver/pkg/appstore"
	"kapis.dev/ks-apiserver/pkg/kapis/application/scope"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/web"
)

func (h *Handler) apps(r *restful.Request) (any, error) { return scope.Apps.List(h.Store, r, nil) }

func (h *Handler) app(r *restful.Request) (any, error) {
	return scope.Apps.Get(h.Store, r, r.PathParameter("app"))
}

// validating reports whether a request only asks what its package is.
func validating(r *restful.Request) (bool, error) {
	v := r.QueryParameter("validate")
	if v == "" {
		return false, nil
	}
	only, err := strconv.ParseBool(v)
	if err != nil {
		return false, status.BadRequestf("the parameter validate is %.100q: want true or false", v)
	}
	return only, nil
}

// createApp makes an application and its first version.
func (h *Handler) createApp(r *restful.Request) (any, error) {
	only, err := validating(r)
	if err != nil {
		return nil, err
	}
	req, err := h.read(r)
	if err != nil {
		return nil, err
	}
	kind, err := typeOf(req)
	if err != nil {
		return nil, err
	}
	p, err := h.inspect(r, kind, req)
	if err != nil {
		return nil, err
	}
	out := info(req, p)
	if only {
		return out, nil
	}
	if err := h.newToWorkspace(r, p.Name); err != nil {
		return nil, err
	}
	a := &v2.Application{ObjectMeta: metav1.ObjectMeta{Name: appstore.NameOfUpload(p.Name)}}
	a.Labels = map[string]string{v2.LabelRepo: v2.RepoUpload, v2.LabelType: kind, v2.LabelCategory: v2.CategoryUncategorized}
	a.Annotations = map[string]string{v2.AnnotationOriginalName: p.Name, annotationAlias: out.AliasName,
		annotationDescription: out.Description}
	a.Spec = v2.ApplicationSpec{AppType: kind, AppHome: out.AppHome, Icon: out.Icon, Resources: out.Resources}
	req.AppHome, req.Icon, req.AliasName, req.Description = nil, nil, nil, nil
	if err := h.edit(r, a, scope.Target(r), req); err != nil {
		return nil, err
	}
	a, v, err := h.makeReserved(r, a, p, req.Package)
	if err != nil {
		return nil, err
	}
	out.AppID, out.VersionID = a.Name, v.Name
	return out, nil
}

// newToWorkspace refuses a second application of a name in a workspace.
func (h *Handler) newToWorkspace(r *restful.Request, name string) error {
	there, err := scope.Apps.All(r.Request.Context(), h.Store, v2.LabelRepo, v2.RepoUpload)
	if err != nil {
		return err
	}
	for _, a := range there {
		if a.Annotations[v2.AnnotationOriginalName] == name && scope.WorkspaceOf(a.Labels) == scope.Target(r) {
			return thereAlready(name, a)
		}
	}
	return nil
}

func thereAlready(name string, a *v2.Application) error {
	return status.About(scope.Apps.Resource(), a.Name, status.Errorf(http.StatusConflict,
		"the workspace has the application %s already, as %s: add a version to it", name, a.Name))
}

// edit changes what an application says of itself to what a request says; workspace is the one that it is of.
func (h *Handler) edit(r *restful.Request, a *v2.Application, workspace string, req *appRequest) error {
	if req.CategoryName != nil {
		name := *req.CategoryName
		if name == "" {
			name = v2.CategoryUncategorized
		}
		if _, err := scope.Categories.Get(h.Store, r, name); err != nil && (name != v2.CategoryUncategorized || !isNotFound(err)) {
			if isNotFound(err) {
				return invalidf("categoryName: there is no category %.253q", name)
			}
			return err
		}
		set(&a.Labels, v2.LabelCategory, name)
	}
	if req.Attachments != nil {
		for _, id := range *req.Attachments {
			// What the application had before may be of an older installation.
			if !slices.Contains(a.Spec.Attachments, id) {
				if err := h.images.check(r, id, workspace); err != nil {
					return err
				}
			}
		}
		a.Spec.Attachments = *req.Attachments
	}
	for key, v := range map[string]*string{annotationAlias: req.AliasName, annotationDescription: req.Description} {
		if v != nil {
			set(&a.Annotations, key, *v)
		}
	}
	for to, v := range map[*string]*string{&a.Spec.AppHome: req.AppHome, &a.Spec.Icon: req.Icon, &a.Spec.Abstraction: req.Abstraction} {
		if v != nil {
			*to = *v
		}
	}
	return nil
}

// set sets a key, and removes it where the value is empty.
func set(all *map[string]string, key, value string) {
	switch {
	case value == "":
		delete(*all, key)
	case *all == nil:
		*all = map[string]string{key: value}
	default:
		(*all)[key] = value
	}
}

func (h *Handler) patchApp(r *restful.Request) (any, error) {
	req, err := h.read(r)
	if err != nil {
		return nil, err
	}
	name := r.PathParameter("app")
	if len(req.Package) > 0 {
		return nil, status.BadRequestf("a package is one of a version: add it with POST apps/%.253s/versions", name)
	}
	a, err := scope.Apps.Change(h.Store, r, name, func(a *v2.Application) error {
		return h.edit(r, a, scope.WorkspaceOf(a.Labels), req)
	})
	if err != nil {
		return nil, err
	}
	return a, nil
}

func (h *Handler) deleteApp(r *restful.Request) (any, error) {
	name := r.PathParameter("app")
	versions, err := scope.Versions.All(r.Request.Context(), h.Store, v2.LabelApp, name)
	if err != nil {
		return nil, err
	}
	err = scope.Apps.Delete(h.Store, r, name, func(a *v2.Application) error {
		if a.Status.State == v2.StateActive {
			return conflict(scope.Apps, name, "it is active: suspend it first")
		}
		for _, v := range versions {
			if !appstore.IsDeletable(v.Status.State) && (v.Status.State != v2.StateActive || a.Status.State != v2.StateSuspended) {
				return conflict(scope.Apps, name, "its version "+v.Name+" is "+v.Status.State+": withdraw or suspend it first")
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return success, nil
}

// action is a change of a state that a user asks for.
type action struct {
	State   string `json:"state"`
	Message string `json:"message,omitempty"`
}

func readAction(r *restful.Request, is func(string) bool) (*action, error) {
	raw, err := web.ReadBody(r.Request, maxJSON)
	if err != nil {
		return nil, err
	}
	a := &action{}
	if err := decode(raw, a); err != nil {
		return nil, err
	}
	if !is(a.State) {
		return nil, invalidf("state is %.100q, which is none", a.State)
	}
	if len(a.Message) > appstore.MaxMessage {
		return nil, invalidf("message has more than %d bytes", appstore.MaxMessage)
	}
	return a, nil
}

// appAction activates or suspends an application. What is not finished of a suspension, its controller finishes.
func (h *Handler) appAction(r *restful.Request) (any, error) {
	asked, err := readAction(r, appstore.IsAppState)
	if err != nil {
		return nil, err
	}
	name := r.PathParameter("app")
	versions, err := scope.Versions.All(r.Request.Context(), h.Store, v2.LabelApp, name)
	if err != nil {
		return nil, err
	}
	from := []string{v2.StateActive}
	_, err = scope.Apps.ChangeStatus(h.Store, r, name, func(a *v2.Application) error {
		if err := appstore.CheckAppMove(a.Status.State, asked.State); err != nil {
			return conflict(scope.Apps, name, err.Error())
		}
		if asked.State == v2.StateActive {
			from = []string{v2.StatePassed}
			if a.Status.State == v2.StateSuspended {
				from = []string{v2.StateSuspended}
			}
			if !slices.ContainsFunc(versions, func(v *v2.ApplicationVersion) bool {
				return v.Status.State == v2.StateActive || slices.Contains(from, v.Status.State)
			}) {
				return conflict(scope.Apps, name, "it has no version that passed its review")
			}
		}
		now := h.now()
		a.Status.State, a.Status.UpdateTime = asked.State, &now
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, v := range versions {
		if slices.Contains(from, v.Status.State) {
			if err := h.move(r, v.Name, asked, func(now string) bool { return slices.Contains(from, now) }); err != nil {
				return nil, err
			}
		}
	}
	return success, nil
}

// move brings a version along with its application, if it is still in a state of those that go along.
func (h *Handler) move(r *restful.Request, name string, to *action, goes func(now string) bool) error {
	_, err := scope.Versions.ChangeStatus(h.Store, r, name, func(v *v2.ApplicationVersion) error {
		if goes(v.Status.State) {
			appstore.Move(&v.Status, to.State, to.Message, request.UserFrom(r.Request.Context()).GetName(), h.now())
		}
		return nil
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
