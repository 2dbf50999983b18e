package record

import (
	"strings"
	"testing"
	"time"

	ri "helm.sh/helm/v4/pkg/release"
	rcommon "helm.sh/helm/v4/pkg/release/common"
	release "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage"
	"helm.sh/helm/v4/pkg/storage/driver"
)

func revision(version int, status rcommon.Status, manifest string) *release.Release {
	return &release.Release{Name: "cache", Namespace: "web", Version: version, Manifest: manifest, Info: &release.Info{Status: status}}
}

// X33: what records were when an operation began is what they are to its end.
func TestX33RecordsStayWhatTheyWereWhileAnOperationRuns(t *testing.T) {
	for name, change := range map[string]func(s *storage.Storage) error{
		"another manifest": func(s *storage.Storage) error { return s.Update(revision(1, rcommon.StatusSuperseded, "forged")) },
		"another status":   func(s *storage.Storage) error { return s.Update(revision(1, rcommon.StatusDeployed, "one")) },
		"another hook": func(s *storage.Storage) error {
			r := revision(1, rcommon.StatusSuperseded, "one")
			r.Hooks = []*release.Hook{{Name: "a", Manifest: "forged", Events: []release.HookEvent{release.HookPreRollback}}}
			return s.Update(r)
		},
		"a revision more": func(s *storage.Storage) error { return s.Create(revision(9, rcommon.StatusDeployed, "forged")) },
		"a revision less": func(s *storage.Storage) error {
			_, err := s.Delete("cache", 2)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			memory := driver.NewMemory()
			memory.SetNamespace("web")
			others := storage.Init(memory)
			for _, r := range []*release.Release{revision(1, rcommon.StatusSuperseded, "one"), revision(2, rcommon.StatusDeployed, "two")} {
				if err := others.Create(r); err != nil {
					t.Fatal(err)
				}
			}
			own := storage.Init(&Pinned{Driver: memory, Release: "cache", Namespace: "web"})
			if all, err := own.History("cache"); err != nil || len(all) != 2 {
				t.Fatal(all, err)
			}
			// What the operation writes itself is what it is from then on.
			if err := own.Create(revision(3, rcommon.StatusPendingUpgrade, "three")); err != nil {
				t.Fatal(err)
			}
			if err := own.Update(revision(3, rcommon.StatusFailed, "three")); err != nil {
				t.Fatal(err)
			}
			if r, err := own.Deployed("cache"); err != nil || r.(*release.Release).Version != 2 {
				t.Fatal(r, err)
			}
			if r, err := own.Get("cache", 1); err != nil || r.(*release.Release).Manifest != "one" {
				t.Fatal(r, err)
			}
			if err := change(others); err != nil {
				t.Fatal(err)
			}
			for what, read := range map[string]func() (any, error){
				"history":  func() (any, error) { return own.History("cache") },
				"deployed": func() (any, error) { return own.Deployed("cache") },
				"last":     func() (any, error) { return own.Last("cache") },
				"get":      func() (any, error) { return own.Get("cache", 3) },
			} {
				if got, err := read(); err == nil || !strings.Contains(err.Error(), "changed by somebody else") {
					t.Errorf("%s: %v %v", what, got, err)
				}
			}
		})
	}
}

// X33: the SDK takes a release's name and namespace from its record to tell whose objects are.
func TestX33ARecordNamesItsOwnRelease(t *testing.T) {
	for name, r := range map[string]*release.Release{
		"another release":   {Name: "victim", Namespace: "web"},
		"another namespace": {Name: "cache", Namespace: "victim"},
	} {
		r.Info, r.Version = &release.Info{Status: rcommon.StatusDeployed}, 1
		if _, err := storage.Init(&Pinned{Driver: fixedDriver{record: r}, Release: "cache", Namespace: "web"}).History("cache"); err == nil {
			t.Errorf("%s: a record of it is read", name)
		}
	}
}

// fixedDriver has one record, whatever is asked for.
type fixedDriver struct {
	driver.Driver
	record *release.Release
}

func (d fixedDriver) Query(map[string]string) ([]ri.Releaser, error) {
	return []ri.Releaser{d.record}, nil
}

// X33: two revisions have one digest only if they do the same.
func TestX33TheDigestOfARecordIsOfWhatItDoes(t *testing.T) {
	hook := func(change func(*release.Hook)) *release.Release {
		r := revision(1, rcommon.StatusDeployed, "one")
		r.Hooks = []*release.Hook{{Name: "a", Kind: "Job", Manifest: "m", Events: []release.HookEvent{release.HookPreDelete}}}
		change(r.Hooks[0])
		return r
	}
	base := hook(func(*release.Hook) {})
	for name, other := range map[string]*release.Release{
		"no hook": revision(1, rcommon.StatusDeployed, "one"), "another revision": {Version: 2, Manifest: "one", Hooks: base.Hooks},
		"another manifest":      {Version: 1, Manifest: "two", Hooks: base.Hooks},
		"what a hook makes":     hook(func(h *release.Hook) { h.Manifest = "n" }),
		"when it is run":        hook(func(h *release.Hook) { h.Events = []release.HookEvent{release.HookPostDelete} }),
		"when it is deleted":    hook(func(h *release.Hook) { h.DeletePolicies = []release.HookDeletePolicy{release.HookSucceeded} }),
		"the order":             hook(func(h *release.Hook) { h.Weight = 1 }),
		"text that runs across": {Version: 1, Manifest: `one",[{"name":"a"`},
	} {
		if Digest(other) == Digest(base) {
			t.Errorf("%s: the digest is the same", name)
		}
	}
	if ran := hook(func(h *release.Hook) { h.LastRun.StartedAt = time.Now() }); Digest(ran) != Digest(base) {
		t.Error("a hook that was run has another digest")
	}
}

// X33: an operation works from a revision that has been deployed.
func TestX33AnOperationWorksFromWhatWasDeployed(t *testing.T) {
	one, two := revision(1, rcommon.StatusDeployed, "one"), revision(2, rcommon.StatusFailed, "two")
	if v := View([]*release.Release{one, two}); v.RecordDigest != Digest(two) || v.BaseDigest != Digest(one) || !v.BaseDeployed {
		t.Errorf("%+v", v)
	}
	if v := View([]*release.Release{two}); v.BaseDigest != "" || v.BaseDeployed {
		t.Errorf("%+v", v)
	}
	two.Info.Status = rcommon.StatusUninstalling
	if v := View([]*release.Release{one, two}); v.BaseDigest != Digest(two) || v.BaseDeployed {
		t.Errorf("%+v", v)
	}
}
