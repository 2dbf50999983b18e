package authz

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/request"
)

const groupIAM = "iam.kubesphere.io"

// LegacyMembers is what iam.kubesphere.io/v1alpha2 calls the members of a namespace.
const LegacyMembers = "members"

// legacyRoles is what iam.kubesphere.io/v1alpha2 calls the roles of a member, beneath him, by what members are called.
func legacyRoles(members string) string {
	switch members {
	case "clustermembers":
		return "clusterroles"
	case "workspacemembers":
		return "workspaceroles"
	case "namespacemembers", LegacyMembers:
		return "roles"
	}
	return ""
}

// LegacyNames authorizes resources of iam.kubesphere.io/v1alpha2 by their present names, so that a right to the one is a right to the
// other.
func LegacyNames(next Authorizer) Authorizer {
	return Func(func(ctx context.Context, u user.Info, r *request.Info) (Decision, error) {
		if r == nil || r.APIGroup != groupIAM || r.APIVersion != "v1alpha2" || r.IsKubernetes || !r.IsResource {
			return next.Authorize(ctx, u, r)
		}
		if r.Verb == "get" && r.Subresource != "" && r.Subresource == legacyRoles(r.Resource) { // who may read a member may read what he is
			now := *r
			now.Subresource = ""
			r = &now
		}
		switch {
		case r.Resource == LegacyMembers && r.Subresource == "" && r.Namespace != "":
			r = r.As(schema.GroupResource{Group: groupIAM, Resource: "namespacemembers"})
		case r.Resource == "users" && r.Subresource == "globalroles":
			now := *r
			now.Subresource = "roletemplates"
			r = &now
		}
		return next.Authorize(ctx, u, r)
	})
}
