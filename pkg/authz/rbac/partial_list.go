package rbac

import (
	"iter"

	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/request"
)

// partialList returns the partial list of r: the namespaces and the workspaces in which the same list is allowed. It is computed from the
// index, and cached until the next change of the index.
func (x *Index) partialList(u user.Info, r *request.Info, b uint16) *authz.PartialList {
	key := newPartialKey(u, r, x.groups.OfPlatform(u)...)
	changes := x.changes.Load()
	p, ok := x.parts.get(key, changes)
	if !ok {
		s := search{index: x, user: u, request: r, bit: b}
		p = authz.NewPartialList(s.run())
		x.parts.put(key, changes, p)
	}
	return p
}

// search finds the workspaces and namespaces in which a user may do what a request asks for in the whole cluster, by the bindings of the
// user and of the user's groups. What the rules of a role allow doesn't depend on the scope, so a scope is evaluated by itself only where
// a condition may make a difference: with the request as it would be made for that scope.
type search struct {
	index   *Index
	user    user.Info
	request *request.Info
	bit     uint16

	namespaces, workspaces []string // may have duplicates

	there request.Info // the request for the scope that is evaluated
}

func (s *search) run() (namespaces, workspaces []string) {
	s.ofWorkspaces()
	s.ofNamespaces()
	s.ofEverywhere()
	return s.namespaces, s.workspaces
}

// ofWorkspaces finds what bindings in workspaces grant: there, and in the namespaces of each.
func (s *search) ofWorkspaces() {
	whole, perhaps := map[string]bool{}, map[string][]*link{}
	for p := range s.scopes() {
		for name, l := range p.workspaces.All {
			surely, maybe := s.grades(l)
			if maybe {
				perhaps[name] = append(perhaps[name], l)
			}
			if surely {
				whole[name] = true
			}
			if surely || maybe && s.inWorkspace(name, l) {
				s.workspaces = append(s.workspaces, name)
			}
		}
	}
	if len(whole) == 0 && len(perhaps) == 0 {
		return
	}
	for name, workspace := range s.index.workspaceOf.All {
		if whole[workspace] || s.inNamespace(name, perhaps[workspace]...) {
			s.namespaces = append(s.namespaces, name)
		}
	}
}

// ofNamespaces finds what bindings in namespaces grant.
func (s *search) ofNamespaces() {
	for p := range s.scopes() {
		for name, l := range p.namespaces.All {
			if surely, maybe := s.grades(l); surely || maybe && s.inNamespace(name, l) {
				s.namespaces = append(s.namespaces, name)
			}
		}
	}
}

// ofEverywhere finds what bindings of the platform and of the cluster grant. Without a condition they would have granted all; with one,
// they may grant any known workspace or namespace.
func (s *search) ofEverywhere() {
	var perhaps []*link
	for _, at := range [...]*subjects{&s.index.global, &s.index.cluster} {
		for l := range at.of(s.user) {
			if _, maybe := s.grades(l); maybe {
				perhaps = append(perhaps, l)
			}
		}
	}
	if len(perhaps) == 0 {
		return
	}
	workspaces := map[string]bool{}
	for name := range s.index.workspaces.All {
		workspaces[name] = true
	}
	for name, workspace := range s.index.workspaceOf.All {
		workspaces[workspace] = true
		if s.inNamespace(name, perhaps...) {
			s.namespaces = append(s.namespaces, name)
		}
	}
	delete(workspaces, "")
	for name := range workspaces {
		if s.inWorkspace(name, perhaps...) {
			s.workspaces = append(s.workspaces, name)
		}
	}
}

// grades reports whether one of the bindings grants the request at any scope, and whether one may do so by a condition.
func (s *search) grades(l *link) (surely, maybe bool) {
	for _, c := range l.having(s.request, s.bit) {
		if c.condition == nil {
			return true, false
		}
		maybe = true
	}
	return false, maybe
}

func (s *search) inNamespace(name string, links ...*link) bool {
	if len(links) == 0 {
		return false
	}
	s.there = s.request.InNamespace(name)
	return s.granted(links)
}

func (s *search) inWorkspace(name string, links ...*link) bool {
	s.there = s.request.InWorkspace(name)
	return s.granted(links)
}

// granted reports whether one of the bindings grants the request for the scope that is evaluated.
func (s *search) granted(links []*link) bool {
	for _, l := range links {
		for _, c := range l.having(&s.there, s.bit) {
			if c.condition == nil || c.holds(s.user, &s.there) {
				return true
			}
		}
	}
	return false
}

// scopes yields where the user, and each of the user's groups, is bound.
func (s *search) scopes() iter.Seq[*subjectScopes] {
	return func(yield func(*subjectScopes) bool) {
		if p, ok := s.index.scopesOfUsers.Get(s.user.GetName()); ok && !yield(p) {
			return
		}
		for _, group := range s.user.GetGroups() {
			if p, ok := s.index.scopesOfGroups.Get(group); ok && group != "" && !yield(p) {
				return
			}
		}
	}
}
