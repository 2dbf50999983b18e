package fleetsync

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"

	"kapis.dev/ks-apiserver/pkg/cluster"
)

const invalid = `{"matchExpressions":[{"key":"zone","operator":"in","values":["b"]}]}`

// F26, F28: an object that can't be read any more is not one that was deleted: it stays in members as it was, what is of it too, and its
// deletion counts all the same.
func TestWhatCanNotBeReadIsNotGone(t *testing.T) {
	m1, m2 := &Target{Name: "m1"}, &Target{Name: "m2", Labels: map[string]string{"zone": "b"}}
	for name, x := range map[string]struct{ placement, labels string }{
		"InAPlacementByName": {`{"clusters":[{"name":"m1"}],"clusterSelector":` + invalid + `}`, ""},
		"BySelector":         {`{"clusterSelector":` + invalid + `}`, ""},
		"ByLabel":            {`{"clusterSelector":{"matchLabels":{"zone":"no value"}}}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFed(t)
			before, _, _ := s.all(m1)
			set(t, s, "workspacetemplates", "here", template("here", x.placement, ""))
			after, _, _ := s.all(m1)
			if got, want := names(after.Objects), names(before.Objects); !slices.Equal(got, want) || len(ended(s)) > 0 {
				t.Errorf("it is\n%q, want\n%q, and %v ended", got, want, ended(s))
			}
			if got := gone(s, m2); got != nil {
				t.Errorf("%q are to go", got)
			}
			set(t, s, "workspacetemplates", "here", template("here", `{"clusters":[{"name":"m2"}]}`, "")) // repaired
			if after, _, _ = s.all(m1); after.Objects["workspaces"]["here"] != "" {
				t.Error("what is read again does not count")
			}
			set(t, s, "workspacetemplates", "here", template("here", x.placement,
				`,"deletionTimestamp":"2026-01-01T00:00:00Z","annotations":{"kubesphere.io/deletion-propagation":"Foreground"}`))
			if got := ended(s); len(got) != 1 || got[0].Name != "here" || got[0].Propagation != "Foreground" {
				t.Errorf("its deletion is %v", got)
			}
		})
	}
	for _, broken := range []string{"globalroles/custom", "globalrolebindings/ann", "workspacerolebindings/here-bob", "users/ann"} {
		s := newFed(t)
		before, _, at := s.all(m1)
		kind, name, _ := strings.Cut(broken, "/")
		set(t, s, kind, name, `{"metadata":7}`)
		after, held, _ := s.all(m1)
		if !slices.Equal(names(after.Objects), names(before.Objects)) || !held[Ref{kind, name}] || len(after.Gone) > 0 {
			t.Errorf("%s: it is %q, held %v, gone %v", broken, names(after.Objects), held, after.Gone)
		}
		if refs, _, _, known := s.since(at, m1); len(refs) > 0 || !known {
			t.Errorf("%s: %v are told", broken, refs)
		}
	}
}

// F26: a hub that has never read a workspace, since it was started, leaves it where it is, with what is of it, and brings it nowhere.
func TestWhatWasNeverReadStaysWhereItIs(t *testing.T) {
	s := NewSource(nil)
	_, _, at := s.all(&Target{Name: "m1"})
	for _, name := range []string{"boss", "bob", "idle"} {
		set(t, s, "users", name, fmt.Sprintf(meta, name, name, "", ""))
	}
	of := `,"labels":{"kubesphere.io/workspace":"w"}`
	set(t, s, "workspacerolebindings", "w-idle", binding("w-idle", "idle", of))
	set(t, s, "workspacetemplates", "w", template("w", `{"clusterSelector":`+invalid+`}`, ""))
	set(t, s, "workspacerolebindings", "w-bob", binding("w-bob", "bob", of))
	drop(s, "workspacerolebindings", "w-idle")
	for _, m := range []*Target{{Name: "m1"}, {Name: "m2", Labels: map[string]string{"zone": "b"}}} {
		d, held, _ := s.all(m)
		if got := strings.Join(names(d.Objects), " "); got != "workspaces/w users/bob users/boss workspacerolebindings/w-bob" || len(held) != 4 {
			t.Errorf("%s keeps %s, of which %v are held", m.Name, got, held)
		}
		sent, unread := sendable(refsOf(d.Objects), held)
		if len(sent) > 0 || len(unread) != 1 || unread[0].Kind != "workspaces" || !strings.HasPrefix(unread[0].Reason, "Unreadable: ") {
			t.Errorf("%s is sent %v, and %v are pending", m.Name, sent, unread)
		}
		if refs, there, _, _ := s.since(at, m); len(refs) != 1 || refs[0].Name != "w-idle" || there[refs[0]] {
			t.Errorf("%s is told %v", m.Name, refs)
		}
	}
	set(t, s, "workspacetemplates", "w", template("w", `{"clusters":[{"name":"m1"}]}`, ""))
	d, held, _ := s.all(&Target{Name: "m1"})
	if sent, unread := sendable(refsOf(d.Objects), held); len(sent) != 4 || len(unread) > 0 {
		t.Errorf("once it is read %v are sent, %v", sent, unread)
	}
	set(t, s, "workspacetemplates", "w", template("w", "{}", `,"deletionTimestamp":"2026-01-01T00:00:00Z"`))
	set(t, s, "workspacetemplates", "w", template("w", `{"clusterSelector":`+invalid+`}`, "")) // another one of the name
	if d, _, _ = s.all(&Target{Name: "m1"}); len(d.Objects["workspaces"]) > 0 || !slices.Contains(gone(s, &Target{Name: "m1"}), "workspaces/w") {
		t.Errorf("the former one stays: %v, %v", d.Objects, d.Gone)
	}
}

// F25, F26: what left a member while it was away is told as that, with what is of it and the users whom nothing there names any more.
func TestWhatLeftAMemberGoes(t *testing.T) {
	m1, m2, m3 := &Target{Name: "m1"}, &Target{Name: "m2", Labels: map[string]string{"zone": "b"}}, &Target{Name: "m3"}
	of := func(workspace string) []string { // in order
		return []string{"users/bob", "users/boss", "workspacerolebindings/" + workspace + "-bob", "workspaceroles/" + workspace + "-extra",
			"workspaces/" + workspace}
	}
	for name, x := range map[string]struct {
		change func(*Source)
		from   *Target
		want   []string
	}{
		"ByName": {func(s *Source) {
			set(t, s, "workspacetemplates", "here", template("here", `{"clusters":[{"name":"m3"}]}`, ""))
		}, m1, of("here")},
		"BySelector": {func(s *Source) {
			set(t, s, "workspacetemplates", "there", template("there", `{"clusterSelector":{"matchLabels":{"zone":"c"}}}`, ""))
		}, m2, of("there")},
		"ByTheLabelsOfTheCluster": {func(s *Source) { s.SetMember("m2", map[string]string{"zone": "c"}) },
			&Target{Name: "m2", Labels: map[string]string{"zone": "c"}}, of("there")},
		"ByLabelsThatAreNotToldYet": {func(*Source) {}, &Target{Name: "m2", Labels: map[string]string{"zone": "c"}}, of("there")},
		"WithARoleThatMoves": {func(s *Source) {
			set(t, s, "workspaceroles", "here-extra", fmt.Sprintf(meta, "here", "here", `,"labels":{"kubesphere.io/workspace":"there"}`, `,"rules":[]`))
		}, m1, []string{"workspaceroles/here-extra"}},
		"WithABindingThatEnds": {func(s *Source) { drop(s, "globalrolebindings", "ann") }, m1, []string{"globalrolebindings/ann", "users/ann"}},
		"WithABindingThatNamesAnother": {func(s *Source) { set(t, s, "globalrolebindings", "ann", binding("ann", "bob", "")) }, m1,
			[]string{"users/ann"}},
		"BeforeItsRolesEnd": {func(s *Source) { drop(s, "workspacetemplates", "here") }, m1, of("here")},
		"MadeAgainElsewhere": {func(s *Source) {
			drop(s, "workspacetemplates", "here")
			set(t, s, "workspacetemplates", "here", template("here", `{"clusters":[{"name":"m3"}]}`, ""))
		}, m1, of("here")},
		"AndComesBack": {func(s *Source) {
			for _, to := range []string{"m3", "m1"} {
				set(t, s, "workspacetemplates", "here", template("here", `{"clusters":[{"name":"`+to+`"}]}`, ""))
			}
		}, m1, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFed(t)
			for _, m := range []*Target{m1, m2, m3} {
				s.SetMember(m.Name, m.Labels)
			}
			for _, m := range []*Target{m1, m2, m3} {
				if got := gone(s, m); got != nil {
					t.Errorf("before that %q are to go", got)
				}
			}
			x.change(s)
			if got := gone(s, x.from); !slices.Equal(got, x.want) {
				t.Errorf("%q are to go, want\n%q", got, x.want)
			}
		})
	}
	s := newFed(t) // as a hub is that has just been started: it can't tell what left before from what it has lost
	s.SetMember("m1", nil)
	if got := gone(s, m1); got != nil {
		t.Errorf("%q are to go", got)
	}
	s.SetMember("m9", nil)
	s.ForgetMember("m9")
	set(t, s, "workspacetemplates", "here", template("here", `{"clusters":[{"name":"m9"}]}`, ""))
	set(t, s, "workspacetemplates", "here", template("here", `{"clusters":[{"name":"m3"}]}`, ""))
	if s.withdrawn.left.Has(departure{"m9", Ref{"workspaces", "here"}}) || s.withdrawn.left.Len() != 1 {
		t.Errorf("of a cluster that is no member it is known: %v", maps.Collect(s.withdrawn.left.All()))
	}
}

// F25, F26: a member that comes back deletes what left it meanwhile, however much that is; what its hub merely lacks is held by the brake.
func TestTheBrakeHoldsNothingThatLeft(t *testing.T) {
	lists, groups := map[schema.GroupVersionResource]string{}, map[string]string{}
	for _, k := range kinds {
		lists[k], groups[k.Resource] = "List", k.GroupVersion().String()
	}
	m := &Member{Objects: dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists)}
	count := func() (n int) {
		t.Helper()
		for _, k := range kinds {
			have, err := m.list(t.Context(), k, "u-hub")
			if err != nil {
				t.Fatal(err)
			}
			n += len(have)
		}
		return n
	}
	s := NewSource(nil)
	s.SetMember("m1", nil)
	s.SetMember("m2", nil)
	to := func(i int, where string) {
		name := fmt.Sprint("w", i)
		set(t, s, "workspacetemplates", name, template(name, `{"clusters":[{"name":"`+where+`"}]}`, ""))
		set(t, s, "workspacerolebindings", name, binding(name, "user-"+name, `,"labels":{"kubesphere.io/workspace":"`+name+`"}`))
		set(t, s, "users", "user-"+name, fmt.Sprintf(meta, "user-"+name, name, "", ""))
	}
	for i := range 30 {
		to(i, "m1")
	}
	compare := func(s *Source) []cluster.Pending {
		t.Helper()
		d, _, _ := s.all(&Target{Name: "m1"})
		d.Hub = "u-hub"
		out, err := m.compare(t.Context(), d)
		if err != nil {
			t.Fatal(err)
		}
		return out.Pending
	}
	all, _, _ := s.all(&Target{Name: "m1"})
	in := &Changes{Hub: "u-hub"}
	for _, r := range refsOf(all.Objects) {
		in.Changes = append(in.Changes, Change{Ref: r, Hash: all.Objects[r.Kind][r.Name], Object: sent(groups[r.Kind], r)})
	}
	if out, err := m.apply(t.Context(), in); err != nil || len(out.Pending) > 0 {
		t.Fatal(out, err)
	}
	if pending := compare(NewSource(nil)); len(pending) != 90 || count() != 90 {
		t.Fatalf("of a hub that has nothing %d are pending, and %d there", len(pending), count())
	}
	for i := range 25 {
		to(i, "m2")
	}
	if pending := compare(s); len(pending) > 0 || count() != 15 {
		t.Errorf("%d are pending, and %d there: %v", len(pending), count(), pending)
	}
}

// sent returns an object as a hub sends it. A binding gives a role that every installation has; one in a workspace is in that of its own name.
func sent(apiVersion string, r Ref) []byte {
	role := "platform-regular"
	if r.Kind == "workspacerolebindings" {
		role = r.Name + "-viewer"
	}
	return fmt.Appendf(nil, `{"apiVersion":%q,"kind":"X","metadata":{"name":%q,"labels":{"kubesphere.io/workspace":%q}},"roleRef":{"name":%q}}`,
		apiVersion, r.Name, r.Name, role)
}
