package admission

import (
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/request"
)

// A caller who may delete a role, a binding or a template may do so whatever it grants. A deletion is refused if it has an effect beyond
// the object: if it ends a user with more rights than the caller, leaves the platform without an administrator, makes a built-in role
// come back wider than it was, or makes a controller delete what the caller may not.

// deletionCheck is the check of a deletion.
type deletionCheck struct{ *escalationCheck }

// controllers of Kubernetes delete objects that have lost their owner, or their namespace. They act for no caller, so there are no rights
// to compare: what makes them act is checked when it is written, see ownersChange. Their deletions are checked only for the last
// administrator.
var controllers = []string{
	"system:serviceaccount:kube-system:generic-garbage-collector", "system:serviceaccount:kube-system:namespace-controller",
	"system:kube-controller-manager",
}

// Controllers returns the user names of Kubernetes' own controllers that delete objects without a caller's request.
func Controllers() []string { return slices.Clone(controllers) }

// deletion returns why the deletion is refused by the rule of the kind, or nil.
func (q deletionCheck) deletion(check func(deletionCheck) error) error {
	if check == nil {
		return nil
	}
	if len(q.Old) == 0 {
		return q.refuse("what is to be deleted is not known")
	}
	if slices.Contains(controllers, q.By.GetName()) {
		q.mayEndAdministrator()
		return nil
	}
	return check(q)
}

// deleteUser refuses the deletion of a user with more rights than the caller, as a change of the password is refused.
func (q deletionCheck) deleteUser() error {
	if q.By.GetName() == q.Name {
		return q.refuse("users can't delete their own account")
	}
	q.mayEndAdministrator()
	if err := q.outranks(); err != nil {
		return err
	}
	return q.unnamed(q.old.Spec.Groups)
}

// deleteGlobalRoleBinding has only the last administrator checked: it takes rights away.
func (q deletionCheck) deleteGlobalRoleBinding() error {
	q.mayEndAdministrator()
	return nil
}

// deleteRole checks the role that comes back: a built-in role is created again by its pattern, for its subjects, even if rules had been
// removed from it.
func (q deletionCheck) deleteRole(scope request.Scope) error {
	q.mayEndAdministrator()
	at := q.old.scopeOf(scope, q.Namespace)
	again := q.guard.Known.patternRules(authz.RoleRef{Scope: scope, Namespace: q.Namespace, Name: q.Name}, at)
	if _, conditional := q.old.Metadata.Annotations[iamv1beta1.AnnotationCELCondition]; !conditional {
		again = added(again, q.old.Rules)
	}
	return q.grants(at, again, rolesOf(scope))
}

// deleteBuiltinRole checks the pattern that counts from then on: of several for a role of one name, the first one.
func (q deletionCheck) deleteBuiltinRole() error {
	var role embedded
	if len(q.old.Role) > 0 && decodeInto(q.old.Role, &role) != nil {
		return nil //nolint:nilerr // nothing is made after one that can't be read
	}
	return q.grants(authz.BindingScope{}, q.guard.Known.otherPatterns(q.Name, role.scope(), role.Metadata.Name), "builtinroles")
}

// deleteGroup checks the bindings that are deleted with a group. Those in its own workspace need no further right; the others need the
// right to delete them.
func (q deletionCheck) deleteGroup() error {
	home := q.old.workspace()
	for _, g := range q.guard.Known.grantsOf(q.Name) {
		if q.isHome(g.scope, home) {
			continue
		}
		gvr := iamv1beta1.SchemeGroupVersion.WithResource(bindingsOf(g.scope.Scope))
		if ok, err := q.mayDelete(g.scope, gvr, g.binding.namespace, g.binding.name); err != nil {
			return err
		} else if ok {
			continue
		}
		if ok, err := q.may(authz.BindingScope{}, "bind", "groups", q.Name); ok || err != nil {
			return err
		}
		return q.refuse(fmt.Sprintf("its end takes the %s %q along, which is for those who may delete that, or have the verb bind on groups",
			gvr.Resource, g.binding.name))
	}
	return nil
}

// isHome reports whether a scope is in the workspace of a group; none is, for a group that belongs to no workspace.
func (q deletionCheck) isHome(at authz.BindingScope, workspace string) bool {
	switch at.Scope {
	case request.Workspace:
		return workspace != "" && at.Workspace == workspace
	case request.Namespace:
		return workspace != "" && q.guard.Holdings.WorkspaceOf(at.Namespace) == workspace
	}
	return false
}

// mayDelete reports whether the writer may delete an object, or any of the kind for an empty name.
func (q *escalationCheck) mayDelete(at authz.BindingScope, gvr schema.GroupVersionResource, namespace, name string) (bool, error) {
	rule := rbacv1.PolicyRule{Verbs: []string{"delete"}, APIGroups: []string{gvr.Group}, Resources: []string{gvr.Resource}}
	if name != "" {
		rule.ResourceNames = []string{name}
	}
	if len(q.guard.Holdings.Missing(q.By, at, []rbacv1.PolicyRule{rule})) == 0 {
		return true, nil
	}
	if q.guard.Native == nil {
		return false, nil
	}
	ok, err := q.guard.Native(q.ctx, q.By, "delete", gvr, namespace, name)
	if err != nil {
		return false, fmt.Errorf("ask kube-apiserver whether %s may delete %s: %w", q.By.GetName(), gvr.Resource, err)
	}
	return ok, nil
}

// scopeOf returns the scope of a kind of iam.kubesphere.io.
func scopeOf(resource string) request.Scope {
	switch resource {
	case "workspaceroles", "workspacerolebindings", "groups", "groupbindings":
		return request.Workspace
	case "clusterroles", "clusterrolebindings":
		return request.Cluster
	case "roles", "rolebindings":
		return request.Namespace
	}
	return request.Global
}

// ownersChange checks the owners of an object: the garbage collector deletes an object that has lost its owners, no matter who wrote them.
// So only callers who may delete the object may write them, and a change of them on an existing object is checked as its deletion.
// kube-apiserver's own rule is about blockOwnerDeletion alone.
func (q *escalationCheck) ownersChange() error {
	now, old := q.now.Metadata.Owners, q.old.Metadata.Owners
	if len(now) == 0 || slices.Contains(controllers, q.By.GetName()) || equality.Semantic.DeepEqual(now, old) {
		return nil
	}
	of := &q.old
	if !q.updates() {
		of = &q.now
	}
	at := of.scopeOf(scopeOf(q.GVR.Resource), q.Namespace)
	if ok, err := q.mayDelete(at, q.GVR, q.Namespace, q.Name); err != nil {
		return err
	} else if !ok {
		return q.refuse("metadata.ownerReferences say when it goes: they are set by those who may delete it")
	}
	if k := kindOf(q.GVR.GroupResource()); k != nil && k.remove != nil && q.updates() {
		asDeletion, w := *q, *q.Write
		w.Verb, asDeletion.Write = "delete", &w
		err := k.remove(deletionCheck{&asDeletion})
		q.ending = asDeletion.ending
		return err
	}
	return nil
}
