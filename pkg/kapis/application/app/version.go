package app

import (
	"net/http"

	restful "github.com/emicklei/go-restful/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	"kapis.dev/ks-apiserver/pkg/appstore"
	"kapis.dev/ks-apiserver/pkg/kapis/application/scope"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/web"
)

func (h *Handler) versionRoutes(ws *restful.WebService, at scope.Variant) {
	app, version := ws.PathParameter("app", "name of the application"), ws.PathParameter("version", "name of the version")
	validate := ws.QueryParameter("validate", "true: read the package, say what it is, and write nothing").DataType("boolean")
	all, one := at.Path+"/apps/{app}/versions", at.Path+"/apps/{app}/versions/{version}"
	ws.Route(at.Document(ws, scope.Listing(ws, ws.GET(all).To(web.Handle(h.versions)).Operation("list"+at.ID+"AppVersions").
		Doc("Versions of an application: filtered, sorted, one page").Param(app))))
	ws.Route(at.Document(ws, ws.POST(all).Consumes(restful.MIME_JSON, multipartForm).To(handle(h.bounded(h.createVersion))).
		Operation("create"+at.ID+"AppVersion").Doc("Add a version to an application").Reads(appRequest{}).Writes(appInfo{}).Param(app).
		Param(validate)))
	for _, b := range []*restful.RouteBuilder{
		ws.GET(one).To(web.Handle(h.version)).Operation("get" + at.ID + "AppVersion").Doc("One version").Writes(v2.ApplicationVersion{}),
		ws.POST(one).Consumes(restful.MIME_JSON, multipartForm).To(handle(h.bounded(h.replaceVersion))).
			Operation("update" + at.ID + "AppVersion").
			Doc("Replace the package of a version that is a draft, or rejected").Reads(appRequest{}).Writes(appInfo{}).Param(validate),
		ws.DELETE(one).To(web.Handle(h.deleteVersion)).Operation("delete" + at.ID + "AppVersion").
			Doc("Delete a version that is neither submitted nor active, with its package"),
		ws.GET(one + "/package").To(web.Handle(h.bounded(h.versionPackage))).Operation("get" + at.ID + "AppVersionPackage").
			Doc("The package of a version, in base64").Writes(packageAnswer{}),
		ws.GET(one + "/files").To(web.Handle(h.bounded(h.versionFiles))).Operation("get" + at.ID + "AppVersionFiles").
			Doc("The files of a version's package by their names, each in base64").Writes(map[string][]byte{}),
		ws.GET(one + "/audits").To(web.Handle(h.audits)).Operation("list" + at.ID + "AppVersionAudits").
			Doc("Changes of the state of a version, the latest first"),
		ws.POST(one + "/action").Consumes(restful.MIME_JSON).To(handle(h.versionAction)).Operation("actOn" + at.ID + "AppVersion").
			Doc("Submit, withdraw, pass, reject, activate or suspend a version").Reads(action{}),
	} {
		ws.Route(at.Document(ws, b.Param(app).Param(version)))
	}
}

func (h *Handler) versions(r *restful.Request) (any, error) {
	return scope.Versions.List(h.Store, r, map[string]string{v2.LabelApp: r.PathParameter("app")})
}

// reviews answers with versions that people uploaded, of all applications.
func (h *Handler) reviews(r *restful.Request) (any, error) {
	return scope.Versions.List(h.Store, r, map[string]string{v2.LabelRepo: v2.RepoUpload})
}

// found returns the version of a path, as the caches have it.
func (h *Handler) found(r *restful.Request) (*v2.ApplicationVersion, error) {
	name := r.PathParameter("version")
	v, err := scope.Versions.Get(h.Store, r, name)
	if err != nil {
		return nil, err
	}
	return v, ofApp(r, v)
}

// ofApp refuses a version of another application than the one of the path.
func ofApp(r *restful.Request, v *v2.ApplicationVersion) error {
	if v.Labels[v2.LabelApp] != r.PathParameter("app") {
		return scope.Versions.NotFound(r.PathParameter("version"))
	}
	return nil
}

func (h *Handler) version(r *restful.Request) (any, error) {
	v, err := h.found(r)
	if err != nil {
		return nil, err
	}
	return v, nil
}

// readVersion reads a package for the application of the path.
func (h *Handler) readVersion(r *restful.Request) (*v2.Application, *appstore.Package, *appRequest, error) {
	req, err := h.read(r)
	if err != nil {
		return nil, nil, nil, err
	}
	a, err := scope.Apps.Live(h.Store, r, r.PathParameter("app"))
	if err != nil {
		return nil, nil, nil, err
	}
	kind, name := a.Spec.AppType, a.Annotations[v2.AnnotationOriginalName]
	switch {
	case a.DeletionTimestamp != nil:
		return nil, nil, nil, conflict(scope.Apps, a.Name, "it is being deleted")
	case a.Labels[v2.LabelRepo] != v2.RepoUpload:
		return nil, nil, nil, conflict(scope.Apps, a.Name, "it is of a repository, which its versions come from")
	case text(req.AppType) != "" && text(req.AppType) != kind:
		return nil, nil, nil, invalidf("appType is %.100q, and the application is %s", *req.AppType, kind)
	}
	if kind != v2.TypeHelm {
		req.AppName = &name
		if text(req.VersionName) == "" && r.PathParameter("version") != "" {
			v, err := h.found(r)
			if err != nil {
				return nil, nil, nil, err
			}
			req.VersionName = &v.Spec.VersionName
		}
	}
	p, err := h.inspect(r, kind, req)
	if err != nil {
		return nil, nil, nil, err
	}
	if p.Name != name {
		return nil, nil, nil, invalidf("the chart is of %.100q, and the application is %.100q", p.Name, name)
	}
	return a, p, req, nil
}

