package rbac

import (
	"context"
	"slices"
	"strconv"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/request"
)

// Explain returns every binding of u, and of u's groups, at the scopes of r (see Meets): first the one that decides, whose Why is the
// reason of Authorize's decision; then the others, in the order in which they are asked.
func (x *Index) Explain(u user.Info, r *request.Info) []authz.Grant {
	if !isComplete(u, r) {
		return nil
	}
	var out []authz.Grant
	var links []*link
	b, first := bit(r.Verb), -1
	for _, place := range x.Meets(r) {
		s := x.at(place)
		if s == nil {
			continue
		}
		for l := range s.of(u) {
			for ; l != nil; l = l.next {
				out, links = append(out, l.explain(place, u, r, b)), append(links, l)
				if g := &out[len(out)-1]; g.Held && (first < 0 || g.Condition == "" && out[first].Condition != "") {
					first = len(out) - 1
				}
			}
		}
	}
	if first < 0 {
		if l, _ := x.policyLink(context.Background(), u, r); l != nil {
			first = slices.Index(links, l)
		}
		if first >= 0 { // else the binding was added in between
			out[first].Held, out[first].Rule, out[first].Why = true, nil, links[first].whyByPolicy()
		}
	}
	if first > 0 {
		decides := out[first]
		out = slices.Insert(slices.Delete(out, first, first+1), 0, decides)
	}
	return out
}

// explain returns what a binding grants u of r, and why.
func (l *link) explain(place authz.BindingScope, u user.Info, r *request.Info, b uint16) authz.Grant {
	g := l.grant(place)
	c := l.role.content.Load()
	if c != nil {
		g.Condition = c.expression
	}
	role := "the role " + strconv.Quote(l.roleKey.name)
	switch {
	case c == nil:
		g.Why = role + " does not exist, or can't be read"
		return g
	case c.workspace != "" && c.workspace != l.scopeName:
		g.Why = role + " is one of the workspace " + strconv.Quote(c.workspace)
		return g
	}
	if g.Rule = c.rules.match(r, b); g.Rule == nil {
		g.Why = role + " has no rule for " + r.Asked()
		return g
	}
	if c.condition != nil && !c.holds(u, r) {
		g.Why = "the condition of " + role + " does not hold for this request"
		return g
	}
	g.Held, g.Why = true, l.why()
	return g
}

// grant returns the binding as a Grant that does not say yet what it grants.
func (l *link) grant(place authz.BindingScope) authz.Grant {
	return authz.Grant{
		Scope: place, Binding: l.key.name, Subject: l.subject.reference(),
		Role: authz.RoleRef{Scope: l.roleKey.scope, Namespace: l.roleKey.namespace, Name: l.roleKey.name},
	}
}

// reference returns a subject in the form that bindings have.
func (s subject) reference() rbacv1.Subject {
	out := rbacv1.Subject{Kind: s.kind, APIGroup: rbacv1.GroupName, Name: s.name}
	if s.kind != rbacv1.ServiceAccountKind {
		return out
	}
	rest, native := strings.CutPrefix(s.name, nativeAccountPrefix)
	out.APIGroup = ""
	if !native {
		rest, out.APIGroup = strings.TrimPrefix(s.name, v1beta1.ServiceAccountUserPrefix), kubesphereGroup
	}
	out.Namespace, out.Name, _ = strings.Cut(rest, ":")
	return out
}
