package release

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"

	restful "github.com/emicklei/go-restful/v3"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	"kapis.dev/ks-apiserver/pkg/appstore/release"
	"kapis.dev/ks-apiserver/pkg/caller"
	"kapis.dev/ks-apiserver/pkg/kapis/application/scope"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/web"
)

const (
	ofRelease = one + "/cr"
	// fieldManager is the manager of the fields that these routes set.
	fieldManager = "applicationOperator"
)

var definitions = apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")

// customResources adds the routes of custom resources of applications.
func (h *Handler) customResources(ws *restful.WebService) {
	name, cr := ws.PathParameter("application", "name of the release"), ws.PathParameter("crname", "name of the object")
	for _, v := range []scope.Variant{scope.Platform, scope.InWorkspace, scope.InNamespace} {
		for _, b := range []*restful.RouteBuilder{
			ws.GET(v.Path + ofRelease).To(web.Handle(h.listObjects)).Operation("list" + v.ID + "AppCustomResources").
				Doc("Objects of a kind of the application that are the release's, as the caller: one page").
				Param(ws.QueryParameter("limit", "how many of them; all by default").DataType("integer")).
				Param(ws.QueryParameter("page", "which page, from 1 on").DataType("integer")).
				Param(ws.QueryParameter(paramContinue, "where a former answer has ended, as that says")),
			ws.POST(v.Path + ofRelease).Consumes(restful.MIME_JSON).To(web.Handle(h.applyObject)).
				Operation("apply" + v.ID + "AppCustomResource").Doc("Create or change such an object, by server-side apply, as the caller"),
			ws.GET(v.Path + ofRelease + "/{crname}").To(web.Handle(h.getObject)).Operation("get" + v.ID + "AppCustomResource").
				Doc("One such object, as the caller").Param(cr),
			ws.DELETE(v.Path + ofRelease + "/{crname}").To(web.Handle(h.deleteObject)).Operation("delete" + v.ID + "AppCustomResource").
				Doc("Delete such an object, as the caller").Param(cr),
		} {
			for _, p := range [][2]string{{"group", "its group"}, {"version", "its version"}, {"resource", "its plural name"},
				{"cluster", "the cluster of the release"}, {"namespace", "the namespace of the release"}} {
				b.Param(ws.QueryParameter(p[0], p[1]))
			}
			ws.Route(v.Document(ws, b.Param(name)))
		}
	}
	for _, v := range []scope.Variant{scope.Platform, scope.InWorkspace} {
		ws.Route(v.Document(ws, ws.GET(v.Path+"/apps/{app}/examplecr/{name}").To(web.Handle(h.example)).
			Operation("get"+v.ID+"AppExampleCustomResource").Doc("An example of a custom resource, made of its schema").
			Param(ws.PathParameter("app", "name of the application")).
			Param(ws.PathParameter("name", "name of the CustomResourceDefinition"))))
	}
}

// kind is the kind of a request for custom resources, and where they are.
type kind struct {
	schema.GroupVersionResource
	namespace, release string
	// cluster is the member that they are in; "" for this cluster.
	cluster string
}

// kind returns what a request is about: a kind that the application of the release has, in the release's namespace.
func (h *Handler) kind(r *restful.Request) (*kind, error) {
	found, err := scope.Releases.Get(h.Store, r, r.PathParameter("application"))
	if err != nil {
		return nil, err
	}
	k := &kind{namespace: found.Labels[v2.LabelNamespace], release: found.Name, GroupVersionResource: schema.GroupVersionResource{
		Group: r.QueryParameter("group"), Version: r.QueryParameter("version"), Resource: r.QueryParameter("resource")}}
	if len(validation.IsDNS1123Label(k.namespace)) > 0 {
		return nil, status.Errorf(http.StatusUnprocessableEntity, "the release %s has no namespace", found.Name)
	}
	if at := r.QueryParameter("namespace"); at != "" && at != k.namespace {
		return nil, status.BadRequestf("query parameter \"namespace\": %.63q: the release is in %q", at, k.namespace)
	}
	if at, is := r.QueryParameter("cluster"), found.Labels[v2.LabelCluster]; at != "" && at != is {
		return nil, status.BadRequestf("query parameter \"cluster\": %.63q: the release is in %.63q", at, is)
	}
	if release.IsElsewhere(found, h.Store.Host) {
		if h.Fleet == nil {
			return nil, status.Errorf(http.StatusUnprocessableEntity, "the cluster of the release %s is not in the fleet", found.Name)
		}
		k.cluster = found.Labels[v2.LabelCluster]
		if err := h.Fleet.Check(k.cluster); err != nil {
			return nil, err
		}
	}
	if !scope.IsName(k.Group) || len(validation.IsDNS1035Label(k.Version)) > 0 || len(validation.IsDNS1123Label(k.Resource)) > 0 {
		return nil, status.BadRequestf("query parameters \"group\", \"version\" and \"resource\": want those of a kind of the application")
	}
	resources, err := h.resources(r, found.Spec.AppID)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(resources, func(o v2.Resource) bool {
		return o.Group == k.Group && o.Version == k.Version && o.Resource == k.Resource
	}) {
		return nil, status.Errorf(http.StatusUnprocessableEntity, "%s is no kind of the application %.253q", k, found.Spec.AppID)
	}
	return k, nil
}

