package tenant

import (
	"context"
	stdjson "encoding/json"
	"fmt"
	"net/http"

	restful "github.com/emicklei/go-restful/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	sigsjson "sigs.k8s.io/json"

	"kapis.dev/ks-apiserver/pkg/caller"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/web"
)

// target is an object that is written as the caller, by the right to the request in the context.
type target struct {
	*Handler
	gvr  schema.GroupVersionResource
	name string
	// implied says that this right is the right to the object itself, as kube-apiserver knows it; see caller.Order.
	implied bool
	// check refuses a change from old, which is nil for a creation, to next, which is nil for a deletion. An object that is not in the
	// scope of the path is not found.
	check func(ctx context.Context, old, next *unstructured.Unstructured) error
}

// path returns the object's at kube-apiserver, or that of its kind for an empty name.
func (t *target) path(name string) string {
	path := "/apis/" + t.gvr.Group + "/" + t.gvr.Version + "/" + t.gvr.Resource
	if t.gvr.Group == "" {
		path = "/api/" + t.gvr.Version + "/" + t.gvr.Resource
	}
	if name != "" {
		path += "/" + name
	}
	return path
}

func (t *target) do(ctx context.Context, o caller.Order) (*unstructured.Unstructured, error) {
	o.Implied = t.implied
	out := &unstructured.Unstructured{}
	if err := t.AsCaller.Into(ctx, o, t.gvr.GroupResource(), out); err != nil {
		return nil, err
	}
	return out, nil
}

// readLive reads the present object from kube-apiserver: the cache may lag, and the result decides what may be written.
func (t *target) readLive(ctx context.Context) (*unstructured.Unstructured, error) {
	o, err := t.do(ctx, caller.Order{Method: http.MethodGet, Path: t.path(t.name)})
	if err != nil {
		return nil, err
	}
	if o.GetUID() == "" || o.GetResourceVersion() == "" {
		return nil, fmt.Errorf("read %s %q at kube-apiserver: it has no uid and no resourceVersion", t.gvr.Resource, t.name)
	}
	return o, nil
}

func (t *target) create(r *restful.Request, o *unstructured.Unstructured) (any, error) {
	ctx := r.Request.Context()
	q, err := web.WriteParameters(r.Request)
	if err != nil {
		return nil, err
	}
	o.SetResourceVersion("")
	if err := t.check(ctx, nil, o); err != nil {
		return nil, err
	}
	body, err := o.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("encode a %s: %w", o.GetKind(), err)
	}
	return shown(t.do(ctx, caller.Order{Method: http.MethodPost, Path: t.path(""), Query: q, Body: body}))
}

func (t *target) replace(r *restful.Request, o *unstructured.Unstructured) (any, error) {
	q, err := web.WriteParameters(r.Request)
	if err != nil {
		return nil, err
	}
	asked := o.GetResourceVersion()
	return t.locked(r.Request.Context(), asked, func(ctx context.Context, now *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		next := o.DeepCopy()
		if err := t.check(ctx, now, next); err != nil {
			return nil, err
		}
		next.SetResourceVersion(now.GetResourceVersion())
		body, err := next.MarshalJSON()
		if err != nil {
			return nil, fmt.Errorf("encode a %s: %w", o.GetKind(), err)
		}
		return t.do(ctx, caller.Order{Method: http.MethodPut, Path: t.path(t.name), Query: q, Body: body})
	})
}

// patch has kube-apiserver make the patch as a dry run, checks the outcome, and then sends the same patch. Both are bound to the
// version that was read, so that what is written is what was checked.
func (t *target) patch(r *restful.Request) (any, error) {
	q, err := web.WriteParameters(r.Request)
	if err != nil {
		return nil, err
	}
	body, mediaType, err := readPatch(r.Request)
	if err != nil {
		return nil, err
	}
	asked, err := versionIn(body, mediaType)
	if err != nil {
		return nil, err
	}
	return t.locked(r.Request.Context(), asked, func(ctx context.Context, now *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		bound, err := bind(body, mediaType, now.GetResourceVersion())
		if err != nil {
			return nil, err
		}
		order := caller.Order{Method: http.MethodPatch, Path: t.path(t.name), Query: caller.DryRun(q), Type: mediaType, Body: bound}
		next, err := t.do(ctx, order)
		if err != nil {
			return nil, err
		}
		if err := t.check(ctx, now, next); err != nil {
			return nil, err
		}
		order.Query = q
		return t.do(ctx, order)
	})
}

// versionIn returns the version that a patch requires the object to have, empty for any.
func versionIn(patch []byte, mediaType string) (string, error) {
	if mediaType == typeJSONPatch {
		var all []struct {
			Op    string `json:"op"`
			Path  string `json:"path"`
			Value any    `json:"value"`
		}
		if err := sigsjson.UnmarshalCaseSensitivePreserveInts(patch, &all); err != nil {
			return "", status.BadRequestf("the JSON patch can't be read: %v", err)
		}
		asked := ""
		for _, o := range all {
			if version, ok := o.Value.(string); ok && o.Path == "/metadata/resourceVersion" &&
				(o.Op == "add" || o.Op == "replace" || o.Op == "test") {
				asked = version
			}
		}
		return asked, nil
	}
	var o struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
	}
	if err := sigsjson.UnmarshalCaseSensitivePreserveInts(patch, &o); err != nil {
		return "", status.BadRequestf("the merge patch can't be read: %v", err)
	}
	return o.Metadata.ResourceVersion, nil
}

