package admission

import (
	"encoding/json"
	"slices"
	"strings"
	"unique"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/admission/shipped"
	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/store"
)

// The rules that ks-controller-manager writes into a role are not always in it: a new role has no rules for a moment, and a user with the
// right may have emptied or deleted a built-in one, or one that the next installation applies again. To give such a role away is to give
// the rules that it is about to have.

// keeping has what is known of roles besides their rules.
type keeping struct {
	// templates are those that a role takes its rules from, as JSON; many roles share few texts.
	templates map[authz.RoleRef]unique.Handle[string]
	patterns  map[string]pattern // by the name of the BuiltinRole
}

// pattern is what a BuiltinRole writes into the roles of its name.
type pattern struct {
	scope     request.Scope
	name      string
	templates *iamv1beta1.AggregationRoleTemplates
	rules     []rbacv1.PolicyRule
}

// aggregates reports whether a role takes rules from templates, by the controller's own rule (package aggregation).
func (o *object) aggregates() bool {
	t, auto := o.Templates, o.Metadata.Annotations[iamv1beta1.AnnotationAutoAggregate]
	if t == nil || auto == "false" {
		return false
	}
	_, before := o.Metadata.Annotations[iamv1beta1.AnnotationAggregated]
	return t.RoleSelector != nil || before || auto == "true" || len(o.Rules) == 0 && len(t.TemplateNames) > 0
}

// pendingRules returns the rules that a role at a scope is about to have, if it does not have them yet: those of its templates, of the
// pattern of its name, and of the role of that name that every installation has.
func (k *Cache) pendingRules(role authz.RoleRef, at authz.BindingScope) []rbacv1.PolicyRule {
	return reading(k, func() (out []rbacv1.PolicyRule) {
		if text, ok := k.kept.templates[role]; ok {
			t := &iamv1beta1.AggregationRoleTemplates{}
			if err := json.Unmarshal([]byte(text.Value()), t); err == nil {
				out = k.chosen(role.Scope, t)
			}
		}
		if one, ok := shipped.RoleOf(role); ok {
			out = slices.Concat(out, added(slices.Concat(one.Rules, k.chosen(role.Scope, one.Templates)), out))
		}
		return slices.Concat(out, k.patterned(role, at))
	})
}

// patterned returns the rules that patterns give a role at a scope. The caller holds the lock.
func (k *Cache) patterned(role authz.RoleRef, at authz.BindingScope) (out []rbacv1.PolicyRule) {
	for _, p := range k.kept.patterns {
		name := p.name
		if p.scope == request.Workspace {
			name = at.Workspace + "-" + p.name
		}
		if p.scope == role.Scope && name == role.Name {
			out = slices.Concat(out, p.rules, k.chosen(p.scope, p.templates))
		}
	}
	return out
}

type roleSink struct {
	*Cache
	scope request.Scope
}

// Set stores the templates that a role takes rules from.
func (s roleSink) Set(o *store.Object) {
	v, key := read(o), authz.RoleRef{Scope: s.scope, Namespace: o.Namespace, Name: o.Name}
	var text []byte
	if v.aggregates() {
		text, _ = json.Marshal(v.Templates) // it was decoded from JSON
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if text == nil {
		delete(s.kept.templates, key)
		return
	}
	s.kept.templates[key] = unique.Make(string(text))
}

// Delete removes a role.
func (s roleSink) Delete(namespace, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.kept.templates, authz.RoleRef{Scope: s.scope, Namespace: namespace, Name: name})
}

type patternSink struct{ *Cache }

// Set stores a pattern. One that can't be read gives no rules.
func (s patternSink) Set(o *store.Object) {
	var role embedded
	if raw := read(o).Role; len(raw) > 0 {
		if err := decodeInto(raw, &role); err != nil {
			klog.ErrorS(err, "A built-in role is taken to make no roles", "builtinrole", o.Name)
		}
	}
	rules, _ := iamv1beta1.ValidRules(role.Rules)
	s.mu.Lock()
	defer s.mu.Unlock()
	if role.Metadata.Name == "" {
		delete(s.kept.patterns, o.Name)
		return
	}
	s.kept.patterns[o.Name] = pattern{role.scope(), role.Metadata.Name, role.Templates, rules}
}

// Delete removes a pattern.
func (s patternSink) Delete(_, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.kept.patterns, name)
}

// embedded is the role in a BuiltinRole.
type embedded struct {
	Kind string `json:"kind"`
	object
}

func (e *embedded) scope() request.Scope {
	if e.Kind == iamv1beta1.KindWorkspaceRole {
		return request.Workspace
	}
	return request.Namespace
}

// patternRules returns the rules that a role of a name gets from BuiltinRoles at a scope.
func (k *Cache) patternRules(role authz.RoleRef, at authz.BindingScope) []rbacv1.PolicyRule {
	return reading(k, func() []rbacv1.PolicyRule { return k.patterned(role, at) })
}

// keptFor returns another workspace than a role's that has roles of that name: ks-controller-manager makes <workspace>-<pattern> in each,
// also in one that is created later, and can't where the name is taken. "" for a name that is free.
func (k *Cache) keptFor(name, workspace string) string {
	return reading(k, func() (of string) {
		for _, p := range k.kept.patterns {
			owner, ok := strings.CutSuffix(name, "-"+p.name)
			if p.scope != request.Workspace || !ok || owner == "" {
				continue
			}
			if owner == workspace {
				return ""
			}
			of = owner
		}
		return of
	})
}

// otherPatterns returns the rules of all patterns but one of a role.
func (k *Cache) otherPatterns(but string, scope request.Scope, role string) []rbacv1.PolicyRule {
	return reading(k, func() (out []rbacv1.PolicyRule) {
		for builtin, p := range k.kept.patterns {
			if builtin != but && p.scope == scope && p.name == role {
				out = slices.Concat(out, p.rules, k.chosen(p.scope, p.templates))
			}
		}
		return out
	})
}