// String names the kind for people.
func (k *kind) String() string { return k.Resource + "." + k.Group + "/" + k.Version }

// resources returns the kinds of an application, also of one that the caller may not see: they see a release of it.
func (h *Handler) resources(r *restful.Request, app string) ([]v2.Resource, error) {
	text, err := h.cached(r, v2.SchemeGroupVersion.WithResource("applications"), "", app)
	if err != nil {
		return nil, err
	}
	found := &v2.Application{}
	if err := json.Unmarshal([]byte(text), found); err != nil {
		return nil, err
	}
	return found.Spec.Resources, nil
}

func (h *Handler) getObject(r *restful.Request) (any, error) {
	k, err := h.kind(r)
	if err != nil {
		return nil, err
	}
	u, err := h.ofRelease(r, k, r.PathParameter("crname"))
	if err != nil {
		return nil, err
	}
	return u.Object, nil
}

// customResource returns an object of a kind, read as the caller by the caller's own right.
func (h *Handler) customResource(r *restful.Request, k *kind, name string) (*unstructured.Unstructured, error) {
	return h.send(r, k.GroupVersionResource, k.cluster,
		caller.Order{Method: http.MethodGet, Path: path(k.GroupVersionResource, k.namespace, name)})
}

// ofRelease returns an object of the release; any other is not found.
func (h *Handler) ofRelease(r *restful.Request, k *kind, name string) (*unstructured.Unstructured, error) {
	if !scope.IsName(name) {
		return nil, apierrors.NewNotFound(k.GroupResource(), name)
	}
	u, err := h.customResource(r, k, name)
	if err == nil && u.GetLabels()[v2.LabelRelease] != k.release {
		return nil, apierrors.NewNotFound(k.GroupResource(), name)
	}
	return u, err
}

func (h *Handler) applyObject(r *restful.Request) (any, error) {
	k, err := h.kind(r)
	if err != nil {
		return nil, err
	}
	raw, err := web.ReadBody(r.Request, maxBody)
	if err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{}
	if err := json.Unmarshal(raw, &u.Object); err != nil || u.Object == nil {
		return nil, status.BadRequestf("the body is no object as JSON")
	}
	switch {
	case u.GetAPIVersion() != k.Group+"/"+k.Version || u.GetKind() == "":
		return nil, status.BadRequestf("apiVersion is %.253q, and the request is about %s", u.GetAPIVersion(), k)
	case u.GetNamespace() != "" && u.GetNamespace() != k.namespace:
		return nil, status.BadRequestf("metadata.namespace is %.63q, and the release is in %q", u.GetNamespace(), k.namespace)
	case !scope.IsName(u.GetName()):
		return nil, status.BadRequestf("metadata.name %.253q: want the name of an object", u.GetName())
	}
	now, err := h.customResource(r, k, u.GetName())
	if err == nil && now.GetLabels()[v2.LabelRelease] != k.release {
		return nil, status.Errorf(http.StatusConflict, "%s %q is there already, and not this release's", k, u.GetName())
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, err
	}
	labels := u.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[v2.LabelRelease] = k.release
	u.SetLabels(labels)
	u.SetNamespace(k.namespace)
	u.SetManagedFields(nil)
	q, err := web.WriteParameters(r.Request)
	if err != nil {
		return nil, err
	}
	q.Set("fieldManager", fieldManager)
	q.Set("force", "true")
	o := caller.Order{Method: http.MethodPatch, Path: path(k.GroupVersionResource, k.namespace, u.GetName()), Query: q,
		Type: string(types.ApplyYAMLPatchType)}
	if o.Body, err = json.Marshal(u.Object); err != nil {
		return nil, err
	}
	_, err = h.send(r, k.GroupVersionResource, k.cluster, o)
	return success(err)
}

func (h *Handler) deleteObject(r *restful.Request) (any, error) {
	k, err := h.kind(r)
	if err != nil {
		return nil, err
	}
	u, err := h.ofRelease(r, k, r.PathParameter("crname"))
	if err != nil {
		return nil, err
	}
	uid := u.GetUID()
	order, err := caller.Deletion(path(k.GroupVersionResource, k.namespace, u.GetName()),
		metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}, url.Values{"dryRun": r.Request.URL.Query()["dryRun"]})
	if err != nil {
		return nil, err
	}
	_, err = h.send(r, k.GroupVersionResource, k.cluster, order)
	return success(err)
}
