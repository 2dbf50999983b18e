// Package admission has the escalation check: what may be written into users, roles, bindings and the objects they are made from, so that
// no one gives away more rights than they hold. ks-controller-manager applies it to every write at kube-apiserver, by webhook;
// ks-apiserver applies it before it sends a write there, so that it holds if no webhook is installed.
package admission

import (
	"context"
	"errors"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/admission/refusal"
	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/request"
)

// Write is a write that is about to be made.
type Write struct {
	// By is the writer.
	By user.Info
	// Verb is create, update (a patch is an update) or delete.
	Verb string
	GVR  schema.GroupVersionResource
	// Name may be empty if Object has it.
	Namespace, Name string
	// Object is the object after the write, Old the one before, in JSON; Object is nil for delete, Old for create. A deletion of a kind that
	// is checked is refused without Old.
	Object, Old []byte
	// DryRun says that nothing will be stored.
	DryRun bool
	// WhenMade is set by Check where it has to be told that the write was made: see Made.
	WhenMade func() bool
}

// Holdings has the rights that each user holds. rbac.Index is one.
type Holdings interface {
	Memberships
	Missing(u user.Info, at authz.BindingScope, rules []rbacv1.PolicyRule) []rbacv1.PolicyRule
	MissingOf(u user.Info, at authz.BindingScope, role authz.RoleRef) (missing []rbacv1.PolicyRule, found bool)
	HoldsVerb(u user.Info, at authz.BindingScope, verb, resource, name string) bool
	Held(u user.Info, at authz.BindingScope) []authz.Grant
	// Leftovers reports whether namespaces, and whether bindings, have the label of a workspace, whether or not it exists.
	Leftovers(workspace string) (namespaces, bindings bool)
}

// Memberships has where users are bound. rbac.Index is one.
type Memberships interface {
	// Memberships returns the namespaces and workspaces in which a user is bound, and whether the user is in the cluster.
	Memberships(u user.Info) (p *authz.PartialList, cluster bool)
	// WorkspaceOf returns the workspace that a namespace is in, or "" for none.
	WorkspaceOf(namespace string) string
}

// Guard refuses writes that would grant more than their writer holds. It checks only what a write changes, so that a member may edit the
// description of a role with more rights than theirs; and taking rights away is always allowed.
type Guard struct {
	Holdings Holdings
	// Known has the other objects that the check needs: templates and groups. Without it, no role takes rules from templates, and no user
	// joins a group, except by writers who may escalate and bind.
	Known *Cache
	// Host is the name of this cluster if it is the one where administrators of the cluster may place workspaces; empty for a member, which
	// places none.
	Host string
	// InStore returns the plural of a kind of the application store of which an object has the label of a workspace, "" for none. It is asked
	// when a workspace is made; nil means that there are none.
	InStore func(ctx context.Context, workspace string) (kind string, err error)
	// Named reports whether bindings name a user that Holdings does not know: Kubernetes' own, and, in a process that knows them, those of
	// the fleet's members that hold in a whole cluster. Nil means that there are none.
	Named func(ctx context.Context, name string) (bool, error)
	// NamedGroup reports whether Kubernetes' own bindings name a group.
	NamedGroup func(ctx context.Context, name string) (bool, error)
	// InMembers reports whether bindings of the fleet's members name a group. Nil means that there are none, or that this process does not
	// know them.
	InMembers func(group string) bool
	// Native asks kube-apiserver whether a caller who is no user of ours (a service account, an administrator's certificate) may do a verb
	// such as "escalate" or "bind". Nil means that only Holdings count.
	Native func(ctx context.Context, u user.Info, verb string, gvr schema.GroupVersionResource, namespace, name string) (bool, error)
	// Active reports whether a user can log in and is bound to the role platform-admin by a GlobalRoleBinding (Administers), as far as is
	// known now. Nil means that the last administrator is not protected.
	Active func(ctx context.Context, binding, user string) (bool, error)
	// Ends are shared by the webhooks, which do not send the writes. Nil is for a process that does, and calls Write.Made.
	Ends Ends

	own ownEnds
}

// Guards reports whether writes of a kind are checked.
func (g *Guard) Guards(gr schema.GroupResource) bool { return kindOf(gr) != nil }

