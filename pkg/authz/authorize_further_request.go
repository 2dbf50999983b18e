package authz

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"kapis.dev/ks-apiserver/pkg/request"
)

// Permit asks a whether the caller in r's context may make r: a request to kube-apiserver that a handler makes on the caller's behalf,
// other than the authorized one (the Secret that a verification needs, the deletion within a replacement). It returns r with a context
// that has r's own request.Info and decision, and nothing of the request being served but its caller.
func Permit(a Authorizer, r *http.Request) (*http.Request, error) {
	ctx := r.Context()
	u := request.UserFrom(ctx)
	if u == nil {
		return nil, errors.New("authorize a request of this server's own: it has no caller")
	}
	info, err := request.Parse(r)
	if err != nil {
		return nil, err
	}
	d, err := a.Authorize(ctx, u, info)
	if err != nil {
		return nil, fmt.Errorf("authorize %s %s: %w", r.Method, info.Path, err)
	}
	if !d.Allowed() {
		return nil, Forbidden(u, info, d)
	}
	return r.WithContext(WithDecision(request.WithInfo(ctx, info), d)), nil
}

// MayList returns a function that reports whether the caller in a context may list all objects of a kind in the whole cluster. An error
// counts as no.
func MayList(a Authorizer) func(context.Context, schema.GroupVersionResource) bool {
	return func(ctx context.Context, gvr schema.GroupVersionResource) bool {
		u := request.UserFrom(ctx)
		if a == nil || u == nil {
			return false
		}
		i := &request.Info{Verb: "list", Path: "/kapis/" + gvr.Group + "/" + gvr.Version + "/" + gvr.Resource, APIPrefix: "kapis",
			APIVersion: gvr.Version, IsResource: true}
		if gvr.Group == "" {
			i.Path, i.APIPrefix = "/kapi/"+gvr.Version+"/"+gvr.Resource, "kapi"
		}
		d, err := a.Authorize(WithoutPartialList(ctx), u, i.As(gvr.GroupResource()))
		return err == nil && d.Allowed()
	}
}
