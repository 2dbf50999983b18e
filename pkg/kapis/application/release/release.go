// Package release serves the releases of the application store: what is installed from it, the objects of that, and custom resources of its
// kinds. Installing is the work of ks-controller-manager, as the user who asked for it here; objects are read and written as the caller.
package release

import (
	"encoding/json"
	"maps"
	"net/http"
	"strings"
	"time"

	restful "github.com/emicklei/go-restful/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	"kapis.dev/ks-apiserver/pkg/appstore/release"
	"kapis.dev/ks-apiserver/pkg/kapis/application/scope"
	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/resource/plan"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/web"
)

const (
	plural = "/applications"
	one    = plural + "/{application}"
	// maxBody bounds the body of a write: values of 1 MiB in base64, and room for the rest.
	maxBody = 2 << 20
)

// Handler serves releases.
type Handler struct {
	Store *scope.Store
	// Host is the name of the host cluster.
	Host string
	// Now is the time; nil for time.Now.
	Now func() time.Time
}

// Routes adds the routes.
func (h *Handler) Routes(ws *restful.WebService) {
	for _, v := range []scope.Variant{scope.Platform, scope.InWorkspace, scope.InNamespace} {
		ws.Route(v.Document(ws, scope.Listing(ws, ws.GET(v.Path+plural).To(web.Handle(h.list)).Operation("list"+v.ID+"AppReleases").
			Doc("What is installed from the store: filtered, sorted, one page").Param(ws.QueryParameter("appID", "of this application only")))))
		ws.Route(v.Document(ws, ws.POST(v.Path+plural).Consumes(restful.MIME_JSON).To(web.Handle(h.create)).
			Operation("create"+v.ID+"AppRelease").Doc("Install a version of an application, as the caller").Reads(v2.ApplicationRelease{})))
	}
	name := ws.PathParameter("application", "name of the release")
	for _, v := range []scope.Variant{scope.Platform, scope.InNamespace} {
		for _, b := range []*restful.RouteBuilder{
			ws.GET(v.Path + one).To(web.Handle(h.get)).Operation("get" + v.ID + "AppRelease").Writes(v2.ApplicationRelease{}).
				Doc("A release, with those of its objects that the caller may read"),
			ws.POST(v.Path + one).Consumes(restful.MIME_JSON).To(web.Handle(h.update)).Operation("update" + v.ID + "AppRelease").
				Doc("Install another version, or with other values, as the caller").Reads(v2.ApplicationRelease{}),
			ws.DELETE(v.Path + one).To(web.Handle(h.delete)).Operation("delete" + v.ID + "AppRelease").
				Doc("Remove what is installed"),
		} {
			ws.Route(v.Document(ws, b.Param(name)))
		}
	}
	h.customResources(ws)
}

func (h *Handler) list(r *restful.Request) (any, error) {
	var labels map[string]string
	if app := r.QueryParameter("appID"); app != "" {
		labels = map[string]string{v2.LabelApp: app}
	}
	return scope.Releases.List(h.Store, r, labels)
}

func (h *Handler) create(r *restful.Request) (any, error) {
	body, err := h.read(r)
	if err != nil {
		return nil, err
	}
	next := &v2.ApplicationRelease{Spec: body.Spec}
	next.Name, next.Labels, next.Annotations = body.Name, own(body.Labels), own(body.Annotations)
	next.Labels[v2.LabelVersion] = body.Spec.AppVersionID
	if err := h.check(r, next); err != nil {
		return nil, err
	}
	_, err = scope.Releases.Create(h.Store, r, next)
	return success(err)
}

func (h *Handler) update(r *restful.Request) (any, error) {
	body, err := h.read(r)
	if err != nil {
		return nil, err
	}
	name := r.PathParameter("application")
	if body.Name != "" && body.Name != name {
		return nil, status.BadRequestf("metadata.name is %.253q, and the path names %.253q", body.Name, name)
	}
	_, err = scope.Releases.Change(h.Store, r, name, func(now *v2.ApplicationRelease) error {
		if now.Labels == nil {
			now.Labels = map[string]string{}
		}
		for key, value := range own(body.Labels) {
			switch {
			case key == v2.LabelVersion:
			case fixed[key] && now.Labels[key] != value:
				return status.Errorf(http.StatusUnprocessableEntity, "metadata.labels: %s of a release stays %.63q", key, now.Labels[key])
			default:
				now.Labels[key] = value
			}
		}
		if now.Annotations == nil {
			now.Annotations = map[string]string{}
		}
		maps.Copy(now.Annotations, own(body.Annotations))
		app, kind := now.Spec.AppID, now.Spec.AppType
		now.Spec = body.Spec
		if now.Spec.AppID == "" {
			now.Spec.AppID = app
		}
		if now.Spec.AppType == "" {
			now.Spec.AppType = kind
		}
		now.Labels[v2.LabelVersion] = now.Spec.AppVersionID
		if now.Status.State == v2.ReleaseFailed { // a caller who saves it again wants it to be tried again
			now.Annotations[v2.AnnotationRetry] = h.now().UTC().Format(time.RFC3339Nano)
		}
		return h.check(r, now)
	})
	return success(err)
}

