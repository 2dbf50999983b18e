// Package target finds the user that a route is about, and makes the escalation check before the user is changed.
package target

import (
	"context"
	"slices"

	restful "github.com/emicklei/go-restful/v3"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/admission"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/wire"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/status"
)

// Rights returns what a user is bound to, and what a caller lacks of a role. rbac.Index is one.
type Rights interface {
	admission.Memberships
	Held(u user.Info, at authz.BindingScope) []authz.Grant
	MissingOf(u user.Info, at authz.BindingScope, role authz.RoleRef) (missing []rbacv1.PolicyRule, found bool)
}

// Guard refuses to let the caller become a user whom bindings of Kubernetes' own name. admission.Guard is one.
type Guard interface {
	Unnamed(ctx context.Context, by user.Info, name string, groups []string) error
	// Check refuses writes that would grant more than their writer holds.
	Check(ctx context.Context, w *admission.Write) error
}

// Users finds the user whom the path of a request names, and decides whether the caller may change that user.
type Users struct {
	Index  *iam.UserIndex
	Rights Rights
	Guard  Guard
}

// Named returns the user whom the path names.
func (t *Users) Named(r *restful.Request) (*iam.User, error) {
	name := r.PathParameter("user")
	u := t.Index.ByName(name)
	if u == nil || u.Deleting {
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: wire.Group, Resource: "users"}, name)
	}
	return u, nil
}

// Changeable returns the user whom the path names, after the escalation check.
func (t *Users) Changeable(r *restful.Request) (*iam.User, error) {
	u, err := t.Named(r)
	if err != nil {
		return nil, err
	}
	return u, t.mayChange(r, u)
}

// IsSelf reports whether the caller is the user.
func IsSelf(r *restful.Request, u *iam.User) bool {
	c := request.UserFrom(r.Request.Context())
	return c != nil && c.GetName() == u.Name && c.GetUID() == u.UID
}

// RequirePerson refuses callers with an API key where a logged-in person is needed.
func RequirePerson(r *restful.Request) error {
	c := request.UserFrom(r.Request.Context())
	if c == nil || slices.Contains(c.GetExtra()[iam.ExtraCredential], iam.CredentialAPIKey) {
		return status.Forbiddenf("an API key can't do this: log in")
	}
	return nil
}

// LoggedIn returns a user with the groups that a login gives.
func LoggedIn(u *iam.User) user.Info {
	return &user.DefaultInfo{Name: u.Name, UID: u.UID, Groups: append([]string{user.AllAuthenticated}, u.Groups...)}
}

// CheckWrite makes the escalation check of a write of a User: object is what it will be, nil for a deletion, and old what it is. The caller
// says by the write when it was made.
func (t *Users) CheckWrite(ctx context.Context, verb, name string, object, old []byte) (*admission.Write, error) {
	w := &admission.Write{
		By: request.UserFrom(ctx), Verb: verb, GVR: wire.Resource("users"), Name: name, Object: object, Old: old,
	}
	return w, t.Guard.Check(ctx, w)
}
