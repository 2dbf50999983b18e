package mirror

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
)

// reach is what a native binding reaches.
type reach uint8

const (
	// platform is every object of any kind: a GlobalRole, or a ClusterRole.
	platform reach = 1 << iota
	// workspace is the objects of kinds that are in no namespace and belong to a workspace: a WorkspaceRole.
	workspace
	// namespaces is what is in some namespaces, and these themselves: a WorkspaceRole, or a Role.
	namespaces
)

// resource is a kind as RBAC names it, or a sub-resource of one such as "users/password".
type resource struct{ group, name string }

// meaning is a right of ours that is written as another kind at kube-apiserver, or on objects that RBAC there can't restrict to a
// workspace.
type meaning struct {
	of, is resource
	// verbs are those at kube-apiserver that each of ours takes.
	verbs map[string][]string
	in    reach
	// renamed says that the objects of the one kind have other names than those of the other: a rule for some names means nothing then.
	renamed bool
	// theWorkspace says that the object is the workspace, so that RBAC can tell it by its name.
	theWorkspace bool
	// notConditional leaves it out of roles with a condition. What everybody may do to his own user means no right to bindings.
	notConditional bool
}

var (
	// ofBindings is what becomes of a membership: to change it, a binding takes the place of another; to end it, a binding goes, or one that
	// names others too is left to these.
	ofBindings = map[string][]string{
		"get": {"get"}, "list": {"list"}, "create": {"create"}, "delete": {"get", "update", "patch", "delete"},
		"update": {"get", "create", "update", "patch", "delete"},
	}
	// ofRoleOfUser is what becomes of the platform role that a user is written with.
	ofRoleOfUser = map[string][]string{
		"create": {"create"},
		"update": {"get", "create", "update", "patch", "delete"}, "patch": {"get", "create", "update", "patch", "delete"},
	}
	// ofWrites is what becomes of writes of a kind that is stored as another one. Lists come out of the caches.
	ofWrites = map[string][]string{
		"create": {"create"}, "delete": {"get", "delete"}, "deletecollection": {"deletecollection"},
		"update": {"get", "update", "patch"}, "patch": {"get", "update", "patch"},
	}
	// ofNamespaces is ofWrites for what RBAC takes to be in the namespace: the namespace itself, but not its creation.
	ofNamespaces = map[string][]string{"delete": {"get", "delete"}, "update": {"get", "update", "patch"}, "patch": {"get", "update", "patch"}}
	creation     = map[string][]string{"create": {"create"}}
	// ofDeletion is for the template of a workspace: who deletes one says in an annotation first what becomes of the namespaces.
	ofDeletion = map[string][]string{"delete": {"get", "update", "patch", "delete"}}
	// ofItself is for a right to the template itself: a write looks at what is there first.
	ofItself = map[string][]string{"delete": ofDeletion["delete"], "update": {"get"}, "patch": {"get"}}
	// ofTemplates is ofWrites for it.
	ofTemplates = map[string][]string{
		"create": {"create"}, "delete": ofDeletion["delete"], "deletecollection": {"deletecollection"},
		"update": {"get", "update", "patch"}, "patch": {"get", "update", "patch"},
	}
	// itself is for kinds that are stored as they are.
	itself = map[string][]string{
		"get": {"get"}, "list": {"list"}, "watch": {"watch"}, "create": {"create"}, "update": {"update"}, "patch": {"patch"},
		"delete": {"delete"}, "deletecollection": {"deletecollection"},
	}
	// ofEdits is itself without the object's beginning and end.
	ofEdits = map[string][]string{"get": {"get"}, "list": {"list"}, "watch": {"watch"}, "update": {"update"}, "patch": {"patch"}}
	// ofNamed is itself without what a name can't restrict.
	ofNamed = map[string][]string{
		"get": {"get"}, "list": {"list"}, "watch": {"watch"}, "update": {"update"}, "patch": {"patch"}, "delete": {"delete"},
	}
)

func core(name string) resource        { return resource{"", name} }
func iam(name string) resource         { return resource{iamv1beta1.GroupName, name} }
func tenant(name string) resource      { return resource{tenantv1beta1.GroupName, name} }
func quota(name string) resource       { return resource{"quota.kubesphere.io", name} }
func application(name string) resource { return resource{"application.kubesphere.io", name} }

// meanings is all that is implied, and nothing else ever is.
//
// What is in a workspace by its label alone (its roles, bindings, groups, quotas, apps) can't be told from another workspace's by RBAC.
// So what is implied is given to the synthetic group of the role only, which ks-apiserver alone can assert, and it does so for a request
// that this very role allowed: it has compared the label of the object with the workspace in the path before it sends a write on
// (pkg/kapis/dynamic, pkg/kapis/iam, pkg/kapis/tenant). With a kubeconfig of his own, nobody has these rights.
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
	{of: application("apps"), is: application("applications"), verbs: ofWrites, in: platform | workspace},
	{of: application("apps/versions"), is: application("applicationversions"), verbs: ofWrites, in: platform | workspace, renamed: true},

	// What a role of a workspace names as it is: a native binding in its namespaces does not reach it.
	{of: core("namespaces"), is: core("namespaces"), verbs: creation, in: workspace},
	// A Workspace goes with its template, which is what is protected: without the Workspace, its quota goes too, and comes again without
	// limits.
	{of: tenant("workspaces"), is: tenant("workspaces"), verbs: ofEdits, in: workspace, theWorkspace: true},
	{of: tenant("workspacetemplates"), is: tenant("workspacetemplates"), verbs: ofNamed, in: workspace, theWorkspace: true},
	{of: iam("workspaceroles"), is: iam("workspaceroles"), verbs: itself, in: workspace},
	{of: iam("workspacerolebindings"), is: iam("workspacerolebindings"), verbs: itself, in: workspace},
	{of: iam("groups"), is: iam("groups"), verbs: itself, in: workspace},
	{of: iam("groupbindings"), is: iam("groupbindings"), verbs: itself, in: workspace},
	{of: quota("resourcequotas"), is: quota("resourcequotas"), verbs: itself, in: workspace},
	{of: application("applications"), is: application("applications"), verbs: itself, in: workspace},
	{of: application("applicationreleases"), is: application("applicationreleases"), verbs: itself, in: workspace},
	{of: application("applicationversions"), is: application("applicationversions"), verbs: itself, in: workspace},
	{of: application("repos"), is: application("repos"), verbs: itself, in: workspace},
}

// implied returns what rules of ours mean at kube-apiserver beyond what they say, for a native binding that reaches in: as much as
// meanings has for the verbs that they name, and "*" is the ordinary ones. What the same rules say literally is left out, where they are
// mirrored in the same place. theWorkspace is the name of the role's.
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

// imply adds to found what one rule means.
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
			if len(names) == 0 || native != "create" && native != "deletecollection" { // which have no name that RBAC sees
				found.add(m.is, native, names)
			}
		}
	}
}

func has(list []string, s string) bool { return slices.Contains(list, s) || slices.Contains(list, "*") }

// hasResource tells whether a list of resources has name, which may be a sub-resource.
func hasResource(list []string, name string) bool {
	_, sub, isSub := strings.Cut(name, "/")
	return has(list, name) || isSub && slices.Contains(list, "*/"+sub)
}
