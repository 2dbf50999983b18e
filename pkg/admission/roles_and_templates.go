package admission

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kapis.dev/ks-apiserver/pkg/admission/refusal"
	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/controller/aggregation"
	"kapis.dev/ks-apiserver/pkg/request"
)

// everything is what a user must hold to write rules in a language that can't be compared: Rego.
func everything() []rbacv1.PolicyRule {
	all := []string{"*"}
	return []rbacv1.PolicyRule{{Verbs: all, APIGroups: all, Resources: all}, {Verbs: all, NonResourceURLs: all}}
}

// role checks a role of any scope by its new rules, and by those of the templates that it newly takes.
func (q *escalationCheck) role(scope request.Scope) error {
	at := q.now.scopeOf(scope, q.Namespace)
	if err := cmp.Or(hubKeeps(q, at), q.words(q.now.Rules, q.old.Rules)); err != nil {
		return err
	}
	if of := q.guard.Known.keptFor(q.Name, at.Workspace); of != "" && scope == request.Workspace && !q.updates() {
		if err := q.mayEscalate(authz.BindingScope{}, q.GVR.Resource, fmt.Sprintf("a workspace %.100q has a role of this name: take"+
			" another name, such as one that begins with that of its own workspace", of)); err != nil {
			return err
		}
	}
	if scope == request.Global && q.old.grantsAll() && !q.guard.Known.staysAll(q.now) {
		q.mayEndAdministrator()
	}
	whole := !q.updates() || at != q.old.scopeOf(scope, q.Namespace) || wider(&q.now, &q.old)
	rules := q.now.Rules
	if !whole {
		rules = added(rules, q.old.Rules)
	}
	if whole || !equality.Semantic.DeepEqual(q.now.Templates, q.old.Templates) || q.now.aggregates() && !q.old.aggregates() {
		before := q.old.Templates
		if whole {
			before = nil
		}
		more, err := q.templates(at, scope, q.now.Templates, before)
		if err != nil {
			return err
		}
		rules = slices.Concat(rules, more)
	}
	if rego := q.now.Metadata.Annotations[iamv1beta1.AnnotationRegoOverride]; rego != "" &&
		rego != q.old.Metadata.Annotations[iamv1beta1.AnnotationRegoOverride] {
		rules = everything()
	}
	if q.updates() && remade(&q.now, &q.old) {
		again := q.guard.Known.patternRules(authz.RoleRef{Scope: scope, Namespace: q.Namespace, Name: q.Name}, at)
		if !whole {
			again = added(again, q.old.Rules)
		}
		rules = slices.Concat(rules, again)
	}
	return q.grants(at, rules, rolesOf(scope))
}

// remade reports whether a change of a role has a BuiltinRole write its rules again: the note of which one made it is another, or the role
// takes less of templates. Rules that were taken from it come back then.
func remade(now, old *object) bool {
	if now.Metadata.Annotations[iamv1beta1.AnnotationPattern] != old.Metadata.Annotations[iamv1beta1.AnnotationPattern] {
		return true
	}
	has, had := now.Templates, old.Templates
	return had != nil && (has == nil || !equality.Semantic.DeepEqual(has.RoleSelector, had.RoleSelector) ||
		len(addedNames(had.TemplateNames, has.TemplateNames)) > 0)
}

// templates returns the rules of the templates of a scope that a role takes. No one can hold yet what it takes of templates that are
// created later: only a writer who may escalate may add these.
func (q *escalationCheck) templates(at authz.BindingScope, scope request.Scope, now,
	before *iamv1beta1.AggregationRoleTemplates) ([]rbacv1.PolicyRule, error) {
	rules, err := q.guard.Known.rulesOf(scope, now)
	if err != nil {
		return nil, q.refuse(err.Error())
	}
	if now == nil {
		return nil, nil
	}
	before = cmp.Or(before, &iamv1beta1.AggregationRoleTemplates{})
	resource := q.GVR.Resource
	if now.RoleSelector != nil && !equality.Semantic.DeepEqual(now.RoleSelector, before.RoleSelector) {
		const why = "a roleSelector takes the rules of templates that are made later, too: name the templates"
		if err := q.mayEscalate(at, resource, why); err != nil {
			return nil, err
		}
	}
	if unknown := q.guard.Known.unknownTemplates(scope, addedNames(now.TemplateNames, before.TemplateNames)); len(unknown) > 0 {
		why := "there are no role templates of the scope " + scope.Label() + " with these names, or they are not known yet: " +
			refusal.Few(unknown)
		if err := q.mayEscalate(at, resource, why); err != nil {
			return nil, err
		}
	}
	return rules, nil
}

