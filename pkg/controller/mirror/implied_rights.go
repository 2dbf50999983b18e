package mirror

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
)

// reach is the set of objects for which a native binding holds.
type reach uint8

const (
	// platform has all objects of any kind: a GlobalRole, or a ClusterRole.
	platform reach = 1 << iota
	// workspace has the objects of cluster-scoped kinds that belong to a workspace: a WorkspaceRole.
	workspace
	// namespaces has the objects in some namespaces, and these namespaces: a WorkspaceRole, or a Role.
	namespaces
)

// resource is a kind as RBAC names it, or a sub-resource such as "users/password".
type resource struct{ group, name string }

// meaning is a right of this project that is needed for another kind at kube-apiserver, or for objects that RBAC there can't
// restrict to a workspace.
type meaning struct {
	of, is resource
	// verbs has the verbs at kube-apiserver that each verb of this project needs.
	verbs map[string][]string
	in    reach
	// renamed says that the objects of the two kinds have different names: then a rule for certain names implies nothing.
	renamed bool
	// theWorkspace says that the object is the workspace, so that RBAC can restrict the right to it by name.
	theWorkspace bool
	// notConditional leaves it out of roles with a condition. The right of all users to their own User implies no right to bindings.
	notConditional bool
}

var (
	// ofBindings is what changes of a membership need: a change replaces a binding by another; an end deletes a binding, or removes a
	// subject from one with others.
	ofBindings = map[string][]string{
		"get": {"get"}, "list": {"list"}, "create": {"create"}, "delete": {"get", "update", "patch", "delete"},
		"update": {"get", "create", "update", "patch", "delete"},
	}
	// ofRoleOfUser is what writing a user's platform role with the user needs.
	ofRoleOfUser = map[string][]string{
		"create": {"create"},
		"update": {"get", "create", "update", "patch", "delete"}, "patch": {"get", "create", "update", "patch", "delete"},
	}
	// ofWrites is what writes of a kind need that is stored as another one. Lists are answered from the caches.
	ofWrites = map[string][]string{
		"create": {"create"}, "delete": {"get", "delete"}, "deletecollection": {"deletecollection"},
		"update": {"get", "update", "patch"}, "patch": {"get", "update", "patch"},
	}
	// ofNamespaces is ofWrites for objects that RBAC considers to be in the namespace: the namespace itself, but not its creation.
	ofNamespaces = map[string][]string{"delete": {"get", "delete"}, "update": {"get", "update", "patch"}, "patch": {"get", "update", "patch"}}
	creation     = map[string][]string{"create": {"create"}}
	// ofDeletion is what the deletion of a workspace's template needs: an annotation says first what happens to the namespaces.
	ofDeletion = map[string][]string{"delete": {"get", "update", "patch", "delete"}}
	// ofItself is for a right to the template itself: a write reads the stored object first.
	ofItself = map[string][]string{"delete": ofDeletion["delete"], "update": {"get"}, "patch": {"get"}}
	// ofTemplates is ofWrites for templates.
	ofTemplates = map[string][]string{
		"create": {"create"}, "delete": ofDeletion["delete"], "deletecollection": {"deletecollection"},
		"update": {"get", "update", "patch"}, "patch": {"get", "update", "patch"},
	}
	// itself is for kinds that are stored as they are.
	itself = map[string][]string{
		"get": {"get"}, "list": {"list"}, "watch": {"watch"}, "create": {"create"}, "update": {"update"}, "patch": {"patch"},
		"delete": {"delete"}, "deletecollection": {"deletecollection"},
	}
	// ofEdits is itself without creations and deletions.
	ofEdits = map[string][]string{"get": {"get"}, "list": {"list"}, "watch": {"watch"}, "update": {"update"}, "patch": {"patch"}}
	// ofNamed is itself without the verbs that a name can't restrict.
	ofNamed = map[string][]string{
		"get": {"get"}, "list": {"list"}, "watch": {"watch"}, "update": {"update"}, "patch": {"patch"}, "delete": {"delete"},
	}
)

func core(name string) resource   { return resource{"", name} }
func iam(name string) resource    { return resource{iamv1beta1.GroupName, name} }
func tenant(name string) resource { return resource{tenantv1beta1.GroupName, name} }
func quota(name string) resource  { return resource{"quota.kubesphere.io", name} }

