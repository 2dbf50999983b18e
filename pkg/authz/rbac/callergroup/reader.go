// Package callergroup shows conditions and policies of roles the groups of a caller that they may go by.
package callergroup

import (
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/request"
)

// In returns the groups of a caller that roles of a workspace may name, or, for "", all other roles.
type In func(workspace string, u user.Info) []string

// Groups says which groups conditions and policies read. The zero value has them read all.
type Groups struct {
	in          In
	workspaceOf func(namespace string) string
}

// New returns Groups; workspaceOf returns the workspace that a namespace is in, or "" for none.
func New(in In, workspaceOf func(namespace string) string) Groups { return Groups{in, workspaceOf} }

// OfPlatform returns what roles of no workspace read: with the Groups as they are now, that decides what all others read.
func (g *Groups) OfPlatform(u user.Info) []string {
	if g.in == nil {
		return nil
	}
	return g.in("", u)
}

// As returns u as the condition and the policy of a role of a scope read it for r.
func (g *Groups) As(u user.Info, role request.Scope, r *request.Info) user.Info {
	if groups := u.GetGroups(); g.in == nil || len(groups) == 0 || len(groups) == 1 && groups[0] == user.AllAuthenticated {
		return u
	}
	who := &reader{Info: u, groups: g}
	if role == request.Workspace || role == request.Namespace {
		switch r.Scope {
		case request.Workspace:
			who.workspace = r.Workspace
		case request.Namespace:
			who.workspace = g.workspaceOf(r.Namespace)
		}
	}
	return who
}

// reader finds the groups when they are asked for: most conditions read none.
type reader struct {
	user.Info
	groups    *Groups
	workspace string
}

// GetGroups implements user.Info.
func (c *reader) GetGroups() []string { return c.groups.in(c.workspace, c.Info) }
