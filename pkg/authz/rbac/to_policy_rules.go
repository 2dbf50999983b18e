package rbac

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	"kapis.dev/ks-apiserver/pkg/request"
)

// list returns the verbs as a rule has them.
func (v *verbs) list() []string {
	var out []string
	if v.mask == everyVerb {
		out = append(out, rbacv1.VerbAll)
	} else {
		for n, word := range words {
			if v.mask&(1<<n) != 0 {
				out = append(out, word)
			}
		}
	}
	return append(out, v.others...)
}

// rule returns a grant as the rule that it is.
func (g *grant) rule(t target) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: g.verbs.list(), APIGroups: []string{t.group}, Resources: []string{t.word()}, ResourceNames: g.names}
}

// word returns the resource as a rule has it.
func (t target) word() string {
	if t.subresource == "" {
		return t.resource
	}
	return t.resource + "/" + t.subresource
}

// rule returns the rule that a wide grant was made of, with its lists in an order of their own.
func (w *wideGrant) rule() rbacv1.PolicyRule {
	resources := make([]string, 0, len(w.kinds))
	for t := range w.kinds {
		resources = append(resources, t.word())
	}
	slices.Sort(resources)
	groups := slices.Sorted(maps.Keys(w.groups))
	return rbacv1.PolicyRule{Verbs: w.verbs.list(), APIGroups: groups, Resources: resources, ResourceNames: w.names}
}

func (g *pathGrant) rule() rbacv1.PolicyRule {
	path := g.path
	if g.prefix {
		path += "*"
	}
	return rbacv1.PolicyRule{Verbs: g.verbs.list(), NonResourceURLs: []string{path}}
}

// policy returns all rules, one for each target and set of names: they grant what the rules of the role grant, of which no copy is
// stored.
func (s *rules) policy() []rbacv1.PolicyRule {
	targets := make([]target, 0, len(s.grants))
	for t := range s.grants {
		targets = append(targets, t)
	}
	slices.SortFunc(targets, func(a, b target) int {
		return cmp.Or(strings.Compare(a.group, b.group), strings.Compare(a.resource, b.resource), strings.Compare(a.subresource, b.subresource))
	})
	out := make([]rbacv1.PolicyRule, 0, len(targets)+len(s.wide)+len(s.paths))
	lists := map[*string][]string{} // all targets of a rule share one
	for _, t := range targets {
		for n := range s.grants[t] {
			g := &s.grants[t][n]
			if len(g.verbs.others) == 0 {
				out = append(out, g.rule(t))
				continue
			}
			first := &g.verbs.others[0]
			if lists[first] == nil {
				lists[first] = g.verbs.list()
			}
			out = append(out, rbacv1.PolicyRule{Verbs: lists[first], APIGroups: []string{t.group}, Resources: []string{t.word()},
				ResourceNames: g.names})
		}
	}
	for n := range s.wide {
		out = append(out, s.wide[n].rule())
	}
	for n := range s.paths {
		out = append(out, s.paths[n].rule())
	}
	return out
}

// match returns the rule that allows r, whose verb has the bit b, and nil if there is none: it is allow with a rule that people can read.
func (s *rules) match(r *request.Info, b uint16) *rbacv1.PolicyRule {
	if !s.allow(r, b) {
		return nil
	}
	if !r.IsResource {
		return s.matchPath(r, b)
	}
	for _, group := range [...]string{rbacv1.APIGroupAll, r.APIGroup} {
		for _, t := range [...]target{
			{group, rbacv1.ResourceAll, ""}, {group, rbacv1.ResourceAll, r.Subresource}, {group, r.Resource, r.Subresource},
		} {
			for g := range s.of(t) {
				if g.verbs.has(r.Verb, b) && g.covers(r.Name) {
					rule := g.rule(t)
					return &rule
				}
			}
		}
	}
	return nil
}

func (s *rules) matchPath(r *request.Info, b uint16) *rbacv1.PolicyRule {
	for n := range s.paths {
		if one := (&rules{paths: s.paths[n : n+1]}); one.allowPath(r, b) {
			rule := s.paths[n].rule()
			return &rule
		}
	}
	return nil
}
