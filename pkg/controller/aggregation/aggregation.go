// Package aggregation computes the rules of an iam role from the templates that it names or selects.
//
// A role's rules are its own ones and those of its templates. An annotation says which of them came from templates, so
// that a rule is removed with its template, while a rule that a user wrote stays whatever happens to templates. A role
// without that annotation is adopted as it is: a rule equal to one of a template that it has now came from there, every
// other one is its own.
package aggregation

import (
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
)

// Role has the fields of an iam role that aggregation reads and writes.
type Role struct {
	// Meta is the role's metadata; its annotations are written.
	Meta metav1.Object
	// Templates and Rules point at the fields of the role.
	Templates *iamv1beta1.AggregationRoleTemplates
	Rules     *[]rbacv1.PolicyRule
}

// Aggregate brings the role's rules, template names and record up to date with templates, and reports whether it
// changed any of them. The templates are those of the role's scope: the caller leaves out the others, so that a
// namespace's role can't get rules that are meant for the platform.
//
// Templates count where the role has a selector, where the annotation AnnotationAutoAggregate says
// "true", where they counted before, or where the role has no rules but theirs to grant. The
// annotation "false" turns them off and takes their rules away again.
func Aggregate(role Role, templates []iamv1beta1.RoleTemplate) (bool, error) {
	old := readRecord(role.Meta)
	if !active(role, old) {
		if old == nil {
			return false, nil
		}
		*role.Rules = ownRules(*role.Rules, old, nil)
		return true, writeRecord(role.Meta, nil)
	}
	names, selected, err := choose(role.Templates, old, templates)
	if err != nil {
		return false, err
	}
	given := rulesOf(names, templates)
	own, wrong := iamv1beta1.ValidRules(ownRules(*role.Rules, old, given))
	rules := union(own, given)
	next := &record{Templates: selected, Rules: fingerprints(given)}

	changed := false
	// Rules that give nothing are removed with the next write, which would fail with them, but cause no write themselves.
	had := *role.Rules
	if wrong != nil {
		had, _ = iamv1beta1.ValidRules(had)
	}
	if !slices.EqualFunc(rules, had, func(a, b rbacv1.PolicyRule) bool { return iamv1beta1.RuleKey(&a) == iamv1beta1.RuleKey(&b) }) {
		*role.Rules, changed = rules, true
	}
	if !slices.Equal(names, role.Templates.TemplateNames) {
		role.Templates.TemplateNames, changed = names, true
	}
	if !next.equal(old) {
		return true, writeRecord(role.Meta, next)
	}
	return changed, nil
}

// Wanted reports whether the role uses templates, now or by its record. For other roles, no templates have to be read.
func Wanted(role Role) bool {
	_, recorded := role.Meta.GetAnnotations()[AnnotationRecord]
	return recorded || active(role, nil)
}

// active reports whether templates count for the role.
func active(role Role, old *record) bool {
	t := role.Templates
	if t == nil || role.Meta.GetAnnotations()[iamv1beta1.AnnotationAutoAggregate] == "false" {
		return false
	}
	return t.RoleSelector != nil || old != nil || len(*role.Rules) == 0 && len(t.TemplateNames) > 0 ||
		role.Meta.GetAnnotations()[iamv1beta1.AnnotationAutoAggregate] == "true"
}

// choose returns the names of all of a role's templates, in a stable order, and of those that the selector finds. A
// name that only an earlier selection found is removed.
func choose(t *iamv1beta1.AggregationRoleTemplates, old *record, templates []iamv1beta1.RoleTemplate) (names, selected []string,
	err error) {
	if t.RoleSelector != nil {
		selector, err := metav1.LabelSelectorAsSelector(t.RoleSelector)
		if err != nil {
			return nil, nil, fmt.Errorf("read aggregationRoleTemplates.roleSelector: %w", err)
		}
		for i := range templates {
			if templates[i].DeletionTimestamp.IsZero() && selector.Matches(labels.Set(templates[i].Labels)) {
				selected = append(selected, templates[i].Name)
			}
		}
		slices.Sort(selected)
	}
	for _, name := range t.TemplateNames {
		byHand := old == nil || !slices.Contains(old.Templates, name)
		if !slices.Contains(names, name) && (byHand || slices.Contains(selected, name)) {
			names = append(names, name)
		}
	}
	for _, name := range selected {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, selected, nil
}

// rulesOf returns the rules of the named templates, in the order of the names, without duplicates. Rules with invalid words give
// nothing, and are left out: a role with one of them can't be written.
func rulesOf(names []string, templates []iamv1beta1.RoleTemplate) []rbacv1.PolicyRule {
	var rules []rbacv1.PolicyRule
	for _, name := range names {
		i := slices.IndexFunc(templates, func(t iamv1beta1.RoleTemplate) bool { return t.Name == name })
		if i >= 0 && templates[i].DeletionTimestamp.IsZero() {
			valid, _ := iamv1beta1.ValidRules(templates[i].Spec.Rules)
			rules = union(rules, valid)
		}
	}
	return rules
}

// OwnRules returns the rules that a role keeps when no template gives it any: all but those that its record says came from templates.
func OwnRules(meta metav1.Object, rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	if r := readRecord(meta); r != nil {
		return ownRules(rules, r, nil)
	}
	return rules
}

// ownRules returns the rules that did not come from templates.
func ownRules(rules []rbacv1.PolicyRule, old *record, given []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	from := map[string]bool{}
	if old == nil {
		for i := range given {
			from[fingerprint(&given[i])] = true
		}
	} else {
		for _, f := range old.Rules {
			from[f] = true
		}
	}
	var own []rbacv1.PolicyRule
	for i := range rules {
		if f := fingerprint(&rules[i]); !from[f] && !from[earlierFingerprint(&rules[i])] {
			own = append(own, rules[i])
		}
	}
	return own
}

// union appends those of more that are not yet in rules.
func union(rules, more []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	out := slices.Clone(rules)
	seen := make(map[string]bool, len(rules)+len(more))
	for i := range rules {
		seen[iamv1beta1.RuleKey(&rules[i])] = true
	}
	for i := range more {
		if key := iamv1beta1.RuleKey(&more[i]); !seen[key] {
			seen[key] = true
			out = append(out, *more[i].DeepCopy())
		}
	}
	return out
}
