package admission

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
	"kapis.dev/ks-apiserver/pkg/request"
)

// kind is a kind of objects that give rights.
type kind struct {
	group, resource string
	// write checks what is created and updated; remove checks deletions, and is nil if a deletion only takes away what the object gave.
	write  func(*escalationCheck) error
	remove func(deletionCheck) error
}

// kinds returns all kinds that are checked. It is a function, so that nothing can change the list.
func kinds() []kind {
	const iam, tenant = iamv1beta1.GroupName, tenantv1beta1.GroupName
	role := func(resource string, scope request.Scope) kind {
		return kind{
			iam, resource, func(q *escalationCheck) error { return q.role(scope) }, func(q deletionCheck) error { return q.deleteRole(scope) },
		}
	}
	binding := func(scope request.Scope) func(*escalationCheck) error {
		return func(q *escalationCheck) error { return q.binding(scope) }
	}
	return []kind{
		role("globalroles", request.Global),
		role("workspaceroles", request.Workspace),
		role("clusterroles", request.Cluster),
		role("roles", request.Namespace),
		{iam, "globalrolebindings", binding(request.Global), deletionCheck.deleteGlobalRoleBinding},
		{iam, "workspacerolebindings", binding(request.Workspace), nil},
		{iam, "clusterrolebindings", binding(request.Cluster), nil},
		{iam, "rolebindings", binding(request.Namespace), nil},
		{iam, "roletemplates", (*escalationCheck).roleTemplate, nil},
		{iam, "builtinroles", (*escalationCheck).builtinRole, deletionCheck.deleteBuiltinRole},
		{iam, "groupbindings", (*escalationCheck).groupBinding, nil},
		{iam, "groups", (*escalationCheck).group, deletionCheck.deleteGroup},
		{iam, "users", (*escalationCheck).user, deletionCheck.deleteUser},
		{tenant, "workspaces", (*escalationCheck).existing, nil},
		{tenant, "workspacetemplates", (*escalationCheck).template, nil},
		{"", "serviceaccounts", (*escalationCheck).serviceAccount, nil},
	}
}

// kindOf returns the kind of a resource, or nil for one that gives no rights.
func kindOf(gr schema.GroupResource) *kind {
	all := kinds()
	if i := slices.IndexFunc(all, func(k kind) bool { return k.group == gr.Group && k.resource == gr.Resource }); i >= 0 {
		return &all[i]
	}
	return nil
}

// Resources returns the resources of a group whose writes are checked, sorted.
func Resources(group string) []string {
	var out []string
	for _, k := range kinds() {
		if k.group == group {
			out = append(out, k.resource)
		}
	}
	slices.Sort(out)
	return out
}
