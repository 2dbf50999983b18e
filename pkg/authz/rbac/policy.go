package rbac

import (
	"cmp"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	"kapis.dev/ks-apiserver/pkg/request"
)

// words are the verbs in the order of their bits.
var words = [...]string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "proxy", "post", "put"}

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
	for _, verb := range v.others {
		if !slices.Contains(out, verb) {
			out = append(out, verb)
		}
	}
	return out
}

// rule returns a grant as the rule that it is.
func (g *grant) rule(t target) rbacv1.PolicyRule {
	resource := t.resource
	if t.subresource != "" {
		resource += "/" + t.subresource
	}
	return rbacv1.PolicyRule{Verbs: g.verbs.list(), APIGroups: []string{t.group}, Resources: []string{resource}, ResourceNames: g.names}
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
	out := make([]rbacv1.PolicyRule, 0, len(targets)+len(s.paths))
	for _, t := range targets {
		for n := range s.grants[t] {
			out = append(out, s.grants[t][n].rule(t))
		}
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
			for n := range s.grants[t] {
				g := &s.grants[t][n]
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
