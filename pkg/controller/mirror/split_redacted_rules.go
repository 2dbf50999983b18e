package mirror

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kapis.dev/ks-apiserver/pkg/redaction"
)

// ordinary has the kinds without redacted fields (redaction.Hidden) of the API groups that have a kind with some: "*" of users stands for
// these there. A kind that is missing is accessible through ks-apiserver only, by rules with "*".
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

// splitRedacted splits rules into what users may do at kube-apiserver with their own credentials, and what they may do through
// ks-apiserver only.
//
// kube-apiserver shows the whole object to every caller who may do anything with it, since writes are answered with it too. So users have
// no rights to kinds with redacted fields by their own credentials. ks-apiserver, which asserts the synthetic group, removes these fields
// from every answer. Rules for all resources of all groups stay as they are: a user with such a rule may read Secrets too.
func splitRedacted(rules []rbacv1.PolicyRule) (open, redacted []rbacv1.PolicyRule) {
	for i := range rules {
		parts, whole := openParts(&rules[i])
		open = append(open, parts...)
		if !whole {
			redacted = append(redacted, rules[i])
		}
	}
	return open, redacted
}

// openParts returns the parts of a rule for kinds without redacted fields. whole reports that this is the whole rule.
func openParts(r *rbacv1.PolicyRule) (parts []rbacv1.PolicyRule, whole bool) {
	if has(r.APIGroups, rbacv1.APIGroupAll) && has(r.Resources, rbacv1.ResourceAll) {
		return []rbacv1.PolicyRule{*r}, true
	}
	rest := *r // the groups from which nothing is removed
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

// openIn returns the resources without redacted fields in a group.
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

// hides reports whether a kind has redacted fields, in any group for "*".
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