// writeVersion reads a package, and has it written, unless it only has to be validated.
func (h *Handler) writeVersion(r *restful.Request,
	write func(*v2.Application, *appstore.Package, []byte) (*v2.ApplicationVersion, error)) (any, error) {
	only, err := validating(r)
	if err != nil {
		return nil, err
	}
	a, p, req, err := h.readVersion(r)
	if err != nil {
		return nil, err
	}
	out := info(req, p)
	if only {
		return out, nil
	}
	v, err := write(a, p, req.Package)
	if err != nil {
		return nil, err
	}
	out.AppID, out.VersionID = a.Name, v.Name
	return out, nil
}

func (h *Handler) createVersion(r *restful.Request) (any, error) {
	return h.writeVersion(r, func(a *v2.Application, p *appstore.Package, content []byte) (*v2.ApplicationVersion, error) {
		return h.addVersion(r, a, p, content)
	})
}

// fileLabels say whose the package of a version is.
func fileLabels(v *v2.ApplicationVersion) map[string]string {
	return map[string]string{scope.LabelWorkspace: scope.WorkspaceOf(v.Labels), v2.LabelApp: v.Labels[v2.LabelApp],
		v2.LabelVersion: appstore.LabelValue(v.Name)}
}

// addVersion makes a version, then its file: a file under the name of a version that was there before is never replaced.
func (h *Handler) addVersion(r *restful.Request, a *v2.Application, p *appstore.Package, content []byte) (*v2.ApplicationVersion, error) {
	v := &v2.ApplicationVersion{ObjectMeta: metav1.ObjectMeta{Name: appstore.VersionName(a.Name, p.Version), Labels: map[string]string{
		v2.LabelApp: a.Name, v2.LabelRepo: v2.RepoUpload, v2.LabelType: a.Spec.AppType, scope.LabelWorkspace: scope.WorkspaceOf(a.Labels),
	}}}
	v.Finalizers = []string{v2.FinalizerFiles} // from the beginning, so that no package is left
	h.describe(v, a.Spec.AppType, p, content)
	v, err := scope.Versions.Create(h.Store, r, v)
	if err != nil {
		return nil, err
	}
	if err := h.Files.Put(r.Request.Context(), v.Name, fileLabels(v), content); err != nil {
		_ = scope.Versions.Discard(h.Store, r, v) // without its package it is of no use
		return nil, err
	}
	return scope.Versions.ChangeStatus(h.Store, r, v.Name, func(v *v2.ApplicationVersion) error {
		if v.Status.State == "" {
			now := h.now()
			v.Status.State, v.Status.UserName, v.Status.Updated = v2.StateDraft, request.UserFrom(r.Request.Context()).GetName(), &now
		}
		return nil
	})
}

// describe sets what a version says of its package.
func (h *Handler) describe(v *v2.ApplicationVersion, kind string, p *appstore.Package, content []byte) {
	now := h.now()
	v.Spec = v2.ApplicationVersionSpec{VersionName: p.Version, AppType: kind, AppHome: p.Home, Icon: p.Icon, Created: &now,
		Digest: digest(content), Maintainer: p.Maintainers}
	set(&v.Annotations, annotationDescription, p.Description)
}

// replaceVersion replaces the package of a version. What the version says of it changes first, and only while it is open: whoever reads a
// package compares it with the digest there, so that nothing else is ever taken for what was reviewed.
func (h *Handler) replaceVersion(r *restful.Request) (any, error) {
	name := r.PathParameter("version")
	return h.writeVersion(r, func(a *v2.Application, p *appstore.Package, content []byte) (*v2.ApplicationVersion, error) {
		v, err := scope.Versions.Change(h.Store, r, name, func(v *v2.ApplicationVersion) error {
			switch {
			case ofApp(r, v) != nil:
				return ofApp(r, v)
			case !appstore.IsOpen(v.Status.State):
				return conflict(scope.Versions, name, "it is "+v.Status.State+", and its content is fixed: add another version, or withdraw it")
			case v.Spec.VersionName != p.Version:
				return invalidf("the package is of the version %.100q, and this is %.100q: add a version", p.Version, v.Spec.VersionName)
			}
			h.describe(v, a.Spec.AppType, p, content)
			return nil
		})
		if err != nil {
			return nil, err
		}
		return v, h.Files.Put(r.Request.Context(), v.Name, fileLabels(v), content)
	})
}

