package v1beta1

// SyntheticGroup names the group that stands for a role at kube-apiserver: ks-apiserver asserts it for the caller whose request the role
// allowed, and the mirror binds it to the native rights of the role. The scope is one of ScopeGlobal, ScopeCluster, ScopeWorkspace and
// ScopeNamespace; workspace is where a role of a workspace was bound, and without meaning for the other scopes.
//
// Roles of one name in two namespaces share it: the native rights that it stands for are bound in each namespace by itself.
func SyntheticGroup(scope, workspace, role string) string {
	if scope == ScopeWorkspace {
		return SyntheticGroupPrefix + scope + ":" + workspace + ":" + role
	}
	return SyntheticGroupPrefix + scope + ":" + role
}

// ConditionalGroup names the group that stands for a role with a condition, which ks-apiserver asserts once the condition held for the
// request. It is that of one role object alone, as its scope, namespace (empty but for a role of a namespace) and name tell: whoever may
// write a role in a namespace chooses its name and its condition, and must not come by the rights of a role of the platform that has
// the same name. No name of a scope, namespace or role has a colon.
func ConditionalGroup(scope, namespace, role string) string {
	if scope == ScopeNamespace {
		return SyntheticGroupPrefix + "conditional:" + scope + ":" + namespace + ":" + role
	}
	return SyntheticGroupPrefix + "conditional:" + scope + ":" + role
}
