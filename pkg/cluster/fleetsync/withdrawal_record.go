package fleetsync

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"kapis.dev/ks-apiserver/pkg/recent"
)

// leftRemembered is how many of the departures from members are remembered at least, of all members together, and half of how many at most.
const leftRemembered = 1 << 15

// withdrawals is what this server saw, since it was started, of what is to go in members. What they have beyond it, and are not to have,
// may have been lost here, and is held by the brake.
type withdrawals struct {
	// gone is what ended here, and what then becomes of a workspace's namespaces.
	gone *recent.Map[Ref, string]
	// members are the labels of members, by name, and left is what is not to be in one of them any more, and is still here.
	members map[string]labels.Set
	left    *recent.Map[departure, struct{}]
	// unnamed are the users whom something named, and does not any more: they may be named by nothing else in a member.
	unnamed *recent.Map[string, struct{}]
}

// departure is that of an object from a member.
type departure struct {
	member string
	Ref
}

func newWithdrawals() withdrawals {
	return withdrawals{gone: recent.NewMap[Ref, string](2 * remembered), members: map[string]labels.Set{},
		left: recent.NewMap[departure, struct{}](2 * leftRemembered), unnamed: recent.NewMap[string, struct{}](2 * remembered)}
}

// SetMember says what the labels of a member are: what was there by its former ones has left.
func (s *Source) SetMember(name string, has map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.withdrawn.members[name]; !known {
		s.withdrawn.members[name] = has
	}
	s.relabel(name, has)
}

// ForgetMember says that a cluster is no member any more.
func (s *Source) ForgetMember(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.withdrawn.members, name)
}

// relabel gives a member that is known other labels.
func (s *Source) relabel(name string, has labels.Set) {
	was, known := s.withdrawn.members[name]
	if !known || maps.Equal(was, has) {
		return
	}
	s.withdrawn.members[name] = has
	for workspace, e := range s.objects["workspaces"] {
		if e.placed != nil && e.placed.has(name, was) && !e.placed.has(name, has) {
			s.withdrawn.left.Set(departure{name, Ref{"workspaces", workspace}}, struct{}{})
		}
	}
}

// leaves records which members an object leaves as it becomes the next, old being nil where there was none. What is of a workspace leaves
// with it. One that ended, and was made again before a member was told, may be there as it was.
func (s *Source) leaves(r Ref, old, next *entry) {
	ended := s.withdrawn.gone.Has(r)
	if r.Kind == "users" || old == nil && !ended {
		return
	}
	for name, has := range s.withdrawn.members {
		t := &Target{Name: name, Labels: has}
		was := ended
		if old != nil {
			is, known := s.in(t, old)
			was = is && known
		}
		if is, _ := s.in(t, next); was && !is {
			s.withdrawn.left.Set(departure{name, r}, struct{}{})
		}
	}
}

// unname records whom an object names no more.
func (s *Source) unname(old, next *entry) {
	if old == nil {
		return
	}
	for _, name := range old.subjects {
		if next == nil || !slices.Contains(next.subjects, name) {
			s.withdrawn.unnamed.Set(name, struct{}{})
		}
	}
}

// goneIn returns what is to go in a member, where it has it, however much it is. Named are the users who are to be there.
func (s *Source) goneIn(t *Target, named map[string]bool) (out []Change) {
	w, users := &s.withdrawn, map[string]bool{}
	for r, end := range w.gone.All() {
		out = append(out, Change{Ref: r, Propagation: end})
	}
	for name := range w.unnamed.All() {
		users[name] = true
	}
	for _, k := range kinds {
		for name, e := range s.objects[k.Resource] {
			r, of := Ref{k.Resource, name}, Ref{"workspaces", e.workspace}
			if is, _ := s.in(t, e); is || !w.left.Has(departure{t.Name, r}) && !w.left.Has(departure{t.Name, of}) && !w.gone.Has(of) {
				continue
			}
			out = append(out, Change{Ref: r})
			for _, subject := range e.subjects {
				users[subject] = true
			}
		}
	}
	for name := range users {
		if _, is := named[name]; !is {
			out = append(out, Change{Ref: Ref{"users", name}})
		}
	}
	return out
}
