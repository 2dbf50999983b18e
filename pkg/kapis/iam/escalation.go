package iam

import (
	"fmt"

	restful "github.com/emicklei/go-restful/v3"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/request"
)

// mayChange refuses to let the caller change how somebody else logs in, who he is or whether he may, if that one holds more on the platform or
// in the cluster than the caller does, or has rights by Kubernetes' own bindings: who sets a password can be that person (S6). Everybody may change what
// is his own, as far as admission lets him. Rights in workspaces and namespaces do not count: who manages users is above their members.
func (h *V1beta1) mayChange(r *restful.Request, u *iam.User) error {
	by := request.UserFrom(r.Request.Context())
	if by == nil {
		return forbidden("nobody asks")
	}
	if isSelf(r, u) {
		return nil
	}
	for _, at := range []authz.Place{{}, {Scope: request.Cluster}} {
		own := map[authz.RoleRef]bool{}
		for _, g := range h.Rights.Held(by, at) {
			own[g.Role] = true
		}
		for _, g := range h.Rights.Held(groupsOf(u), at) {
			if own[g.Role] {
				continue // he holds it by the same role, whatever its condition
			}
			if missing, found := h.Rights.MissingOf(by, at, g.Role); found && len(missing) > 0 {
				return forbidden(fmt.Sprintf("%q can't be changed by %q: the role %q %s grants what the caller does not hold", u.Name, by.GetName(), g.Role.Name, at))
			}
		}
	}
	return h.Guard.Unnamed(r.Request.Context(), by, u.Name, u.Groups)
}

// groupsOf is a user as he is when he has logged in.
func groupsOf(u *iam.User) user.Info {
	return &user.DefaultInfo{Name: u.Name, UID: u.UID, Groups: append([]string{user.AllAuthenticated}, u.Groups...)}
}

// other is user, for what is done to somebody who may hold more than the caller.
func (h *V1beta1) other(r *restful.Request, subresource string) (*iam.User, error) {
	u, err := h.user(r, subresource)
	if err != nil {
		return nil, err
	}
	return u, h.mayChange(r, u)
}
