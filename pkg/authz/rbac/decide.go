package rbac

import (
	"context"
	"strconv"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/request"
)

// Authorize allows r where a role that is bound to u, or to a group of u, has a rule for it: a role
// of the platform for any request, a role of a workspace for what is in it and in its namespaces, a
// role of a namespace for what is in it, and a role of the cluster for all that is not the
// platform's own. There is no error: what can't be told is not allowed.
func (x *Index) Authorize(_ context.Context, u user.Info, r *request.Info) (authz.Decision, error) {
	if !isComplete(u, r) {
		return authz.Decision{Reason: "the request lacks a user, or what it asks for"}, nil
	}
	b := bit(r.Verb)
	d := x.global.decide(u, r, b)
	if d.Allowed || r.Scope == request.Global {
		return d, nil
	}
	if d = x.decideBelow(u, r, b); d.Allowed {
		return d, nil
	}
	return x.cluster.decide(u, r, b), nil
}

// isComplete keeps empty values from matching one another (S10).
func isComplete(u user.Info, r *request.Info) bool {
	if u == nil || r == nil || r.Verb == "" || u.GetName() == "" {
		return false
	}
	if r.IsResource {
		return r.Resource != ""
	}
	return r.Path != ""
}

// decideBelow asks the workspace and the namespace of r.
func (x *Index) decideBelow(u user.Info, r *request.Info, b uint16) (d authz.Decision) {
	var workspace string
	switch r.Scope {
	case request.Workspace:
		workspace = r.Workspace
	case request.Namespace:
		workspace, _ = x.workspaceOf.get(r.Namespace)
	default:
		return d
	}
	if workspace != "" {
		if s, ok := x.workspaces.get(workspace); ok {
			d = s.decide(u, r, b)
		}
	}
	if d.Allowed || r.Scope != request.Namespace || r.Namespace == "" {
		return d
	}
	if s, ok := x.namespaces.get(r.Namespace); ok {
		d = s.decide(u, r, b)
	}
	return d
}

func (s *subjects) decide(u user.Info, r *request.Info, b uint16) authz.Decision {
	if l, ok := s.users.get(u.GetName()); ok {
		if d := l.decide(u, r, b); d.Allowed {
			return d
		}
	}
	for _, group := range u.GetGroups() {
		if l, ok := s.groups.get(group); ok && group != "" {
			if d := l.decide(u, r, b); d.Allowed {
				return d
			}
		}
	}
	return authz.Decision{}
}

func (l *link) decide(u user.Info, r *request.Info, b uint16) authz.Decision {
	var last *role // of people with many bindings, most are of few roles
	for ; l != nil; l = l.next {
		if l.role == last {
			continue
		}
		last = l.role
		c := l.role.content.Load()
		if c == nil || c.workspace != "" && c.workspace != l.place || !c.rules.allow(r, b) {
			continue
		}
		group := l.group
		if c.condition != nil {
			if !c.holds(u, r) {
				continue
			}
			group = c.group
		}
		return authz.Decision{Allowed: true, Reason: l.why(), Group: group}
	}
	return authz.Decision{}
}

func (c *content) holds(u user.Info, r *request.Info) bool {
	ok, err := holds(c.condition, u, r)
	if err != nil {
		c.failed.Do(func() {
			klog.ErrorS(err, "A role grants nothing to requests for which its condition fails", "kind", roleKind(c.scope), "role", c.name)
		})
	}
	return ok
}

// why is the reason of a decision, as people read it.
func (b *bound) why() string {
	if s := b.reason.Load(); s != nil {
		return *s
	}
	name := b.key.name
	if b.key.namespace != "" {
		name = b.key.namespace + "/" + name
	}
	kind := roleKind(b.key.scope)
	s := "allowed by " + kind + "Binding " + strconv.Quote(name) + " of " + kind + " " + strconv.Quote(b.roleKey.name) +
		" to " + b.subject.kind + " " + strconv.Quote(b.subject.name)
	b.reason.Store(&s)
	return s
}

// Namespaces tells in which namespaces u may do verb on gr: in all of them, where a role of the
// platform or of the cluster says so, or else in those whose names it returns, in no order. It is
// worked out in memory, at the cost of one decision for each namespace.
func (x *Index) Namespaces(u user.Info, verb string, gr schema.GroupResource) (all bool, names []string) {
	r := &request.Info{Verb: verb, APIGroup: gr.Group, Resource: gr.Resource, IsResource: true, Scope: request.Namespace}
	if !isComplete(u, r) {
		return false, nil
	}
	b := bit(verb)
	if x.global.decide(u, r, b).Allowed || x.cluster.decide(u, r, b).Allowed {
		return true, nil
	}
	ask := func(name string) {
		r.Namespace = name
		if x.decideBelow(u, r, b).Allowed {
			names = append(names, name)
		}
	}
	x.workspaceOf.all(func(name, _ string) bool {
		ask(name)
		return true
	})
	x.namespaces.all(func(name string, _ *subjects) bool { // those that are in no workspace
		if _, in := x.workspaceOf.get(name); !in {
			ask(name)
		}
		return true
	})
	return false, names
}
