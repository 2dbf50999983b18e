package authz

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/request"
)

// Aliases lets a right to read a kind stand for the right to read the same kind by the routes of
// resources.kubesphere.io, which serve every kind under a group of their own.
type Aliases struct {
	// Next decides. It is asked a second time, about the kind's own group, where it refuses.
	Next Authorizer
	// GroupOf tells what a resource of resources.kubesphere.io is elsewhere.
	GroupOf func(resource string) (schema.GroupResource, bool)
}

// Authorize asks Next. Where both refuse, the part of a list that may be seen is what either of them
// gives; but for kinds of the platform as a whole, of which no namespace and no workspace has a part
// (and for one that nobody knows).
func (a Aliases) Authorize(ctx context.Context, u user.Info, r *request.Info) (Decision, error) {
	d, err := a.Next.Authorize(ctx, u, r)
	if err != nil || d.Allowed() || d.Denied() || !isAliased(r) {
		return d, err
	}
	as := a.Of(r)
	if as == nil {
		return AllowPartial(nil, d.Reason), nil
	}
	own, err := a.Next.Authorize(ctx, u, as)
	switch {
	case err != nil || own.Allowed() || own.Denied():
	case as.Scope == request.Global:
		own = AllowPartial(nil, own.Reason)
	default:
		own = AllowPartial(d.partial.Or(own.partial), own.Reason)
	}
	return own, err
}

// Of returns the request that r stands for, whose right is as good; nil where it stands for none.
func (a Aliases) Of(r *request.Info) *request.Info {
	if !isAliased(r) {
		return nil
	}
	gr, ok := a.GroupOf(r.Resource)
	if !ok {
		return nil
	}
	return r.As(gr)
}

func isAliased(r *request.Info) bool {
	if r == nil || !r.IsResource || r.IsKubernetes || r.APIGroup != "resources.kubesphere.io" || r.Subresource != "" {
		return false
	}
	if r.APIVersion != "v1alpha2" && r.APIVersion != "v1alpha3" {
		return false
	}
	return r.Verb == "get" || r.Verb == "list" || r.Verb == "watch"
}
