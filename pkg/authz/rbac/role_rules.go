package rbac

import (
	"iter"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
)

// verbs is a set of verbs.
type verbs struct {
	mask   uint16
	others []string // those without a bit
}

// words are the verbs in the order of their bits.
var words = [...]string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "proxy", "post", "put"}

const everyVerb uint16 = 1<<16 - 1

func newVerbs(list []string) verbs {
	var v verbs
	for _, s := range list {
		switch b := bit(s); {
		case s == rbacv1.VerbAll:
			v.mask = everyVerb
		case b != 0:
			v.mask |= b
		case s != "":
			v.others = append(v.others, s)
		}
	}
	v.others = unique(v.others)
	return v
}

// unique returns a list without what is in it twice, in its order.
func unique(list []string) []string {
	if len(list) < 2 {
		return list
	}
	seen := make(map[string]bool, len(list))
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool {
		was := seen[s]
		seen[s] = true
		return was
	})
}

func (v *verbs) empty() bool {
	return v.mask == 0 && len(v.others) == 0
}

// target is what a grant is for; group and resource may be "*", for any.
type target struct {
	group, resource, subresource string
}

// grant is what a rule allows for a target.
type grant struct {
	verbs verbs
	names []string // nil for any
}

// wideGrant is what a rule allows for so many groups and resources that a grant for each pair of them would be much larger than the rule:
// of 5000 groups and 5000 resources, which are some 70 KB, there are 25 million.
type wideGrant struct {
	grant

	groups map[string]bool
	kinds  map[target]bool // without their groups
}

// isWide reports whether a rule is a wideGrant. One of up to four groups, or of as many resources, never is.
func isWide(groups, resources int) bool { return groups*resources > 4*(groups+resources)+16 }

// pathGrant is what a rule allows for paths.
type pathGrant struct {
	verbs  verbs
	path   string
	prefix bool
}

// rules are a role's rules, arranged so that a decision doesn't depend on how many there are.
type rules struct {
	verbs   verbs // of any rule for resources
	grants  map[target][]grant
	wide    []wideGrant
	paths   []pathGrant
	anyOf   bool  // some rule is for every group
	anyKind bool  // some rule is for every resource, or for a sub-resource of every resource
	wrong   error // names the first invalid word; the rules that have such words are not among these
}

// newRules arranges the rules of a role. They mean what they mean to Kubernetes, except for verbs on paths, which roles of older
// installations have in capitals, and empty strings, which match nothing. A rule with an invalid word (iamv1beta1.WrongWord) is left out
// (S63).
func newRules(list []rbacv1.PolicyRule) *rules {
	list, wrong := iamv1beta1.ValidRules(list)
	s := &rules{grants: map[target][]grant{}, wrong: wrong}
	for n := range list {
		s.addResources(&list[n])
		s.addPaths(&list[n])
	}
	return s
}

func (s *rules) addResources(rule *rbacv1.PolicyRule) {
	g := grant{verbs: newVerbs(rule.Verbs)}
	if g.verbs.empty() || len(rule.Resources) == 0 {
		return
	}
	if len(rule.ResourceNames) > 0 {
		g.names = slices.DeleteFunc(slices.Clone(rule.ResourceNames), func(name string) bool { return name == "" })
		if len(g.names) == 0 {
			return
		}
	}
	groups, resources := unique(rule.APIGroups), unique(rule.Resources)
	if isWide(len(groups), len(resources)) {
		s.addWide(g, groups, resources)
		return
	}
	added := false
	for _, group := range groups {
		for _, resource := range resources {
			if t, ok := newTarget(group, resource); ok {
				s.note(t)
				s.add(t, g)
				added = true
			}
		}
	}
	if added {
		s.addVerbs(&g.verbs)
	}
}

func (s *rules) addWide(g grant, groups, resources []string) {
	w := wideGrant{g, make(map[string]bool, len(groups)), make(map[target]bool, len(resources))}
	for _, resource := range resources {
		if t, ok := newTarget("", resource); ok {
			w.kinds[t] = true
			s.note(t)
		}
	}
	if len(w.kinds) == 0 {
		return
	}
	for _, group := range groups {
		w.groups[group] = true
		s.note(target{group: group})
	}
	s.addVerbs(&g.verbs)
	s.wide = append(s.wide, w)
}

// note notes that some rule is for a group and a resource.
func (s *rules) note(t target) {
	s.anyOf = s.anyOf || t.group == rbacv1.APIGroupAll
	s.anyKind = s.anyKind || t.resource == rbacv1.ResourceAll
}

func (s *rules) addVerbs(v *verbs) {
	s.verbs.mask |= v.mask
	s.verbs.others = append(s.verbs.others, v.others...)
}

// add adds a grant for a target, into one for all names if there is one. Those of verbs without a bit stay apart: all targets of a rule
// share the list of them.
func (s *rules) add(t target, g grant) {
	if g.names == nil && len(g.verbs.others) == 0 {
		for n := range s.grants[t] {
			if old := &s.grants[t][n]; old.names == nil && len(old.verbs.others) == 0 {
				old.verbs.mask |= g.verbs.mask
				return
			}
		}
	}
	s.grants[t] = append(s.grants[t], g)
}

// of yields the grants for a target.
func (s *rules) of(t target) iter.Seq[*grant] {
	return func(yield func(*grant) bool) {
		for n := range s.grants[t] {
			if !yield(&s.grants[t][n]) {
				return
			}
		}
		for n := range s.wide {
			if w := &s.wide[n]; w.has(t) && !yield(&w.grant) {
				return
			}
		}
	}
}

// newTarget parses "pods", "pods/log", "*" and "*/log".
func newTarget(group, resource string) (target, bool) {
	kind, sub, slash := strings.Cut(resource, "/")
	if kind == "" || slash && sub == "" {
		return target{}, false
	}
	return target{group, kind, sub}, true
}

func (s *rules) addPaths(rule *rbacv1.PolicyRule) {
	if len(rule.NonResourceURLs) == 0 {
		return
	}
	lower := make([]string, len(rule.Verbs))
	for n, verb := range rule.Verbs {
		lower[n] = strings.ToLower(verb)
	}
	g := pathGrant{verbs: newVerbs(lower)}
	if g.verbs.empty() {
		return
	}
	for _, path := range rule.NonResourceURLs {
		if path == "" {
			continue
		}
		g.path = strings.TrimRight(path, "*")
		g.prefix = g.path != path
		s.paths = append(s.paths, g)
	}
}
