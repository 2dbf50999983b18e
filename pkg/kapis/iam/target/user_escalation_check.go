package target

import (
	restful "github.com/emicklei/go-restful/v3"

	"kapis.dev/ks-apiserver/pkg/admission"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/status"
)

// mayChange makes the escalation check (S6): the caller may not change how another user logs in, or whether, if that user holds more
// on the platform, in the cluster or at the system's scopes, or has rights by Kubernetes' own bindings, since a caller who sets a password
// can become that user. Rights in other workspaces and namespaces don't count: user managers are above their members.
func (t *Users) mayChange(r *restful.Request, u *iam.User) error {
	by := request.UserFrom(r.Request.Context())
	if by == nil {
		return status.Forbiddenf("the request has no user")
	}
	if IsSelf(r, u) {
		return nil
	}
	scopes := append([]authz.BindingScope{{}, {Scope: request.Cluster}}, admission.SystemScopes(t.Rights, LoggedIn(u))...)
	for _, at := range scopes {
		own := map[authz.RoleRef]bool{}
		for _, g := range t.Rights.Held(by, at) {
			own[g.Role] = true
		}
		for _, g := range t.Rights.Held(LoggedIn(u), at) {
			if own[g.Role] {
				continue // the caller holds the same role, whatever its condition
			}
			if missing, found := t.Rights.MissingOf(by, at, g.Role); found && len(missing) > 0 {
				return status.Forbiddenf("%q can't be changed by %q: the role %q %s grants what the caller does not hold", u.Name,
					by.GetName(), g.Role.Name, at)
			}
		}
	}
	return t.Guard.Unnamed(r.Request.Context(), by, u.Name, u.Groups)
}
