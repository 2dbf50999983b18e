package mirror

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kapis.dev/ks-apiserver/pkg/redaction"
)

// ordinary are the kinds without hidden fields (redaction.Hidden) of the groups that have a kind with some: what "*" is to people there. A
// kind that is missing is reached through ks-apiserver only, by rules with "*".
var ordinary = map[string][]string{
	"iam.kubesphere.io": {
		"builtinroles", "categories", "clusterrolebindings", "clusterroles", "globalrolebindings", "globalroles", "groupbindings", "groups",
		"loginrecords", "rolebindings", "roles", "roletemplates", "workspacerolebindings", "workspaceroles",
	},
	"cluster.kubesphere.io":     {"labels"},
	"kubesphere.io":             {"categories", "extensions", "extensionversions", "installplans", "serviceaccounts"},
	"application.kubesphere.io": {"applicationreleases", "applications", "applicationversions", "categories"},
	"session.kapis.dev":         nil,
}

// splitRedacted splits rules into what people hold themselves at kube-apiserver, and what they use through ks-apiserver only.
//
// kube-apiserver shows an object whole to whoever may do anything with it, for writes answer with it too. A kind that has hidden fields is
// therefore not for people's own credentials. ks-apiserver, which asserts the synthetic group, takes these fields out of every answer.
// Rules for all resources of all groups stay whole: who has one reads Secrets as well.
func splitRedacted(rules []rbacv1.PolicyRule) (open, withheld []rbacv1.PolicyRule) {
	for i := range rules {
		parts, whole := openParts(&rules[i])
		open = append(open, parts...)
		if !whole {
			withheld = append(withheld, rules[i])
		}
	}
	return open, withheld
}

// openParts returns what of a rule is about kinds without hidden fields. whole says that this is all of it.
func openParts(r *rbacv1.PolicyRule) (parts []rbacv1.PolicyRule, whole bool) {
	if has(r.APIGroups, rbacv1.APIGroupAll) && has(r.Resources, rbacv1.ResourceAll) {
		return []rbacv1.PolicyRule{*r}, true
	}
	rest := *r // the groups of which nothing is taken out
	rest.APIGroups = nil
	for _, group := range r.APIGroups {
		open := openIn(group, r.Resources)
		if slices.Equal(open, r.Resources) {
			rest.APIGroups = append(rest.APIGroups, group)
		} else if len(open) > 0 {
			part := *r
			part.APIGroups, part.Resources = []string{group}, open
			parts = append(parts, part)
		}
	}
	switch {
	case len(rest.APIGroups) == len(r.APIGroups):
		return []rbacv1.PolicyRule{*r}, true
	case len(rest.APIGroups) > 0:
		parts = append(parts, rest)
	}
	return parts, false
}

// openIn returns those of resources that have no hidden fields in a group.
func openIn(group string, resources []string) []string {
	_, some := ordinary[group]
	if !some && group != rbacv1.APIGroupAll {
		return resources
	}
	var open []string
	for _, name := range resources {
		kind, sub, _ := strings.Cut(name, "/")
		switch {
		case name == rbacv1.ResourceAll:
			open = append(open, ordinary[group]...)
		case kind == rbacv1.ResourceAll && sub == "status", hides(group, kind): // a status is read and written as the whole object
		default:
			open = append(open, name)
		}
	}
	return open
}

// hides tells whether a kind has hidden fields, in any group for "*".
func hides(group, plural string) bool {
	if group != rbacv1.APIGroupAll {
		return redaction.Hidden(schema.GroupResource{Group: group, Resource: plural}) != nil
	}
	for g := range ordinary {
		if hides(g, plural) {
			return true
		}
	}
	return false
}
