package rbac

import (
	"context"
	"iter"
	"slices"
	"strconv"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/request"
)

// Authorize allows r where a role that is bound to u, or to a group of u, has a rule for it: a role of the platform for any request, a
// role of a workspace for requests in it and in its namespaces, a role of a namespace for requests in it, and a role of the cluster for
// everything that is not the platform's own. Otherwise, a policy of one of these roles may allow it. A refused list of all objects of a
// kind comes with the partial list that the rules allow. There is no error: a condition or policy that can't be evaluated allows nothing.
//
// A role without a condition is preferred to one whose condition holds: its synthetic group is good for more, as the policies in
// config/install/admission.yaml say.
func (x *Index) Authorize(ctx context.Context, u user.Info, r *request.Info) (authz.Decision, error) {
	if !isComplete(u, r) {
		return authz.Decision{Reason: "the request lacks a user, or what it asks for"}, nil
	}
	d := x.byRules(ctx, u, r)
	if d.Allowed() || x.policies.Load() == 0 {
		return d, nil
	}
	if p := x.byPolicy(ctx, u, r); p.Allowed() {
		return p, nil
	}
	return d, nil
}

func (x *Index) byRules(ctx context.Context, u user.Info, r *request.Info) authz.Decision {
	b := bit(r.Verb)
	var conditional authz.Decision
	d := x.global.decide(u, r, b, &conditional)
	if !d.Allowed() && r.Scope != request.Global {
		if d = x.decideBelow(u, r, b, &conditional); !d.Allowed() {
			d = x.cluster.decide(u, r, b, &conditional)
		}
	}
	switch {
	case d.Allowed():
		return d
	case conditional.Allowed():
		return conditional
	case r.Scope != request.Global && r.OfCluster() && authz.WantsPartialList(ctx):
		return authz.AllowPartial(x.partialList(u, r, b), "")
	}
	return d
}

// isComplete reports whether no value is empty that rules compare, so that empty values never match one another (S10).
func isComplete(u user.Info, r *request.Info) bool {
	if u == nil || r == nil || r.Verb == "" || u.GetName() == "" {
		return false
	}
	if r.IsResource {
		return r.Resource != ""
	}
	return r.Path != ""
}

// decideBelow checks the workspace and the namespace of r, see link.decide.
func (x *Index) decideBelow(u user.Info, r *request.Info, b uint16, conditional *authz.Decision) (d authz.Decision) {
	var workspace string
	switch r.Scope {
	case request.Workspace:
		workspace = r.Workspace
	case request.Namespace:
		workspace, _ = x.workspaceOf.Get(r.Namespace)
	default:
		return d
	}
	if workspace != "" {
		if s, ok := x.workspaces.Get(workspace); ok {
			d = s.decide(u, r, b, conditional)
		}
	}
	if d.Allowed() || r.Scope != request.Namespace || r.Namespace == "" {
		return d
	}
	if s, ok := x.namespaces.Get(r.Namespace); ok {
		d = s.decide(u, r, b, conditional)
	}
	return d
}

func (s *subjects) decide(u user.Info, r *request.Info, b uint16, conditional *authz.Decision) authz.Decision {
	for l := range s.of(u) {
		if d := l.decide(u, r, b, conditional); d.Allowed() {
			return d
		}
	}
	return authz.Decision{}
}

// of yields the bindings of u, and those of each of u's groups.
func (s *subjects) of(u user.Info) iter.Seq[*link] {
	return func(yield func(*link) bool) {
		if l, ok := s.users.Get(u.GetName()); ok && !yield(l) {
			return
		}
		for _, group := range u.GetGroups() {
			if l, ok := s.groups.Get(group); ok && group != "" && !yield(l) {
				return
			}
		}
	}
}

// decide returns what a role without a condition allows. What the first role allows whose condition holds is set in conditional; no
// further condition is evaluated then.
func (l *link) decide(u user.Info, r *request.Info, b uint16, conditional *authz.Decision) authz.Decision {
	for l, c := range l.having(r, b) {
		switch {
		case c.condition == nil:
			return authz.Allow(l.why(), l.group)
		case !conditional.Allowed() && c.holds(u, r):
			*conditional = authz.Allow(l.why(), c.group)
		}
	}
	return authz.Decision{}
}

