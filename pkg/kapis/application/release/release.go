// Package release serves the releases of the application store: what is installed from it, the objects of that, and custom resources of its
// kinds. Installing is the work of ks-controller-manager, as the user who asked for it here; objects are read and written as the caller.
package release

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"

	restful "github.com/emicklei/go-restful/v3"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	"kapis.dev/ks-apiserver/pkg/appstore"
	"kapis.dev/ks-apiserver/pkg/appstore/release"
	"kapis.dev/ks-apiserver/pkg/caller"
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

	mergePatch = "application/merge-patch+json"
)

// Fleet are the other clusters in which releases are.
type Fleet struct {
	// Check returns why no release can be made in a cluster; nil where one can, also while the cluster does not answer.
	Check func(cluster string) error
	// AsCaller sends requests to members as the caller, who has to be one who may enter them. Their paths begin with /clusters/{cluster}.
	AsCaller caller.Client
}

// Handler serves releases.
type Handler struct {
	Store *scope.Store
	// Fleet is nil where there is no other cluster.
	Fleet *Fleet
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
	for _, v := range []scope.Variant{scope.Platform, scope.InWorkspace, scope.InNamespace} {
		for _, b := range []*restful.RouteBuilder{
			ws.GET(v.Path + one).To(web.Handle(h.get)).Operation("get" + v.ID + "AppRelease").Writes(v2.ApplicationRelease{}).
				Doc("A release, with those of its objects that the caller may read"),
			ws.POST(v.Path + one).Consumes(restful.MIME_JSON).To(web.Handle(h.update)).Operation("update" + v.ID + "AppRelease").
				Doc("Install another version, or with other values, as the caller").Reads(v2.ApplicationRelease{}),
			ws.PATCH(v.Path+one).Consumes(restful.MIME_JSON, mergePatch).To(web.Handle(h.patch)).Operation("patch" + v.ID + "AppRelease").
				Doc("The same, but that what is absent stays as it is").Reads(v2.ApplicationRelease{}),
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
	next.Labels[v2.LabelVersion] = appstore.LabelValue(body.Spec.AppVersionID)
	if err := h.check(r, next); err != nil {
		return nil, err
	}
	_, err = scope.Releases.Create(h.Store, r, next)
	return success(scope.Releases.Taken(next.Name, err))
}

func (h *Handler) update(r *restful.Request) (any, error) {
	body, err := h.read(r)
	if err != nil {
		return nil, err
	}
	return h.change(r, func(*v2.ApplicationRelease) (*v2.ApplicationRelease, error) { return body, nil })
}

// patch changes what a merge patch names: what is absent stays, and what is null or empty is cleared.
func (h *Handler) patch(r *restful.Request) (any, error) {
	raw, err := web.ReadBody(r.Request, maxBody)
	if err != nil {
		return nil, err
	}
	return h.change(r, func(now *v2.ApplicationRelease) (*v2.ApplicationRelease, error) {
		was, err := json.Marshal(&v2.ApplicationRelease{ObjectMeta: metav1.ObjectMeta{Labels: now.Labels}, Spec: now.Spec})
		if err != nil {
			return nil, fmt.Errorf("encode the release %s: %w", now.Name, err)
		}
		merged, err := jsonpatch.MergePatch(was, raw)
		if err != nil { // its text may repeat what the values have
			return nil, notRelease()
		}
		return h.parse(r, merged)
	})
}

// change changes the release of the path to what a body says, which next returns for the release as it is.
func (h *Handler) change(r *restful.Request, next func(now *v2.ApplicationRelease) (*v2.ApplicationRelease, error)) (any, error) {
	name := r.PathParameter("application")
	_, err := scope.Releases.Change(h.Store, r, name, func(now *v2.ApplicationRelease) error {
		body, err := next(now)
		if err != nil {
			return err
		}
		if body.Name != "" && body.Name != name {
			return status.BadRequestf("metadata.name is %.253q, and the path names %.253q", body.Name, name)
		}
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
		now.Labels[v2.LabelVersion] = appstore.LabelValue(now.Spec.AppVersionID)
		switch now.Status.State {
		case v2.ReleaseFailed, v2.ReleaseDeployFailed, v2.ReleaseTimeout: // a caller who saves it again wants it to be tried again
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

// read returns the release in the body of a write.
func (h *Handler) read(r *restful.Request) (*v2.ApplicationRelease, error) {
	raw, err := web.ReadBody(r.Request, maxBody)
	if err != nil {
		return nil, err
	}
	return h.parse(r, raw)
}

func notRelease() error { return status.BadRequestf("the body is no ApplicationRelease as JSON") }

// parse returns the release in a text, with the labels that the path has.
func (h *Handler) parse(r *restful.Request, raw []byte) (*v2.ApplicationRelease, error) {
	body := &v2.ApplicationRelease{}
	if err := json.Unmarshal(raw, body); err != nil { // its text may repeat what the values have
		return nil, notRelease()
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
	if err := release.Check(next); err != nil {
		return err
	}
	if release.IsElsewhere(next, h.Store.Host) {
		if err := h.checkElsewhere(r, next); err != nil {
			return err
		}
	} else if err := h.checkNamespace(r, next); err != nil {
		return err
	}
	return h.checkVersion(r, next)
}

// checkVersion returns why the version of a release can't be installed. One that the caches would refuse may have been uploaded, or passed,
// a moment ago.
func (h *Handler) checkVersion(r *restful.Request, next *v2.ApplicationRelease) error {
	text, err := h.cached(r, v2.SchemeGroupVersion.WithResource("applicationversions"), "", next.Spec.AppVersionID)
	if err == nil {
		cached := &v2.ApplicationVersion{}
		if err := json.Unmarshal([]byte(text), cached); err != nil {
			return err
		}
		if release.CheckVersion(next, cached) == nil {
			return nil
		}
	} else if !apierrors.IsNotFound(err) {
		return err
	}
	version, err := scope.Versions.Present(h.Store, r, next.Spec.AppVersionID)
	if apierrors.IsNotFound(err) {
		return release.Invalidf("spec.appVersionID: the application %.253q has no version %.253q for the workspace %.63q", next.Spec.AppID,
			next.Spec.AppVersionID, next.Labels[v2.LabelWorkspace])
	}
	if err != nil {
		return err
	}
	return release.CheckVersion(next, version)
}

// checkElsewhere returns why a release can't be made in another cluster. Which namespaces there are is known there: the namespace is looked
// at before the release is installed, and its message says so. A right in a namespace of this cluster is none in that of another one.
func (h *Handler) checkElsewhere(r *restful.Request, next *v2.ApplicationRelease) error {
	name := next.Labels[v2.LabelCluster]
	if h.Fleet == nil {
		return release.Invalidf("metadata.labels: %s is %.63q: there is no cluster but %q", v2.LabelCluster, name, h.Store.Host)
	}
	reaches, err := h.Store.Reaches(r, next.Labels[v2.LabelWorkspace])
	if err != nil {
		return err
	}
	if !reaches {
		return status.Forbiddenf("a right in the namespace %.63q of this cluster is none in one of the cluster %.63q: it takes a role in the "+
			"workspace %.63q, and the path .../workspaces/{workspace}/applications", next.Labels[v2.LabelNamespace], name,
			next.Labels[v2.LabelWorkspace])
	}
	return h.Fleet.Check(name)
}

// checkNamespace returns why a release can't be made in its namespace.
func (h *Handler) checkNamespace(r *restful.Request, next *v2.ApplicationRelease) error {
	namespace, workspace := next.Labels[v2.LabelNamespace], next.Labels[v2.LabelWorkspace]
	namespaces := corev1.SchemeGroupVersion.WithResource("namespaces")
	text, err := h.cached(r, namespaces, "", namespace)
	switch {
	case err != nil && !apierrors.IsNotFound(err):
		return err
	case err == nil && rawjson.GetText(text, "metadata", "labels", v2.LabelWorkspace) == workspace:
		return nil
	}
	// It may have been made a moment ago, by a caller who may get it.
	if is, err := h.object(r, namespaces, "", namespace); err == nil && is.GetLabels()[v2.LabelWorkspace] == workspace {
		return nil
	}
	return release.Invalidf("metadata.labels: the workspace %.63q has no namespace %.63q", workspace, namespace)
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
