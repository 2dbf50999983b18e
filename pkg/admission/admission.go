// Package admission has the rules of what may be written into users, roles, bindings and what becomes of them: nobody gives
// away more than he holds. ks-controller-manager asks them for every write at kube-apiserver, by webhook; ks-apiserver asks them before it
// sends a write there, so that they hold where no webhook is installed.
package admission

import (
	"context"
	"errors"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/request"
)

// Write is a write that is about to be made.
type Write struct {
	// By is who writes.
	By user.Info
	// Verb is create, update (which a patch is, too) or delete.
	Verb string
	GVR  schema.GroupVersionResource
	// Name may be empty where Object has it.
	Namespace, Name string
	// Object is the object as it will be, Old as it is, in JSON; Object is nil for delete, Old for create. A deletion of a kind that is looked
	// at is refused without Old.
	Object, Old []byte
}

// Holdings tell who holds what. rbac.Index is one.
type Holdings interface {
	Missing(u user.Info, at authz.BindingScope, rules []rbacv1.PolicyRule) []rbacv1.PolicyRule
	MissingOf(u user.Info, at authz.BindingScope, role authz.RoleRef) (missing []rbacv1.PolicyRule, found bool)
	HoldsVerb(u user.Info, at authz.BindingScope, verb, resource, name string) bool
	Held(u user.Info, at authz.BindingScope) []authz.Grant
	// WorkspaceOf is the workspace that a namespace is in, empty for none.
	WorkspaceOf(namespace string) string
	// Leftovers tells whether namespaces, or bindings, carry the label of a workspace, whether it is there or not.
	Leftovers(workspace string) (namespaces, bindings bool)
}

// Guard refuses writes that would grant more than their writer holds. What is not changed by a write is not looked at, so that a member
// may edit the description of a role that is above him; and taking away is not giving.
type Guard struct {
	Holdings Holdings
	// Cache has what the rules are followed to: templates and groups. Without it, no role takes rules from templates, and nobody
	// joins a group, but by those who may escalate and bind.
	Known *Cache
	// Host is the name of the cluster that this runs in, where administrators of the cluster may place workspaces; empty for a member, which
	// places none.
	Host string
	// Named tells whether Kubernetes' own bindings name a user, so that whoever is that user at kube-apiserver has rights that are not
	// Holdings'. Nil means that there are none.
	Named func(ctx context.Context, name string) (bool, error)
	// NamedGroup is the same of groups.
	NamedGroup func(ctx context.Context, name string) (bool, error)
	// Native asks kube-apiserver whether somebody who is no user of ours (a service account, an administrator's certificate) may do a verb
	// such as "escalate" or "bind". Nil means that only Holdings count.
	Native func(ctx context.Context, u user.Info, verb string, gvr schema.GroupVersionResource, namespace, name string) (bool, error)
	// Active tells whether a user can log in and is bound to the role platform-admin by a GlobalRoleBinding (Administers), as far as can be
	// told now. Nil means that the last administrator is not looked after.
	Active func(ctx context.Context, binding, user string) (bool, error)

	going going
}

// Guards tells whether writes of a kind are looked at.
func (g *Guard) Guards(gr schema.GroupResource) bool { return kindOf(gr) != nil }

// Check returns nil, or the metav1.Status of code 403 that says what is missing, and at which scope; of code 409 where the last
// administrator would go. Any other error says that it could not be found out, and then the write must not be made.
func (g *Guard) Check(ctx context.Context, w *Write) error {
	k := kindOf(w.GVR.GroupResource())
	if k == nil {
		return nil
	}
	q := &escalationCheck{guard: g, ctx: ctx, Write: w}
	if w.By == nil || w.By.GetName() == "" {
		return q.refuse("nobody is known to have written it")
	}
	of := &q.now
	if w.Verb == "delete" {
		of = &q.old
	} else if err := decodeInto(w.Object, &q.now); err != nil {
		return q.refuse("the object can't be read: " + err.Error())
	}
	if len(w.Old) > 0 {
		if err := decodeInto(w.Old, &q.old); err != nil {
			return q.refuse("the object as it is can't be read: " + err.Error())
		}
	}
	if w.Name == "" { // kube-apiserver says no name of an object whose name it has made up, nor of one of a collection: only the object does
		named := *w
		named.Name, q.Write = of.Metadata.Name, &named
	}
	if w.Verb == "delete" {
		return deletionCheck{q}.deletion(k.remove)
	}
	if w.GVR.Group == iamv1beta1.GroupName {
		if err := q.ownersChange(); err != nil {
			return err
		}
	}
	return k.write(q)
}

// escalationCheck is the check of one write: does it give rights that the writer does not hold?
type escalationCheck struct {
	*Write
	guard    *Guard
	ctx      context.Context //nolint:containedctx // it lives for one call
	now, old object
}

// updates reports whether there was an object before.
func (q *escalationCheck) updates() bool { return len(q.Old) > 0 }

