package mirrortest

import (
	"context"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Request is a request to kube-apiserver.
type Request struct {
	User   string
	Groups []string
	// Namespace is empty for cluster-scoped objects. Resource is "pods" or "pods/log".
	Verb, APIGroup, Resource, Namespace, Name string
	// Path is set for non-resource requests.
	Path string
}

// Allowed decides as the RBAC authorizer of Kubernetes documents it (https://kubernetes.io/docs/reference/access-authn-authz/rbac/).
func (f *Fixture) Allowed(r Request) bool {
	f.T.Helper()
	ctx := context.Background()
	everywhere := &rbacv1.ClusterRoleBindingList{}
	if err := f.Client.List(ctx, everywhere); err != nil {
		f.T.Fatal(err)
	}
	for _, b := range everywhere.Items {
		if named(b.Subjects, "", r) && f.grants(b.RoleRef, "", r) {
			return true
		}
	}
	if r.Namespace == "" {
		return false
	}
	here := &rbacv1.RoleBindingList{}
	if err := f.Client.List(ctx, here, client.InNamespace(r.Namespace)); err != nil {
		f.T.Fatal(err)
	}
	for _, b := range here.Items {
		if named(b.Subjects, r.Namespace, r) && f.grants(b.RoleRef, r.Namespace, r) {
			return true
		}
	}
	return false
}

func named(subjects []rbacv1.Subject, namespace string, r Request) bool {
	return slices.ContainsFunc(subjects, func(s rbacv1.Subject) bool {
		switch s.Kind {
		case rbacv1.UserKind:
			return s.Name == r.User
		case rbacv1.GroupKind:
			return slices.Contains(r.Groups, s.Name)
		case rbacv1.ServiceAccountKind:
			if s.Namespace != "" {
				namespace = s.Namespace
			}
			return r.User == "system:serviceaccount:"+namespace+":"+s.Name
		}
		return false
	})
}

func (f *Fixture) grants(ref rbacv1.RoleRef, namespace string, r Request) bool {
	var rules []rbacv1.PolicyRule
	if ref.Kind == "ClusterRole" {
		role := &rbacv1.ClusterRole{}
		if f.Client.Get(context.Background(), types.NamespacedName{Name: ref.Name}, role) != nil {
			return false
		}
		rules = role.Rules
	} else {
		role := &rbacv1.Role{}
		if f.Client.Get(context.Background(), types.NamespacedName{Namespace: namespace, Name: ref.Name}, role) != nil {
			return false
		}
		rules = role.Rules
	}
	return slices.ContainsFunc(rules, func(rule rbacv1.PolicyRule) bool { return Matches(rule, r) })
}

// Matches reports whether one native rule allows a request.
func Matches(rule rbacv1.PolicyRule, r Request) bool {
	has := func(list []string, wanted ...string) bool {
		return slices.ContainsFunc(list, func(x string) bool { return x == "*" || slices.Contains(wanted, x) })
	}
	if !has(rule.Verbs, r.Verb) {
		return false
	}
	if r.Path != "" {
		return slices.ContainsFunc(rule.NonResourceURLs, func(p string) bool {
			prefix, star := strings.CutSuffix(p, "*")
			return p == r.Path || star && strings.HasPrefix(r.Path, prefix)
		})
	}
	wanted := []string{r.Resource}
	if _, sub, ok := strings.Cut(r.Resource, "/"); ok {
		wanted = append(wanted, "*/"+sub)
	}
	return has(rule.APIGroups, r.APIGroup) && has(rule.Resources, wanted...) &&
		(len(rule.ResourceNames) == 0 || slices.Contains(rule.ResourceNames, r.Name))
}
