package rbac

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/authz"
)

// Bounds of the escalation check: the steps of the comparison, each of which compares one role with one resource, or one rule with one
// verb (a quarter of a million take some ten milliseconds), and the number of rules returned. Beyond these steps, everything counts as
// missing.
const (
	coverSteps   = 1 << 18
	coverMissing = 64
	// namesInAStep is with how many names of a rule one is compared in a step.
	namesInAStep = 16
)

// Missing returns the rules, or the parts of them, that u does not hold at a scope and therefore can't give away there; nil if u holds
// them all. It returns no more than some tens of rules.
//
// Every verb on every resource, group and name of the rules, and every path, must be covered by a rule of a role that is bound to u or to
// a group of u at a scope that this one inherits from, as in Authorize. "*" is covered only by "*". A rule under a condition is not held.
// All verbs on roles or users do not include "escalate", "bind" or "impersonate", because the mirror gives none of these either: they are
// held by name, or through a rule for everything (authz.NeedsName).
func (x *Index) Missing(u user.Info, at authz.BindingScope, rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	h := x.held(u, at)
	var missing []rbacv1.PolicyRule
	for n := range rules {
		missing = h.missingResources(missing, &rules[n])
		missing = h.missingPaths(missing, &rules[n])
		if h.steps < 0 {
			return rules
		}
		if len(missing) >= coverMissing {
			return missing[:coverMissing]
		}
	}
	return missing
}

// MissingOf is Missing for the rules of a role: all of them, whether or not they have a condition. found is false if there is no such
// role, or it can't be read.
func (x *Index) MissingOf(u user.Info, at authz.BindingScope, role authz.RoleRef) (missing []rbacv1.PolicyRule, found bool) {
	x.mu.Lock()
	r := x.roles[roleKey{role.Scope, role.Namespace, role.Name}]
	x.mu.Unlock()
	if r == nil {
		return nil, false
	}
	c := r.content.Load()
	if c == nil {
		return nil, false
	}
	return x.Missing(u, at, c.wanted()), true
}

// wanted returns the rules that the caller must hold to give the role away. What a policy in Rego grants can't be known: it stands for
// everything.
func (c *content) wanted() []rbacv1.PolicyRule {
	rules := c.rules.policy()
	if c.rego {
		rules = append(rules, rbacv1.PolicyRule{
			Verbs: []string{rbacv1.VerbAll}, APIGroups: []string{rbacv1.APIGroupAll}, Resources: []string{rbacv1.ResourceAll},
		})
	}
	return rules
}

// HoldsVerb reports whether u holds a verb such as "escalate" or "bind" on a kind of roles of iam.kubesphere.io at a scope: by a rule
// that names the verb, or by one for everything. A rule for all verbs on these resources alone is no right to escalate: existing
// installations give it to users who may edit roles. An empty name stands for all objects of the kind.
func (x *Index) HoldsVerb(u user.Info, at authz.BindingScope, verb, resource, name string) bool {
	if verb == "" || resource == "" {
		return false
	}
	h := x.held(u, at)
	return h.everything || h.named(h.grants(target{group: v1beta1.GroupName, resource: resource}), verb, name)
}

// held is what a user holds at a scope.
type held struct {
	contents []*content
	// everything means that one rule is for all verbs on all resources of all groups.
	everything bool
	steps      int // that are left
	found      []*grant
}

func (x *Index) held(u user.Info, at authz.BindingScope) *held {
	h := &held{steps: coverSteps}
	if u == nil || u.GetName() == "" { // S10
		return h
	}
	seen := map[*content]bool{}
	for _, place := range x.above(at) {
		s := x.at(place)
		if s == nil {
			continue
		}
		for l := range s.of(u) {
			for ; l != nil; l = l.next {
				if c := l.content(); c != nil && c.condition == nil && !seen[c] {
					seen[c] = true
					h.contents = append(h.contents, c)
					h.everything = h.everything || c.rules.everything()
				}
			}
		}
	}
	return h
}

// content returns the content of the binding's role as far as it counts at this scope; nil where it grants nothing.
func (l *link) content() *content {
	c := l.role.content.Load()
	if c == nil || c.workspace != "" && c.workspace != l.scopeName {
		return nil
	}
	return c
}

func (s *rules) everything() bool {
	for g := range s.of(target{group: rbacv1.APIGroupAll, resource: rbacv1.ResourceAll}) {
		if g.names == nil && g.verbs.mask == everyVerb {
			return true
		}
	}
	return false
}

// grants returns the grants that are for a target. They are valid until the next call.
func (h *held) grants(t target) []*grant {
	h.found = h.found[:0]
	for _, c := range h.contents {
		h.steps -= 1 + len(c.rules.wide)
		for _, group := range [...]string{rbacv1.APIGroupAll, t.group} {
			if group == t.group || c.rules.anyOf {
				h.add(c.rules, target{group, t.resource, t.subresource})
				if c.rules.anyKind {
					h.add(c.rules, target{group, rbacv1.ResourceAll, ""})
					h.add(c.rules, target{group, rbacv1.ResourceAll, t.subresource})
				}
			}
		}
	}
	return h.found
}

