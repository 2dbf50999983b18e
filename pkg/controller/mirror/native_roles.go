package mirror

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
)

const (
	// impliedPrefix begins the names of native roles with what the rules of other roles imply.
	impliedPrefix = NamePrefix + "implied:"
	// impliedBelowPrefix is impliedPrefix for what a role of a workspace implies in its namespaces.
	impliedBelowPrefix = NamePrefix + "implied:namespaces:"
)

// grant is what a role grants, and to which subjects and where.
type grant struct {
	Rules    []rbacv1.PolicyRule
	Subjects []rbacv1.Subject
	// Bound says that the role has subjects, whether or not kube-apiserver may know them.
	Bound bool
	// Conditional says that the rules depend on a condition, and Rego that a policy may allow more than the rules.
	Conditional, Rego bool
	Scope             NativeScope
}

// share is one native role, with its subjects and the places where it is bound.
type share struct {
	name, group string
	rules       []rbacv1.PolicyRule
	subjects    []rbacv1.Subject
	// everywhere, namespaces and own are those of Place.
	everywhere, own bool
	namespaces      []string
}

// byPolicy is what the synthetic group may do at kube-apiserver if a policy in Rego allows a request: write the user that the policy is
// about. The policies of existing installations allow, beyond the rules of their roles, requests of users about their own User only,
// and only those that are not answered from a cache. kube-apiserver can't evaluate a policy, and rights as wide as a policy could be
// would have effects beyond the request that it allowed: admission policies check what else the caller may do (a caller who may delete
// users may change links to identities, including their own), and so does the check of native roles. Everything else that a policy
// allows needs a rule.
var byPolicy = []rbacv1.PolicyRule{
	{Verbs: []string{"get", "update", "patch"}, APIGroups: []string{iamv1beta1.GroupName}, Resources: []string{"users"}},
}

// shares returns the native roles that mirror a grant: none if it grants nothing, or has no subjects.
//
// A role with a condition is granted to its synthetic group only; so is what a policy allows, see byPolicy. The rules of a role with a
// policy are granted to all its subjects, like those of any other role.
func shares(g *grant) []share {
	if !g.Bound {
		return nil
	}
	p := &g.Scope
	whole := share{name: p.Name, group: p.Group, rules: g.Rules, subjects: nativeSubjects(g.Subjects)}
	conditional := share{name: p.ConditionalName, group: p.ConditionalGroup}
	if g.Conditional {
		whole.rules, conditional.rules = nil, g.Rules
	}
	if g.Rego && p.Everywhere {
		conditional.rules = slices.Concat(conditional.rules, byPolicy)
	}
	return append(p.spread(whole, false), p.spread(conditional, true)...)
}

// spread returns the share in the places where it counts, together with what its rules imply there.
func (p *NativeScope) spread(s share, conditional bool) []share {
	rules := s.rules
	s.rules, s.everywhere, s.own, s.namespaces = nativeRules(rules, !p.Everywhere), p.Everywhere, p.Own, p.Namespaces
	also := s
	also.name, also.subjects = impliedPrefix+strings.TrimPrefix(s.name, NamePrefix), nil
	all := []share{s}
	switch {
	case p.Everywhere:
		also.rules = implied(rules, platform, "", conditional)
		if !conditional { // it is granted to no single user
			var redacted []rbacv1.PolicyRule
			all[0].rules, redacted = splitRedacted(s.rules)
			also.rules = append(also.rules, redacted...)
		}
		all = append(all, also)
	case p.Workspace != "":
		below := also
		below.name, below.rules = impliedBelowPrefix+strings.TrimPrefix(s.name, NamePrefix), implied(rules, namespaces, "", conditional)
		also.rules, also.everywhere = implied(rules, workspace, p.Workspace, conditional), true
		all = append(all, also, below)
	default:
		also.rules = implied(rules, namespaces, "", conditional)
		all = append(all, also)
	}
	out := all[:0]
	for _, one := range all {
		if len(one.rules) > 0 && (one.everywhere || len(one.namespaces) > 0) {
			out = append(out, one)
		}
	}
	return out
}

// objects returns the native objects that mirror a grant. They have source as an annotation, and owner as their owner.
func objects(g *grant, source string, owner metav1.OwnerReference) (out native) {
	meta := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{
			Namespace: namespace, Name: name,
			Labels:          map[string]string{iamv1beta1.LabelManagedBy: iamv1beta1.ManagedByController},
			Annotations:     map[string]string{AnnotationSource: source},
			OwnerReferences: []metav1.OwnerReference{owner},
		}
	}
	for _, s := range shares(g) {
		ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: s.name}
		if s.own {
			ref.Kind = "Role"
			for _, namespace := range s.namespaces {
				out.roles = append(out.roles, &rbacv1.Role{ObjectMeta: meta(namespace, s.name), Rules: s.rules})
			}
		} else {
			out.roles = append(out.roles, &rbacv1.ClusterRole{ObjectMeta: meta("", s.name), Rules: s.rules})
		}
		for i, part := range distribute(s.subjects, s.group) {
			name := partName(s.name, i)
			if s.everywhere {
				out.bindings = append(out.bindings, &rbacv1.ClusterRoleBinding{ObjectMeta: meta("", name), RoleRef: ref, Subjects: part})
				continue
			}
			for _, namespace := range s.namespaces {
				out.bindings = append(out.bindings, &rbacv1.RoleBinding{ObjectMeta: meta(namespace, name), RoleRef: ref, Subjects: part})
			}
		}
	}
	return out
}