// wider reports whether a role grants its rules to more requests than before: its condition is another one, or removed. An empty
// condition can't be compiled, and allows nothing, while an empty policy is none.
func wider(now, old *object) bool {
	before, restricted := old.Metadata.Annotations[iamv1beta1.AnnotationCELCondition]
	if after, still := now.Metadata.Annotations[iamv1beta1.AnnotationCELCondition]; restricted && (!still || after != before) {
		return true
	}
	policy := old.Metadata.Annotations[iamv1beta1.AnnotationRegoOverride]
	return policy != "" && policy != now.Metadata.Annotations[iamv1beta1.AnnotationRegoOverride]
}

// grantsAll reports whether a role is for everything, under no condition.
func (o *object) grantsAll() bool {
	_, conditional := o.Metadata.Annotations[iamv1beta1.AnnotationCELCondition]
	return !conditional && slices.ContainsFunc(o.Rules, func(r rbacv1.PolicyRule) bool {
		return slices.Contains(r.Verbs, rbacv1.VerbAll) && slices.Contains(r.APIGroups, rbacv1.APIGroupAll) &&
			slices.Contains(r.Resources, rbacv1.ResourceAll) && len(r.ResourceNames) == 0
	})
}

// staysAll reports whether a role of the platform is for everything once ks-controller-manager has brought it up to date: it removes the
// rules that came from templates by the role's record, which users may write, unless a template gives them.
func (k *Cache) staysAll(o object) bool {
	o.Rules = aggregation.OwnRules(&metav1.ObjectMeta{Annotations: o.Metadata.Annotations}, o.Rules)
	if given, err := k.rulesOf(request.Global, o.Templates); err == nil && o.aggregates() {
		o.Rules = slices.Concat(o.Rules, given)
	}
	return o.grantsAll()
}

// mostWords is how many words the rules of one object may have. Controllers and decisions compare rules with rules: what one role may cost
// them grows faster than it does.
const mostWords = 1 << 14

// words refuses new rules with invalid words (S63), and too many words. Rules that exist already may stay while something else is changed,
// but those with invalid words give nothing.
func (q *escalationCheck) words(now, old []rbacv1.PolicyRule) error {
	if n := countWords(now); n > mostWords && n > countWords(old) {
		return q.refuse(fmt.Sprintf("its rules have %d verbs, groups, resources, names and paths, %d at most are allowed: make several"+
			" roles", n, mostWords))
	}
	for _, r := range added(now, old) {
		if err := iamv1beta1.WrongWord(&r); err != nil {
			return q.refuse("no rule can say this: " + err.Error())
		}
	}
	return nil
}

func countWords(rules []rbacv1.PolicyRule) (n int) {
	for i := range rules {
		r := &rules[i]
		n += 1 + len(r.Verbs) + len(r.APIGroups) + len(r.Resources) + len(r.ResourceNames) + len(r.NonResourceURLs)
	}
	return n
}

// roleTemplate checks a template as a role of the platform, because roles at any scope can take it, by its labels.
func (q *escalationCheck) roleTemplate() error {
	rules := q.now.Spec.Rules
	if err := q.words(rules, q.old.Spec.Rules); err != nil {
		return err
	}
	if q.updates() && maps.Equal(q.now.Metadata.Labels, q.old.Metadata.Labels) {
		rules = added(rules, q.old.Spec.Rules)
	}
	return q.grants(authz.BindingScope{}, rules, "roletemplates")
}

// builtinRole checks the pattern of a role as one of the platform, because every workspace or namespace gets it.
func (q *escalationCheck) builtinRole() error {
	if q.updates() && bytes.Equal(q.now.Role, q.old.Role) && bytes.Equal(q.now.TargetSelector, q.old.TargetSelector) {
		return nil
	}
	var role, before embedded
	if len(q.now.Role) > 0 {
		if err := decodeInto(q.now.Role, &role); err != nil {
			return q.refuse("the role in it can't be read: " + err.Error())
		}
	}
	if err := q.words(role.Rules, nil); err != nil {
		return err
	}
	if len(q.old.Role) > 0 && bytes.Equal(q.now.TargetSelector, q.old.TargetSelector) &&
		(decodeInto(q.old.Role, &before) != nil || before.scope() != role.scope()) {
		before = embedded{}
	}
	more, err := q.templates(authz.BindingScope{}, role.scope(), role.Templates, before.Templates)
	if err != nil {
		return err
	}
	rules := slices.Concat(role.Rules, more)
	if role.Metadata.Annotations[iamv1beta1.AnnotationRegoOverride] != "" {
		rules = everything()
	}
	return q.grants(authz.BindingScope{}, rules, "builtinroles")
}
