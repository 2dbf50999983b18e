package release

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	restful "github.com/emicklei/go-restful/v3"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/klog/v2"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	"kapis.dev/ks-apiserver/pkg/appstore/release"
	"kapis.dev/ks-apiserver/pkg/caller"
	"kapis.dev/ks-apiserver/pkg/kapis/application/scope"
	"kapis.dev/ks-apiserver/pkg/rawjson"
)

const (
	// maxLive is how many objects of a release are read, atOnce how many at a time, and maxLiveBytes how much of them is answered.
	maxLive      = 100
	atOnce       = 8
	maxLiveBytes = 4 << 20
)

// get answers a release with its objects.
func (h *Handler) get(r *restful.Request) (any, error) {
	found, err := scope.Releases.Get(h.Store, r, r.PathParameter("application"))
	if err != nil {
		return nil, err
	}
	found.ManagedFields = nil
	if release.IsElsewhere(found, h.Store.Host) {
		found.Status.RealTimeResources = h.liveElsewhere(r, found)
		return found, nil
	}
	found.Status.RealTimeResources, err = h.live(r, found)
	return found, err
}

// liveWait is how long kube-apiserver, or a member, has to answer for its part of an answer.
const liveWait = 5 * time.Second

// liveElsewhere returns those objects of a release in a member that the caller may read there, as the member says; none where it does not
// answer, or the caller may not see the release there: what the hub knows is answered all the same.
func (h *Handler) liveElsewhere(r *restful.Request, of *v2.ApplicationRelease) []apiextensionsv1.JSON {
	if h.Fleet == nil || len(validation.IsDNS1123Label(of.Labels[v2.LabelNamespace])) > 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(r.Request.Context(), liveWait)
	defer cancel()
	there := &v2.ApplicationRelease{}
	err := h.Fleet.AsCaller.Into(ctx, caller.Order{Method: http.MethodGet, For: r.Request, Path: "/clusters/" + of.Labels[v2.LabelCluster] +
		"/kapis/" + v2.SchemeGroupVersion.String() + "/namespaces/" + of.Labels[v2.LabelNamespace] + plural + "/" + of.Name},
		scope.Releases.Resource(), there)
	if err != nil {
		klog.V(2).InfoS("the objects of a release in a member cluster are not known", "release", of.Name, "error", err)
		return nil
	}
	return there.Status.RealTimeResources
}

// live returns those objects of a release that the caller may read, as kube-apiserver has them, in the order of the inventory.
func (h *Handler) live(r *restful.Request, of *v2.ApplicationRelease) ([]apiextensionsv1.JSON, error) {
	text, err := h.cached(r, corev1.SchemeGroupVersion.WithResource("configmaps"), release.InventoryNamespace, release.InventoryName(of.UID))
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	m := &corev1.ConfigMap{}
	if err := json.Unmarshal([]byte(text), m); err != nil {
		return nil, fmt.Errorf("read a cached ConfigMap: %w", err)
	}
	inventory, err := release.InventoryOf(m)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(r.Request.Context(), liveWait)
	defer cancel()
	read := h.liveObjects(restful.NewRequest(r.Request.WithContext(ctx)), inventory.Objects[:min(len(inventory.Objects), maxLive)])
	out, size := []apiextensionsv1.JSON{}, 0
	for _, text := range read {
		if size += len(text); size > maxLiveBytes {
			break
		}
		if text != nil {
			out = append(out, apiextensionsv1.JSON{Raw: text})
		}
	}
	return out, r.Request.Context().Err()
}

// liveObjects reads objects, a few at a time, and no more of them than an answer has room for. Those that the caller may not read, or that
// can't be read now, are nil: a kind whose server is away must not hide the state of the release.
func (h *Handler) liveObjects(r *restful.Request, objects []release.Object) []json.RawMessage {
	read, size := make([]json.RawMessage, len(objects)), atomic.Int64{}
	slots, all := make(chan struct{}, atOnce), sync.WaitGroup{}
	for i, o := range objects {
		if len(content.IsPathSegmentName(o.Name)) > 0 { // what a chart rendered, and kube-apiserver has refused
			continue
		}
		slots <- struct{}{}
		if size.Load() > maxLiveBytes {
			break
		}
		all.Go(func() {
			defer func() { <-slots }()
			var err error
			if read[i], err = h.liveObject(r, o); err != nil {
				klog.V(2).InfoS("an object of a release is left out", "object", o, "error", err)
			}
			size.Add(int64(len(read[i])))
		})
	}
	all.Wait()
	return read
}

// liveObject returns the JSON of an object as kube-apiserver has it, without what no answer shows; nil where there is none.
func (h *Handler) liveObject(r *restful.Request, o release.Object) (text json.RawMessage, err error) {
	err = h.into(r, kindOf(o), "", caller.Order{Method: http.MethodGet, Path: path(kindOf(o), o.Namespace, o.Name)}, &text)
	switch {
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err), apierrors.IsMethodNotSupported(err):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return rawjson.AppendWithout(nil, string(text), "", managedFields)
}

func kindOf(o release.Object) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: o.Group, Version: o.Version, Resource: o.Resource}
}