// Check returns nil, or the metav1.Status of code 403 that says what is missing, and at which scope, or of code 409 if the last
// administrator would go. Any other error means that it could not be found out, and then the write must not be made.
func (g *Guard) Check(ctx context.Context, w *Write) error {
	k := kindOf(w.GVR.GroupResource())
	if k == nil {
		return nil
	}
	q := &escalationCheck{guard: g, ctx: ctx, Write: w}
	if err := q.check(k); err != nil || q.ending == nil {
		return err
	}
	err := q.ending.keepsAdministrator()
	w.WhenMade = q.ending.WhenMade
	return err
}

// check is Check, but for the last administrator.
func (q *escalationCheck) check(k *kind) error {
	w := q.Write
	if w.By == nil || w.By.GetName() == "" {
		return q.refuse("its writer is not known")
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
	if w.Name == "" { // kube-apiserver sends no name of an object whose name it generates, nor of one of a collection: only the object has it
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
	// because begins each refusal; it may be empty.
	because string
	// ending is the check of the write as one that may end an administrator, nil for none.
	ending *escalationCheck
}

// updates reports whether there was an object before.
func (q *escalationCheck) updates() bool { return len(q.Old) > 0 }

// refuse returns the refusal: 403, with the object and a reason.
func (q *escalationCheck) refuse(why string) error {
	return apierrors.NewForbidden(q.GVR.GroupResource(), q.Name, errors.New(q.because+why))
}

// may reports whether the writer holds a verb on an iam resource by name, or everything there. At the system's scopes, a verb by name
// does not count: users who have it for all workspaces and namespaces could make themselves the platform's administrators by it.
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

// orNamed says which verb, by name, would allow the write.
func (q *escalationCheck) orNamed(at authz.BindingScope, verb, resource string) string {
	if q.isSystem(at) {
		return "it is the system's: the verb " + verb + " is no way to it there"
	}
	return "or be given the verb " + verb + " on " + resource
}

// grants returns nil if the writer holds the rules at a scope, or may escalate there on the resource.
func (q *escalationCheck) grants(at authz.BindingScope, rules []rbacv1.PolicyRule, resource string) error {
	if len(rules) == 0 {
		return nil
	}
	missing := q.guard.Holdings.Missing(q.By, at, rules)
	if len(missing) == 0 {
		return nil
	}
	return q.mayEscalate(at, resource, refusal.Lacks(q.By, at, missing))
}

// mayGive returns nil if the writer holds what a role grants at a scope, or may bind the role there. verbOnly means that holding it is not
// enough.
func (q *escalationCheck) mayGive(at authz.BindingScope, role authz.RoleRef, verbOnly bool) error {
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
	return q.refuse(fmt.Sprintf("%s; %s", refusal.Lacks(q.By, at, missing), q.orNamed(at, "bind", fmt.Sprintf("%s %q", resource, role.Name))))
}

// missingOf returns what the writer does not hold of the rights that a role grants at a scope, now or as soon as ks-controller-manager
// has reconciled it.
func (q *escalationCheck) missingOf(at authz.BindingScope, role authz.RoleRef) (missing []rbacv1.PolicyRule, found bool) {
	missing, found = q.guard.Holdings.MissingOf(q.By, at, role)
	if !found || len(missing) > 0 {
		return missing, found
	}
	if soon := q.guard.Known.pendingRules(role, at); len(soon) > 0 {
		missing = q.guard.Holdings.Missing(q.By, at, soon)
	}
	return missing, true
}

// mayEscalate returns nil if the writer may escalate on the resource, and otherwise a refusal with the reason.
func (q *escalationCheck) mayEscalate(at authz.BindingScope, resource, why string) error {
	if ok, err := q.may(at, "escalate", resource, q.Name); ok || err != nil {
		return err
	}
	return q.refuse(why + "; " + q.orNamed(at, "escalate", resource))
}

func rolesOf(s request.Scope) string { return prefixOf(s) + "roles" }

func bindingsOf(s request.Scope) string { return prefixOf(s) + "rolebindings" }

// prefixOf returns what the names of the kinds of roles and bindings of a scope begin with.
func prefixOf(s request.Scope) string {
	switch s {
	case request.Workspace:
		return "workspace"
	case request.Cluster:
		return "cluster"
	case request.Namespace:
		return ""
	}
	return "global"
}