// refuse is the refusal: 403, with the object and a reason.
func (q *escalationCheck) refuse(why string) error {
	return apierrors.NewForbidden(q.GVR.GroupResource(), q.Name, errors.New(why))
}

// may tells whether the writer was given a verb on an iam resource by name, or may do everything there. At places of the system, a verb
// that is named does not count: those who have it for all workspaces and namespaces would be the platform's administrators by it.
func (q *escalationCheck) may(at authz.BindingScope, verb, resource, name string) (bool, error) {
	gvr, namespace := iamv1beta1.SchemeGroupVersion.WithResource(resource), at.Namespace
	if q.isSystem(at) {
		verb, resource, name, namespace = "*", "*", "", ""
		gvr = schema.GroupVersionResource{Group: "*", Version: "*", Resource: "*"}
	}
	if q.guard.Holdings.HoldsVerb(q.By, at, verb, resource, name) {
		return true, nil
	}
	if q.guard.Native == nil {
		return false, nil
	}
	ok, err := q.guard.Native(q.ctx, q.By, verb, gvr, namespace, name)
	if err != nil {
		return false, fmt.Errorf("ask kube-apiserver whether %s may %s %s: %w", q.By.GetName(), verb, resource, err)
	}
	return ok, nil
}

// isSystem tells the workspace of the system, and the namespaces that are in it or are the system's by their names.
func (q *escalationCheck) isSystem(at authz.BindingScope) bool {
	switch at.Scope {
	case request.Workspace:
		return at.Workspace == tenantv1beta1.SystemWorkspace
	case request.Namespace:
		return tenantv1beta1.IsSystemNamespace(at.Namespace) || q.guard.Holdings.WorkspaceOf(at.Namespace) == tenantv1beta1.SystemWorkspace
	}
	return false
}

// orNamed says which verb would help, by name.
func (q *escalationCheck) orNamed(at authz.BindingScope, verb, resource string) string {
	if q.isSystem(at) {
		return "it is the system's: the verb " + verb + " is no way to it there"
	}
	return "or be given the verb " + verb + " on " + resource
}

// grants passes where the writer holds the rules at a place, or may escalate there on the resource.
func (q *escalationCheck) grants(at authz.BindingScope, rules []rbacv1.PolicyRule, resource string) error {
	if len(rules) == 0 {
		return nil
	}
	missing := q.guard.Holdings.Missing(q.By, at, rules)
	if len(missing) == 0 {
		return nil
	}
	return q.mayEscalate(at, resource, lacks(q.By, at, missing))
}

// gives passes where the writer holds what a role grants at a place, or may bind the role there. verbOnly says that holding it is not
// enough.
func (q *escalationCheck) gives(at authz.BindingScope, role authz.RoleRef, verbOnly bool) error {
	missing, found := q.missingOf(at, role)
	if found && len(missing) == 0 && !verbOnly {
		return nil
	}
	resource := rolesOf(role.Scope)
	if ok, err := q.may(at, "bind", resource, role.Name); ok || err != nil {
		return err
	}
	switch {
	case !found:
		return q.refuse(fmt.Sprintf("there is no %s %q, or it is not known yet: make it first", resource, role.Name))
	case verbOnly && q.isSystem(at):
		return q.refuse("a role of the system's is given to those whom Kubernetes itself names (system:...) by who may do everything there")
	case verbOnly:
		return q.refuse(fmt.Sprintf("giving a role to those whom Kubernetes itself names (system:...) needs the verb bind on %s %q", resource,
			role.Name))
	}
	return q.refuse(fmt.Sprintf("%s; %s", lacks(q.By, at, missing), q.orNamed(at, "bind", fmt.Sprintf("%s %q", resource, role.Name))))
}

// missingOf is what the writer does not hold of what a role grants at a place, now or as soon as ks-controller-manager has looked at it.
func (q *escalationCheck) missingOf(at authz.BindingScope, role authz.RoleRef) (missing []rbacv1.PolicyRule, found bool) {
	missing, found = q.guard.Holdings.MissingOf(q.By, at, role)
	if !found || len(missing) > 0 {
		return missing, found
	}
	if soon := q.guard.Known.keptIn(role, at); len(soon) > 0 {
		missing = q.guard.Holdings.Missing(q.By, at, soon)
	}
	return missing, true
}

// mayEscalate passes where the writer may escalate on the resource, and refuses with a reason.
func (q *escalationCheck) mayEscalate(at authz.BindingScope, resource, why string) error {
	if ok, err := q.may(at, "escalate", resource, q.Name); ok || err != nil {
		return err
	}
	return q.refuse(why + "; " + q.orNamed(at, "escalate", resource))
}

func rolesOf(s request.Scope) string {
	switch s {
	case request.Workspace:
		return "workspaceroles"
	case request.Cluster:
		return "clusterroles"
	case request.Namespace:
		return "roles"
	}
	return "globalroles"
}