func (h *held) add(s *rules, t target) {
	for g := range s.of(t) {
		h.found = append(h.found, g)
	}
}

// missingResources appends what is not held of a rule for resources.
func (h *held) missingResources(out []rbacv1.PolicyRule, rule *rbacv1.PolicyRule) []rbacv1.PolicyRule {
	if h.everything || len(rule.Verbs) == 0 { // a rule for nothing takes no steps, however many names it has
		return out
	}
	names := rule.ResourceNames
	if len(names) == 0 {
		names = []string{""} // of any name; an empty name is covered by a grant for all names, too
	}
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			t, ok := newTarget(group, resource)
			if !ok {
				t = target{group: group, resource: resource} // it means nothing, and is covered by "*" alone
			}
			grants := h.grants(t)
			steps := 1
			for _, g := range grants {
				steps += 1 + len(g.names)/namesInAStep
			}
			for _, name := range names {
				verbs := h.missingVerbs(grants, steps, rule.Verbs, group, resource, name)
				if h.steps < 0 || len(out) >= coverMissing {
					return out
				}
				if len(verbs) > 0 {
					out = appendMissing(out, verbs, group, resource, name)
				}
			}
		}
	}
	return out
}

func (h *held) missingVerbs(grants []*grant, steps int, verbs []string, group, resource, name string) (missing []string) {
	for _, verb := range verbs {
		h.steps -= steps
		if h.steps < 0 {
			return append(missing, verb)
		}
		b := bit(verb)
		if b == 0 && authz.NeedsName(verb, group, resource) { // verbs with a bit are those of requests: no further check asks for them
			if !h.named(grants, verb, name) {
				missing = append(missing, verb)
			}
			continue
		}
		if !slices.ContainsFunc(grants, func(g *grant) bool { return g.covers(name) && g.verbs.has(verb, b) }) {
			missing = append(missing, verb)
		}
	}
	return missing
}

// named reports whether a grant has a verb by name.
func (h *held) named(grants []*grant, verb, name string) bool {
	return slices.ContainsFunc(grants, func(g *grant) bool { return g.covers(name) && slices.Contains(g.verbs.others, verb) })
}

// appendMissing appends a missing rule, or merges it into the last one where they differ in the resource or the name only.
func appendMissing(out []rbacv1.PolicyRule, verbs []string, group, resource, name string) []rbacv1.PolicyRule {
	if len(out) > 0 {
		last := &out[len(out)-1]
		if slices.Equal(last.Verbs, verbs) && slices.Equal(last.APIGroups, []string{group}) {
			one := len(last.Resources) == 1 && last.Resources[0] == resource
			switch {
			case one && name != "" && len(last.ResourceNames) > 0:
				last.ResourceNames = append(last.ResourceNames, name)
				return out
			case !one && name == "" && len(last.ResourceNames) == 0:
				last.Resources = append(last.Resources, resource)
				return out
			}
		}
	}
	part := rbacv1.PolicyRule{Verbs: verbs, APIGroups: []string{group}, Resources: []string{resource}}
	if name != "" {
		part.ResourceNames = []string{name}
	}
	return append(out, part)
}

// missingPaths appends what is not held of a rule for paths.
func (h *held) missingPaths(out []rbacv1.PolicyRule, rule *rbacv1.PolicyRule) []rbacv1.PolicyRule {
	for _, path := range rule.NonResourceURLs {
		var verbs []string
		for _, verb := range rule.Verbs {
			if !h.coversPath(strings.ToLower(verb), path) {
				verbs = append(verbs, verb)
			}
			if h.steps < 0 || len(out) >= coverMissing {
				return out
			}
		}
		if len(verbs) > 0 {
			out = append(out, rbacv1.PolicyRule{Verbs: verbs, NonResourceURLs: []string{path}})
		}
	}
	return out
}

// coversPath reports whether a rule is for a verb on a path, or, where the path ends in a star, on all paths with that prefix. The verb
// get includes head.
func (h *held) coversPath(verb, path string) bool {
	if path == "" {
		return false
	}
	prefix := strings.TrimRight(path, "*")
	b := bit(verb)
	for _, c := range h.contents {
		h.steps -= 1 + len(c.rules.paths)
		for n := range c.rules.paths {
			g := &c.rules.paths[n]
			if !g.verbs.has(verb, b) && (verb != "head" || !g.verbs.has("get", bit("get"))) {
				continue
			}
			if g.prefix && strings.HasPrefix(prefix, g.path) || !g.prefix && path == g.path {
				return true
			}
		}
	}
	return false
}
