package rbac

import (
	"cmp"
	"iter"
	"slices"
	"strconv"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/authz/rbac/lockfree"
	"kapis.dev/ks-apiserver/pkg/request"
)

// WhoCan yields every binding that allows one of the requests to a subject, each once: by scope in the order in which they are asked,
// then by subject. They are made one by one, since there may be as many as users. Where the role has a condition, or a policy and no
// rule, Held is false: whether it grants depends on more of the subject than a binding names.
func (x *Index) WhoCan(requests ...*request.Info) iter.Seq[authz.Grant] {
	return func(yield func(authz.Grant) bool) {
		w := whoCan{index: x}
		for _, r := range requests {
			w.ask(r)
		}
		for _, place := range w.places {
			for _, f := range w.at(place) {
				if !yield(f.grant(place)) {
					return
				}
			}
		}
	}
}

// whoCan collects the bindings that allow requests.
type whoCan struct {
	index  *Index
	asked  []*asking
	places []authz.BindingScope // in which one of them is decided
}

// asking is one of the requests. What the rules of each role say about it is looked up once.
type asking struct {
	request *request.Info
	bit     uint16
	places  []authz.BindingScope
	rules   map[*content]*rbacv1.PolicyRule
}

// found is a binding with the rule of its role that allows the request.
type found struct {
	link    *link
	content *content
	rule    *rbacv1.PolicyRule
}

func (w *whoCan) ask(r *request.Info) {
	if r == nil || r.Verb == "" || r.IsResource && r.Resource == "" || !r.IsResource && r.Path == "" { // S10
		return
	}
	a := &asking{request: r, bit: bit(r.Verb), places: w.index.Meets(r), rules: map[*content]*rbacv1.PolicyRule{}}
	w.asked = append(w.asked, a)
	for _, place := range a.places {
		if !slices.Contains(w.places, place) {
			w.places = append(w.places, place)
		}
	}
}

// at returns the bindings at a scope, by subject.
func (w *whoCan) at(place authz.BindingScope) (out []found) {
	s := w.index.at(place)
	if s == nil {
		return nil
	}
	for _, t := range [...]*lockfree.Map[*link]{&s.users, &s.groups} {
		for _, l := range t.All {
			for ; l != nil; l = l.next {
				if f, ok := w.allows(place, l); ok {
					out = append(out, f)
				}
			}
		}
	}
	slices.SortFunc(out, func(a, b found) int {
		return cmp.Or(strings.Compare(a.link.subject.kind, b.link.subject.kind), strings.Compare(a.link.subject.name, b.link.subject.name),
			strings.Compare(a.link.key.name, b.link.key.name))
	})
	return out
}

func (w *whoCan) allows(place authz.BindingScope, l *link) (found, bool) {
	c := l.content()
	if c == nil {
		return found{}, false
	}
	for _, a := range w.asked {
		rule, ok := a.rules[c]
		if !ok {
			rule = c.rules.match(a.request, a.bit)
			a.rules[c] = rule
		}
		if (rule != nil || c.policy != nil) && slices.Contains(a.places, place) {
			return found{l, c, rule}, true
		}
	}
	return found{}, false
}

func (f found) grant(place authz.BindingScope) authz.Grant {
	g := f.link.grant(place)
	g.Rule, g.Condition, g.Held = f.rule, f.content.expression, f.rule != nil && f.content.condition == nil
	switch {
	case g.Held:
	case f.rule == nil:
		g.Why = "only where the policy in Rego of the role " + strconv.Quote(f.link.roleKey.name) + " allows it"
	default:
		g.Why = "only where the condition of the role " + strconv.Quote(f.link.roleKey.name) + " holds"
	}
	return g
}