// meanings is all that is implied, and nothing else ever is.
//
// RBAC can't distinguish the objects that are in a workspace only by their label (its roles, bindings, groups, quotas) from those
// of another workspace. So implied rights are given to the synthetic group of the role only, which ks-apiserver alone can assert, and it
// does so for a request that this very role allowed: it has compared the label of the object with the workspace in the path before it
// sends a write on (pkg/kapis/dynamic, pkg/kapis/iam, pkg/kapis/tenant). Users with their own kubeconfig do not have these rights.
var meanings = []meaning{
	{of: iam("workspacemembers"), is: iam("workspacerolebindings"), verbs: ofBindings, in: platform | workspace, renamed: true},
	{of: iam("namespacemembers"), is: iam("rolebindings"), verbs: ofBindings, in: platform | namespaces, renamed: true},
	{of: iam("clustermembers"), is: iam("clusterrolebindings"), verbs: ofBindings, in: platform, renamed: true},
	{of: iam("users"), is: iam("globalrolebindings"), verbs: ofRoleOfUser, in: platform, renamed: true, notConditional: true},
	{of: iam("users/password"), is: iam("users"), verbs: map[string][]string{"update": {"get", "update", "patch"}}, in: platform},
	{of: tenant("namespaces"), is: core("namespaces"), verbs: ofWrites, in: platform},
	{of: tenant("namespaces"), is: core("namespaces"), verbs: creation, in: workspace},
	{of: tenant("namespaces"), is: core("namespaces"), verbs: ofNamespaces, in: namespaces},
	{of: tenant("workspaces"), is: tenant("workspacetemplates"), verbs: ofTemplates, in: platform},
	{of: tenant("workspaces"), is: tenant("workspacetemplates"), verbs: ofTemplates, in: workspace, theWorkspace: true},
	{of: tenant("workspacetemplates"), is: tenant("workspacetemplates"), verbs: ofItself, in: platform},
	{of: tenant("workspacetemplates"), is: tenant("workspacetemplates"), verbs: ofItself, in: workspace, theWorkspace: true},
	{of: tenant("resourcequotas"), is: quota("resourcequotas"), verbs: ofWrites, in: platform | workspace},

	// Rights of a workspace's role that are literally the same: a native binding in its namespaces does not give them.
	{of: core("namespaces"), is: core("namespaces"), verbs: creation, in: workspace},
	// A Workspace is deleted with its template, which is protected: without the Workspace, its quota would be deleted too, and come back
	// without limits.
	{of: tenant("workspaces"), is: tenant("workspaces"), verbs: ofEdits, in: workspace, theWorkspace: true},
	{of: tenant("workspacetemplates"), is: tenant("workspacetemplates"), verbs: ofNamed, in: workspace, theWorkspace: true},
	{of: iam("workspaceroles"), is: iam("workspaceroles"), verbs: itself, in: workspace},
	{of: iam("workspacerolebindings"), is: iam("workspacerolebindings"), verbs: itself, in: workspace},
	{of: iam("groups"), is: iam("groups"), verbs: itself, in: workspace},
	{of: iam("groupbindings"), is: iam("groupbindings"), verbs: itself, in: workspace},
	{of: quota("resourcequotas"), is: quota("resourcequotas"), verbs: itself, in: workspace},
}

// implied returns the rights that rules imply at kube-apiserver beyond what they say, for a native binding that reaches in: those in
// meanings for the verbs that the rules name, where "*" is the ordinary ones. Rights that the same rules give literally are left out if
// they are mirrored in the same place. theWorkspace is the name of the role's workspace.
func implied(rules []rbacv1.PolicyRule, in reach, theWorkspace string, conditional bool) []rbacv1.PolicyRule {
	found := &rights{}
	for i := range meanings {
		m := &meanings[i]
		if m.in&in == 0 || m.notConditional && conditional {
			continue
		}
		for j := range rules {
			m.imply(&rules[j], theWorkspace, found)
		}
	}
	if in != workspace {
		found.removeLiteral(rules)
	}
	return found.rules()
}

// imply adds what one rule implies to found.
func (m *meaning) imply(r *rbacv1.PolicyRule, theWorkspace string, found *rights) {
	if !has(r.APIGroups, m.of.group) || !hasResource(r.Resources, m.of.name) {
		return
	}
	names, none := named(r.ResourceNames)
	switch {
	case none:
		return
	case len(names) > 0 && m.renamed:
		return
	case m.theWorkspace && len(names) > 0 && !slices.Contains(names, theWorkspace):
		return
	case m.theWorkspace:
		names = []string{theWorkspace}
	}
	for _, verb := range ordinaryVerbs {
		if !has(r.Verbs, verb) {
			continue
		}
		for _, native := range m.verbs[verb] {
			if len(names) == 0 || native != "create" && native != "deletecollection" { // requests of these verbs have no name that RBAC sees
				found.add(m.is, native, names)
			}
		}
	}
}

func has(list []string, s string) bool { return slices.Contains(list, s) || slices.Contains(list, "*") }

// hasResource reports whether a list of resources has name, which may be a sub-resource.
func hasResource(list []string, name string) bool {
	_, sub, isSub := strings.Cut(name, "/")
	return has(list, name) || isSub && slices.Contains(list, "*/"+sub)
}
