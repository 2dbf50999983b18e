package authz

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/request"
)

const groupIAM = "iam.kubesphere.io"

// OlderMembers is what iam.kubesphere.io/v1alpha2 calls the members of a namespace.
const OlderMembers = "members"

// olderRoles is what iam.kubesphere.io/v1alpha2 calls the roles of a member, beneath him, by what members are called.
func olderRoles(members string) string {
	switch members {
	case "clustermembers":
		return "clusterroles"
	case "workspacemembers":
		return "workspaceroles"
	case "namespacemembers", OlderMembers:
		return "roles"
	}
	return ""
}

// Older lets the names that iam.kubesphere.io/v1alpha2 has for some resources mean what they are called now, so that a right to
// the one is the right to the other.
func Older(next Authorizer) Authorizer {
	return Func(func(ctx context.Context, u user.Info, r *request.Info) (Decision, error) {
		if r == nil || r.APIGroup != groupIAM || r.APIVersion != "v1alpha2" || r.IsKubernetes || !r.IsResource {
			return next.Authorize(ctx, u, r)
		}
		if r.Verb == "get" && r.Subresource != "" && r.Subresource == olderRoles(r.Resource) { // who may read a member may read what he is
			now := *r
			now.Subresource = ""
			r = &now
		}
		switch {
		case r.Resource == OlderMembers && r.Subresource == "" && r.Namespace != "":
			r = r.As(schema.GroupResource{Group: groupIAM, Resource: "namespacemembers"})
		case r.Resource == "users" && r.Subresource == "globalroles":
			now := *r
			now.Subresource = "roletemplates"
			r = &now
		}
		return next.Authorize(ctx, u, r)
	})
}