// bind binds a patch to a version of its object.
func bind(patch []byte, mediaType, version string) ([]byte, error) {
	if mediaType == typeJSONPatch {
		var all []stdjson.RawMessage
		if err := sigsjson.UnmarshalCaseSensitivePreserveInts(patch, &all); err != nil {
			return nil, status.BadRequestf("the JSON patch can't be read: %v", err)
		}
		op, err := stdjson.Marshal(map[string]string{"op": "add", "path": "/metadata/resourceVersion", "value": version})
		if err != nil {
			return nil, fmt.Errorf("encode a patch: %w", err)
		}
		return stdjson.Marshal(append(all, op))
	}
	var o map[string]any
	if err := sigsjson.UnmarshalCaseSensitivePreserveInts(patch, &o); err != nil {
		return nil, status.BadRequestf("the merge patch can't be read: %v", err)
	}
	metadata, ok := o["metadata"].(map[string]any)
	if !ok && o["metadata"] != nil {
		return nil, status.BadRequestf("metadata in the merge patch must be an object")
	}
	if metadata == nil {
		metadata = map[string]any{}
	}
	metadata["resourceVersion"] = version
	o["metadata"] = metadata
	return stdjson.Marshal(o)
}

// remove deletes the version of the object that was read and checked. If another write comes between, it is repeated, unless the
// caller named the version. ready, where it is not nil, runs first, and returns the version that the object has then.
func (t *target) remove(r *restful.Request, d *metav1.DeleteOptions,
	ready func(ctx context.Context, now *unstructured.Unstructured) (version string, err error)) (any, error) {
	return caller.Remove(r.Request.Context(), t.seen(""), *d, func(ctx context.Context) (*unstructured.Unstructured, error) {
		now, err := t.readLive(ctx)
		if err != nil {
			return nil, err
		}
		return now, t.check(ctx, now, nil)
	}, func(ctx context.Context, now *unstructured.Unstructured, bound metav1.DeleteOptions) (any, error) {
		if ready != nil {
			version, err := ready(ctx, now)
			if err != nil {
				return nil, err
			}
			bound.Preconditions.ResourceVersion = &version
		}
		order, err := caller.Deletion(t.path(t.name), bound, nil)
		if err != nil {
			return nil, err
		}
		order.Implied = t.implied
		if _, err := t.AsCaller.Do(ctx, order); err != nil {
			return nil, err
		}
		return message{"success"}, nil
	})
}

// locked reads the object, and lets write change that version of it. If another write comes between, it is repeated, unless the caller
// named the version.
func (t *target) locked(ctx context.Context, asked string, write func(context.Context,
	*unstructured.Unstructured) (*unstructured.Unstructured, error)) (any, error) {
	read := func(ctx context.Context) (*unstructured.Unstructured, error) {
		now, err := t.readLive(ctx)
		if err != nil || asked == "" || asked == now.GetResourceVersion() {
			return now, err
		}
		// An object that is not in the scope of the path is not found: to say that it has another version would reveal that it exists.
		return now, t.check(ctx, now, now.DeepCopy())
	}
	return shown(caller.Change(ctx, t.seen(asked), read, write))
}

func (t *target) seen(version string) caller.Seen {
	return caller.Seen{Resource: t.gvr.GroupResource(), Name: t.name, Version: version}
}

func shown(o *unstructured.Unstructured, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return o.Object, nil
}

// may reports whether the caller may do what i asks for.
func (h *Handler) may(ctx context.Context, i *request.Info) (bool, error) {
	d, err := h.AsCaller.May.Authorize(ctx, request.UserFrom(ctx), i)
	return err == nil && d.Allowed(), err
}

// right returns the request for a verb on a kind, by name where it is not empty, in a scope.
func right(verb string, gvr schema.GroupVersionResource, name string, scope request.Scope) *request.Info {
	i := &request.Info{
		Verb: verb, APIPrefix: "kapis", APIGroup: gvr.Group, APIVersion: gvr.Version, Resource: gvr.Resource, Name: name, IsResource: true,
		Scope: scope,
		Path:  "/kapis/" + gvr.Group + "/" + gvr.Version + "/" + gvr.Resource,
	}
	if gvr.Group == "" {
		i.APIPrefix, i.Path = "kapi", "/kapi/"+gvr.Version+"/"+gvr.Resource
	}
	if name != "" {
		i.Path += "/" + name
	}
	return i
}

// everything returns the request for any right in a scope.
func everything(scope request.Scope) *request.Info {
	return right("*", schema.GroupVersionResource{Group: "*", Version: "*", Resource: "*"}, "", scope)
}