func (h *Handler) deleteVersion(r *restful.Request) (any, error) {
	name := r.PathParameter("version")
	err := scope.Versions.Delete(h.Store, r, name, func(v *v2.ApplicationVersion) error {
		if err := ofApp(r, v); err != nil {
			return err
		}
		if !appstore.IsDeletable(v.Status.State) {
			return conflict(scope.Versions, name, "it is "+v.Status.State+": withdraw or suspend it first")
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return success, nil
}

// versionAction brings a version to another state.
func (h *Handler) versionAction(r *restful.Request) (any, error) {
	asked, err := readAction(r, appstore.IsVersionState)
	if err != nil {
		return nil, err
	}
	reviewer, err := h.Store.MayOnPlatform(r)
	if err != nil {
		return nil, err
	}
	name := r.PathParameter("version")
	_, err = scope.Versions.ChangeStatus(h.Store, r, name, func(v *v2.ApplicationVersion) error {
		if err := ofApp(r, v); err != nil {
			return err
		}
		if err := appstore.CheckVersionMove(v.Status.State, asked.State); err != nil {
			return conflict(scope.Versions, name, err.Error())
		}
		if appstore.IsReview(v.Status.State, asked.State) && !reviewer {
			return status.Forbiddenf("%s becomes %s by the decision of a reviewer: who may change versions of all workspaces", name, asked.State)
		}
		if asked.State == v2.StateActive {
			if a, err := scope.Apps.Live(h.Store, r, r.PathParameter("app")); err != nil {
				return err
			} else if a.Status.State == v2.StateSuspended {
				return conflict(scope.Versions, name, "its application is suspended: activate that")
			}
		}
		appstore.Move(&v.Status, asked.State, asked.Message, request.UserFrom(r.Request.Context()).GetName(), h.now())
		return nil
	})
	if err != nil {
		return nil, err
	}
	return success, nil
}

// audits answers with the changes of a version's state.
func (h *Handler) audits(r *restful.Request) (any, error) {
	v, err := h.found(r)
	if err != nil {
		return nil, err
	}
	items := v.Status.Audits
	if items == nil {
		items = []v2.Audit{}
	}
	return map[string]any{"items": items, "totalItems": len(items)}, nil
}

// content returns the version of a path and its package, which is what the version says of it.
func (h *Handler) content(r *restful.Request) (*v2.ApplicationVersion, []byte, error) {
	v, err := h.found(r)
	if err != nil {
		return nil, nil, err
	}
	ctx := r.Request.Context()
	raw, err := h.Files.Get(ctx, v.Name)
	if err != nil && h.Fetch != nil && v.Labels[v2.LabelRepo] != v2.RepoUpload { // also where files are away: it has none
		raw, err = h.Fetch(ctx, v)
	}
	switch {
	case isNotFound(err):
		return nil, nil, status.About(scope.Versions.Resource(), v.Name,
			status.Errorf(http.StatusNotFound, "the package of %s is not there: send it again", v.Name))
	case err != nil:
		return nil, nil, err
	case v.Spec.Digest != "" && digest(raw) != v.Spec.Digest:
		klog.V(2).InfoS("a package is not what its version says", "version", v.Name)
		return nil, nil, conflict(scope.Versions, v.Name, "its package is not the one that it names: try again, or send the package again")
	}
	return v, raw, nil
}

// packageAnswer is a package as clients read it.
type packageAnswer struct {
	VersionID string `json:"versionID"`
	AppID     string `json:"appID"`
	Package   []byte `json:"package"`
}

func (h *Handler) versionPackage(r *restful.Request) (any, error) {
	v, raw, err := h.content(r)
	if err != nil {
		return nil, err
	}
	return packageAnswer{VersionID: v.Name, AppID: v.Labels[v2.LabelApp], Package: raw}, nil
}

func (h *Handler) versionFiles(r *restful.Request) (any, error) {
	v, raw, err := h.content(r)
	if err != nil {
		return nil, err
	}
	if v.Spec.AppType == v2.TypeYAML || v.Spec.AppType == v2.TypeEdge {
		return map[string][]byte{appstore.FileYAML: raw}, nil
	}
	select {
	case h.reading <- struct{}{}:
		defer func() { <-h.reading }()
	case <-r.Request.Context().Done():
		return nil, r.Request.Context().Err()
	}
	p, err := appstore.ReadChart(raw)
	if err != nil {
		return nil, invalidf("the package of %s can't be read: %v", v.Name, err)
	}
	out, size := make(map[string][]byte, len(p.Files)), 0
	for _, f := range p.Files {
		if size += len(f.Data); size > maxFiles {
			return nil, status.Errorf(http.StatusRequestEntityTooLarge, "the files of %s have more than %d MiB: get its package",
				v.Name, maxFiles>>20)
		}
		out[f.Name] = f.Data
	}
	return out, nil
}

// maxFiles bounds the files of a package in an answer, in bytes.
const maxFiles = 16 << 20