// having yields the bindings to roles that have a rule for r, whatever their conditions.
func (l *link) having(r *request.Info, b uint16) iter.Seq2[*link, *content] {
	return func(yield func(*link, *content) bool) {
		var last *role // a user with many bindings mostly has few roles
		for ; l != nil; l = l.next {
			if l.role == last {
				continue
			}
			last = l.role
			c := l.role.content.Load()
			if c == nil || c.workspace != "" && c.workspace != l.scopeName || !c.rules.allow(r, b) {
				continue
			}
			if !yield(l, c) {
				return
			}
		}
	}
}

func (c *content) holds(u user.Info, r *request.Info) bool {
	ok, err := holds(c.condition, c.groups.As(u, c.scope, r), r)
	if err != nil {
		c.failed.Do(func() {
			klog.ErrorS(err, "A role grants nothing to requests for which its condition fails", "kind", c.scope.RoleKind(), "role", c.name)
		})
	}
	return ok
}

// why returns the reason of a decision, as people read it.
func (b *bound) why() string {
	if s := b.reason.Load(); s != nil {
		return *s
	}
	name := b.key.name
	if b.key.namespace != "" {
		name = b.key.namespace + "/" + name
	}
	kind := b.key.scope.RoleKind()
	s := "allowed by " + kind + "Binding " + strconv.Quote(name) + " of " + kind + " " + strconv.Quote(b.roleKey.name) +
		" to " + b.subject.kind + " " + strconv.Quote(b.subject.name)
	b.reason.Store(&s)
	return s
}

// allow reports whether a rule matches r, whose verb has the bit b.
func (s *rules) allow(r *request.Info, b uint16) bool {
	if !r.IsResource {
		return s.allowPath(r, b)
	}
	if !s.verbs.has(r.Verb, b) {
		return false
	}
	return s.anyOf && s.allowGroup(r, rbacv1.APIGroupAll, b) || s.allowGroup(r, r.APIGroup, b)
}

func (s *rules) allowGroup(r *request.Info, group string, b uint16) bool {
	if s.anyKind && (s.allowTarget(r, target{group, rbacv1.ResourceAll, ""}, b) ||
		r.Subresource != "" && s.allowTarget(r, target{group, rbacv1.ResourceAll, r.Subresource}, b)) {
		return true
	}
	return s.allowTarget(r, target{group, r.Resource, r.Subresource}, b)
}

func (s *rules) allowTarget(r *request.Info, t target, b uint16) bool {
	grants := s.grants[t]
	for n := range grants {
		if g := &grants[n]; g.verbs.has(r.Verb, b) && g.covers(r.Name) {
			return true
		}
	}
	for n := range s.wide {
		if w := &s.wide[n]; w.has(t) && w.verbs.has(r.Verb, b) && w.covers(r.Name) {
			return true
		}
	}
	return false
}

func (s *rules) allowPath(r *request.Info, b uint16) bool {
	verb := r.Verb
	if verb == "head" { // its answer has less than that of get
		verb, b = "get", bit("get")
	}
	for n := range s.paths {
		g := &s.paths[n]
		if !g.verbs.has(verb, b) {
			continue
		}
		if g.path == r.Path || g.prefix && strings.HasPrefix(r.Path, g.path) {
			return true
		}
	}
	return false
}

func (v *verbs) has(verb string, b uint16) bool {
	if b != 0 {
		return v.mask&b != 0
	}
	return v.mask == everyVerb || slices.Contains(v.others, verb)
}

// bit returns the verb's own bit in a mask, or 0 for a verb that requests seldom have.
func bit(verb string) uint16 {
	if n := slices.Index(words[:], verb); n >= 0 {
		return 1 << n
	}
	return 0
}

func (w *wideGrant) has(t target) bool {
	return w.groups[t.group] && w.kinds[target{"", t.resource, t.subresource}]
}

// covers reports whether g is for the objects of a name; of any name, if it is empty.
func (g *grant) covers(name string) bool {
	return g.names == nil || name != "" && slices.Contains(g.names, name)
}