func (h *Handler) delete(r *restful.Request) (any, error) {
	return success(scope.Releases.Delete(h.Store, r, r.PathParameter("application"), nil))
}

func (h *Handler) now() time.Time {
	if h.Now != nil {
		return h.Now()
	}
	return time.Now()
}

func success(err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return map[string]string{"message": "success"}, nil
}

// fixed are the labels of a release that stay as they are.
var fixed = map[string]bool{v2.LabelApp: true, v2.LabelCluster: true, v2.LabelWorkspace: true, v2.LabelNamespace: true,
	v2.LabelRelease: true}

// own returns those labels or annotations that clients may set: the store's and the platform's names for people, and their own. Who wrote a
// release, and what the platform notes of it, is not theirs to say.
func own(of map[string]string) map[string]string {
	out := maps.Clone(of)
	if out == nil {
		return map[string]string{}
	}
	maps.DeleteFunc(out, func(key, _ string) bool {
		domain, _, _ := strings.Cut(key, "/")
		return key == v2.AnnotationUser || key == v2.AnnotationCreator || domain == "kapis.dev" || strings.HasSuffix(domain, ".kapis.dev")
	})
	return out
}

// read returns the release in the body of a write, with the labels that the path has.
func (h *Handler) read(r *restful.Request) (*v2.ApplicationRelease, error) {
	raw, err := web.ReadBody(r.Request, maxBody)
	if err != nil {
		return nil, err
	}
	body := &v2.ApplicationRelease{}
	if err := json.Unmarshal(raw, body); err != nil { // its text may repeat what the values have
		return nil, status.BadRequestf("the body is no ApplicationRelease as JSON")
	}
	if body.Labels == nil {
		body.Labels = map[string]string{}
	}
	for parameter, label := range map[string]string{"workspace": v2.LabelWorkspace, "namespace": v2.LabelNamespace} {
		at := r.PathParameter(parameter)
		switch says := body.Labels[label]; {
		case at == "" || says == at:
		case says == "":
			body.Labels[label] = at
		default:
			return nil, status.BadRequestf("metadata.labels: %s is %.63q, and the path names %.63q", label, says, at)
		}
	}
	return body, nil
}

// check returns what is wrong with a release: by itself, with its version or with its namespace. ks-controller-manager checks the same
// before it installs, for releases that are written elsewhere.
func (h *Handler) check(r *restful.Request, next *v2.ApplicationRelease) error {
	if err := release.Check(next, h.Host); err != nil {
		return err
	}
	namespace, workspace := next.Labels[v2.LabelNamespace], next.Labels[v2.LabelWorkspace]
	text, err := h.cached(r, corev1.SchemeGroupVersion.WithResource("namespaces"), "", namespace)
	if apierrors.IsNotFound(err) || err == nil && rawjson.GetText(text, "metadata", "labels", v2.LabelWorkspace) != workspace {
		return release.Invalidf("metadata.labels: the workspace %.63q has no namespace %.63q", workspace, namespace)
	}
	if err != nil {
		return err
	}
	text, err = h.cached(r, v2.SchemeGroupVersion.WithResource("applicationversions"), "", next.Spec.AppVersionID)
	if apierrors.IsNotFound(err) {
		return release.Invalidf("spec.appVersionID: the application %.253q has no version %.253q for the workspace %.63q", next.Spec.AppID,
			next.Spec.AppVersionID, workspace)
	}
	if err != nil {
		return err
	}
	version := &v2.ApplicationVersion{}
	if err := json.Unmarshal([]byte(text), version); err != nil {
		return err
	}
	return release.CheckVersion(next, version)
}

// cached returns an object of the caches, also one that the caller may not see: for the server's own checks.
func (h *Handler) cached(r *restful.Request, gvr schema.GroupVersionResource, namespace, name string) (string, error) {
	kind, err := h.Store.Resources.Catalog().Resolve(r.Request.Context(), gvr)
	if err != nil {
		return "", err
	}
	found, err := h.Store.Resources.Get(r.Request.Context(), kind, plan.Scope{Namespace: namespace, Data: namespace != ""}, name)
	if err != nil {
		return "", err
	}
	return found.JSON.String(), nil
}
