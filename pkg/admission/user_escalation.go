package admission

import (
	"context"
	"fmt"
	"maps"
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"

	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/request"
)

// user checks the role and the groups that a user is given, and any change by which the writer could log in as the user: a password, an
// address or a link of the writer's choice.
func (q *escalationCheck) user() error {
	if disabled := string(iamv1beta1.UserDisabled); q.updates() && q.now.Status.State == disabled && q.old.Status.State != disabled {
		q.mayEndAdministrator()
	}
	before := q.old.Metadata.Annotations[iamv1beta1.AnnotationGlobalRole]
	if role := q.now.Metadata.Annotations[iamv1beta1.AnnotationGlobalRole]; role != "" && role != before {
		if err := q.mayGive(authz.BindingScope{}, authz.RoleRef{Name: role}, false); err != nil {
			return err
		}
	}
	for _, group := range addedNames(q.now.Spec.Groups, q.old.Spec.Groups) {
		if err := q.mayJoin(group); err != nil {
			return err
		}
	}
	if q.updates() && (q.By.GetName() == q.Name || !takesOver(&q.old, &q.now)) {
		return nil
	}
	if before != "" { // ks-controller-manager writes it, to show the role that is bound
		if err := q.mayGive(authz.BindingScope{}, authz.RoleRef{Name: before}, false); err != nil {
			return err
		}
	}
	if !q.isOfHub() {
		if err := q.inherits(); err != nil {
			return err
		}
		if err := q.outranks(); err != nil {
			return err
		}
	}
	return q.unnamed(q.old.Spec.Groups)
}

// Unnamed refuses to let by become a user whom Named, or one of whose groups NamedGroup, reports: what those bindings grant can't be
// compared. The verb bind on users, and on groups, overrides that. Its errors are those of Check.
func (g *Guard) Unnamed(ctx context.Context, by user.Info, name string, groups []string) error {
	gvr := iamv1beta1.SchemeGroupVersion.WithResource("users")
	q := &escalationCheck{guard: g, ctx: ctx, Write: &Write{By: by, Verb: "update", GVR: gvr, Name: name}}
	return q.unnamed(groups)
}

// unnamed returns nil if no binding that Holdings does not know names the user, or a group of the user: anyone who can become the user has
// what it grants, with a kubeconfig and through ks-apiserver.
func (q *escalationCheck) unnamed(groups []string) error {
	for _, group := range groups {
		if named, err := q.namedGroup(group); err != nil {
			return err
		} else if named {
			if err := q.mayBindGroup(group, "bindings of rbac.authorization.k8s.io name the group, and this user, who is in it, has what they"+
				" grant"); err != nil {
				return err
			}
		}
	}
	if q.guard.Named == nil {
		return nil
	}
	named, err := q.guard.Named(q.ctx, q.Name)
	if err != nil {
		return fmt.Errorf("see whether bindings of Kubernetes, or of member clusters, name %q: %w", q.Name, err)
	}
	if !named {
		return nil
	}
	if ok, err := q.may(authz.BindingScope{}, "bind", "users", q.Name); ok || err != nil {
		return err
	}
	return q.refuse("bindings of rbac.authorization.k8s.io, or of a member cluster, name this user, and every login as the user has what" +
		" they grant: ask a user who has the verb bind on users; a new user can have another name")
}

// outranks returns nil if the writer holds what is bound to the user's name, and to the user's groups, on the platform, in the cluster and
// at the system's scopes: a writer who creates a user, or sets the password, can become that user. Rights in other workspaces and
// namespaces do not count, because the right to manage users is above those of members.
func (q *escalationCheck) outranks() error {
	u := &user.DefaultInfo{Name: q.Name, Groups: append([]string{user.AllAuthenticated}, q.old.Spec.Groups...)}
	scopes := []authz.BindingScope{{}, {Scope: request.Cluster}}
	if !q.isOfHub() { // the hub deletes Users here that it made itself
		scopes = append(scopes, SystemScopes(q.guard.Holdings, u)...)
	}
	for _, at := range scopes {
		own := map[authz.RoleRef]bool{}
		for _, g := range q.guard.Holdings.Held(q.By, at) {
			own[g.Role] = true // by the same role, whatever its condition
		}
		for _, g := range q.guard.Holdings.Held(u, at) {
			if own[g.Role] {
				continue
			}
			own[g.Role] = true
			if _, found := q.missingOf(at, g.Role); !found && q.updates() {
				continue // a role that is gone is no reason to leave a user without a password
			}
			if err := q.mayGive(at, g.Role, false); err != nil {
				return err
			}
		}
	}
	return nil
}

// inherits returns nil if the writer may give a new user what ks-controller-manager gives the user of that name: groups whose
// GroupBindings name it, and workspaces of which it is the manager.
func (q *escalationCheck) inherits() error {
	if q.updates() || q.guard.Known == nil {
		return nil
	}
	groups, workspaces := q.guard.Known.refs.Of(q.Name)
	by := *q
	for _, group := range groups {
		if isReserved(group) {
			continue // nobody is put in it
		}
		by.because = fmt.Sprintf("a groupbinding of the group %.100q names this user: take another name; ", group)
		if err := by.mayJoin(group); err != nil {
			return err
		}
	}
	for _, workspace := range workspaces {
		by.because = fmt.Sprintf("the workspace %.100q names this user as its manager: take another name; ", workspace)
		if err := by.mayManage(workspace, workspacesKind.Resource, templatesKind.Resource); err != nil {
			return err
		}
	}
	return nil
}

// isOfHub reports whether the hub of the fleet writes a user who has nothing to log in with here: whom the hub names in its requests has
// what is bound here to the name, known or not.
func (q *escalationCheck) isOfHub() bool {
	return q.By.GetName() == clusterv1alpha1.HubUser && q.now.Spec.Password == "" && q.old.Spec.Password == "" &&
		len(links(&q.now)) == 0 && len(links(&q.old)) == 0
}

// takesOver reports whether a change of a user changes what the user logs in with, or whether the user may log in.
func takesOver(old, now *object) bool {
	return now.Spec.Password != old.Spec.Password || now.Spec.Email != old.Spec.Email || now.Status.State != old.Status.State ||
		!maps.Equal(links(now), links(old))
}

// links returns the identities that a user is linked to.
func links(o *object) map[string]string {
	out := map[string]string{}
	for k, v := range o.Metadata.Annotations {
		if strings.HasPrefix(k, iamv1beta1.AnnotationIdentityProviderPrefix) {
			out[k] = v
		}
	}
	for _, k := range []string{iamv1beta1.LabelIdentifyProvider, iamv1beta1.LabelOriginUID} {
		if v := o.Metadata.Labels[k]; v != "" {
			out[k] = v
		}
	}
	return out
}
