package permission

import (
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/component-helpers/auth/rbac/validation"
)

// Level says how far what is asked for reaches, for the person who approves it.
type Level string

// The levels, from the narrowest.
const (
	// LevelNamespace is what stays within the namespace of the release.
	LevelNamespace Level = "namespace"
	// LevelCluster reaches beyond it.
	LevelCluster Level = "cluster"
	// LevelEverything is every right in the cluster, or enough to take it: any Secret, any role, or to act as somebody else.
	LevelEverything Level = "everything"
)

// decisive are rights in the whole cluster by which every other right can be had.
var decisive = []rbacv1.PolicyRule{
	{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}},
	{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"list"}},
	{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"create"}},
	{APIGroups: []string{""}, Resources: []string{"pods/exec"}, Verbs: []string{"create"}},
	{APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"}, Verbs: []string{"create"}},
	{APIGroups: []string{""}, Resources: []string{"users"}, Verbs: []string{"impersonate"}},
	{APIGroups: []string{""}, Resources: []string{"groups"}, Verbs: []string{"impersonate"}},
	{APIGroups: []string{""}, Resources: []string{"serviceaccounts"}, Verbs: []string{"impersonate"}},
	{APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"users"}, Verbs: []string{"impersonate:user-info"}},
	{APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"groups"}, Verbs: []string{"impersonate:user-info"}},
	{APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"serviceaccounts"}, Verbs: []string{"impersonate:serviceaccount"}},
	{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"clusterroles"}, Verbs: []string{"escalate"}},
	{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"clusterroles"}, Verbs: []string{"bind"}},
	{APIGroups: []string{"apps"}, Resources: []string{"deployments"}, Verbs: []string{"create"}},
	{APIGroups: []string{"apps"}, Resources: []string{"daemonsets"}, Verbs: []string{"create"}},
	{APIGroups: []string{"apps"}, Resources: []string{"statefulsets"}, Verbs: []string{"create"}},
	{APIGroups: []string{"apps"}, Resources: []string{"replicasets"}, Verbs: []string{"create"}},
	{APIGroups: []string{"batch"}, Resources: []string{"jobs"}, Verbs: []string{"create"}},
	{APIGroups: []string{"batch"}, Resources: []string{"cronjobs"}, Verbs: []string{"create"}},
	{APIGroups: []string{"admissionregistration.k8s.io"}, Resources: []string{"mutatingwebhookconfigurations"}, Verbs: []string{"create"}},
}

// Level returns how far a request reaches.
func (r *Request) Level() Level {
	for i := range decisive {
		if ok, _ := validation.Covers(r.ClusterRules, decisive[i:i+1]); ok {
			return LevelEverything
		}
	}
	if len(r.ClusterRules) > 0 {
		return LevelCluster
	}
	return LevelNamespace
}
