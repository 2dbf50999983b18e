package admission

import (
	"fmt"
	"strings"

	"kapis.dev/ks-apiserver/pkg/admission/refusal"
	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/request"
)

// isReserved reports whether a group is one that Kubernetes or this server assigns itself.
func isReserved(group string) bool {
	return strings.HasPrefix(group, systemPrefix) || strings.HasPrefix(group, iamv1beta1.SyntheticGroupPrefix)
}

// checkGroupScope returns nil if a group of a workspace is bound in that workspace, or in a namespace of it. The workspace's administrators
// decide who is in it: if it were bound elsewhere, by a user who means a group of an identity provider with the same name, they could
// give rights that they do not hold.
func (q *escalationCheck) checkGroupScope(group string, at authz.BindingScope) error {
	of, _ := q.guard.Known.workspaceOf(group)
	switch {
	case of == "",
		at.Scope == request.Workspace && at.Workspace == of,
		at.Scope == request.Namespace && q.guard.Holdings.WorkspaceOf(at.Namespace) == of:
		return nil
	}
	return q.refuse(fmt.Sprintf("the group %.100q is one of the workspace %q, which says who is in it: it is bound there and in its"+
		" namespaces, and nowhere else; "+
		"a group of an identity provider that has this name is bound once the Group is deleted", group, of))
}

// group checks a new Group by whether its name has rights already. Groups of identity providers, and those that Kubernetes' own bindings
// name, have names too: a user who makes a Group of such a name decides who is in it, and its deletion deletes the bindings that name it.
// Members of the fleet are told the groups of their callers, and know none of the Groups here.
// So does a user who moves a Group with its members to another workspace, or out of all. GroupBindings that a former Group has left, such
// as one that was made while that was being deleted, would put users of somebody else's choice into the new one.
func (q *escalationCheck) group() error {
	switch {
	case q.updates() && q.now.workspace() != q.old.workspace():
		return q.mayBindGroup(q.Name, fmt.Sprintf("the label %s of a group says who decides that", tenantv1beta1.LabelWorkspace))
	case q.updates(), q.Name == "": // a name that kube-apiserver generates is checked by the webhook, which gets the object with it
		return nil
	}
	if isReserved(q.Name) {
		return q.refuse("Kubernetes and this server give such groups themselves")
	}
	known, err := q.namedGroup(q.Name)
	if err != nil {
		return err
	}
	switch {
	case known || len(q.guard.Known.grantsOf(q.Name)) > 0 || q.guard.InMembers != nil && q.guard.InMembers(q.Name):
		return q.mayBindGroup(q.Name, "bindings name a group of this name already, here or in a member cluster, which may be an identity"+
			" provider's: take another name")
	case q.guard.Known != nil && q.guard.Known.refs.HasMembers(q.Name):
		return q.mayBindGroup(q.Name, "groupbindings of a former group of this name are there, and their users would be in this one: take"+
			" another name, or try again when those are deleted")
	}
	return nil
}

// namedGroup reports whether a binding of Kubernetes' own names a group.
func (q *escalationCheck) namedGroup(group string) (bool, error) {
	if q.guard.NamedGroup == nil {
		return false, nil
	}
	named, err := q.guard.NamedGroup(q.ctx, group)
	if err != nil {
		return false, fmt.Errorf("see whether bindings of Kubernetes name the group %.100q: %w", group, err)
	}
	return named, nil
}

// groupBinding checks new members of a group by what the group is bound to. The object belongs to the workspace of the group.
func (q *escalationCheck) groupBinding() error {
	users, group := q.now.Users, q.now.GroupRef.Name
	if q.updates() && q.now.GroupRef == q.old.GroupRef && q.now.workspace() == q.old.workspace() {
		users = addedNames(users, q.old.Users)
	}
	if len(users) == 0 {
		return nil
	}
	if q.guard.Known.isLeaving(group) { // ks-controller-manager has looked for its bindings, or is about to
		return q.refuse(fmt.Sprintf("the group %.100q is being deleted: nobody joins it", group))
	}
	if of, known := q.guard.Known.workspaceOf(group); known && of != q.now.workspace() {
		return q.mayBindGroup(group, fmt.Sprintf("the group %.100q is not of the workspace that the label %s of the binding names", group,
			tenantv1beta1.LabelWorkspace))
	}
	return q.mayJoin(group)
}

// mayJoin returns nil if the writer holds all that a group of a workspace is given, or may bind the group.
func (q *escalationCheck) mayJoin(group string) error {
	if isReserved(group) {
		return q.refuse(fmt.Sprintf("nobody can be put in the group %.100q: Kubernetes and this server give such groups themselves", group))
	}
	if of, known := q.guard.Known.workspaceOf(group); !known || of == "" {
		return q.mayBindGroup(group, fmt.Sprintf("the group %.100q is of no workspace", group))
	}
	if native, err := q.namedGroup(group); err != nil {
		return err
	} else if native {
		return q.mayBindGroup(group, "bindings of rbac.authorization.k8s.io name the group, and its members have what they grant")
	}
	for _, g := range q.guard.Known.grantsOf(group) {
		switch missing, found := q.missingOf(g.scope, g.role); {
		case !found: // a role that is created later would be the group's
			return q.mayBindGroup(group, fmt.Sprintf("the group is bound to the %s %q, which is not there", rolesOf(g.role.Scope), g.role.Name))
		case len(missing) > 0:
			return q.mayBindGroup(group, fmt.Sprintf("the group has the %s %q: %s", rolesOf(g.role.Scope), g.role.Name,
				refusal.Lacks(q.By, g.scope, missing)))
		}
	}
	return nil
}

// mayBindGroup returns nil if the writer may bind the group by name, and otherwise a refusal with the reason.
func (q *escalationCheck) mayBindGroup(group, why string) error {
	if ok, err := q.may(authz.BindingScope{}, "bind", "groups", group); ok || err != nil {
		return err
	}
	return q.refuse(fmt.Sprintf("putting users in the group %.100q needs the verb bind on groups: %s", group, why))
}

// systemPrefix begins the names of users and groups that Kubernetes itself gives.
const systemPrefix = "system:"
