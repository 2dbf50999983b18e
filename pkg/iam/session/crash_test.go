package session

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/api/session/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/iamtest"
)

// person is a client that keeps its last refresh token, and tries another replica when one fails.
type person struct {
	name, refresh string
	session       *Session
}

// fleet has three replicas, each of which may stop in the middle of a write, or see it fail.
type fleet struct {
	t    *testing.T
	a    *api
	r    []*replica
	rand *rand.Rand
	// killed is set by a write during which its replica stopped.
	killed bool
}

var errCrash = errors.New("killed")

func newFleet(t *testing.T, seed uint64) *fleet {
	a, r := newReplicas(t, 3, nil)
	f := &fleet{t: t, a: a, r: r, rand: rand.New(rand.NewPCG(seed, 1))}
	for _, name := range []string{"alice", "bob", "carol"} {
		tellUsers(iamtest.User(name), r...)
	}
	a.inject = func(string) (before, after error) {
		switch f.rand.IntN(10) {
		case 0:
			f.killed = true
			return errCrash, nil
		case 1:
			f.killed = true
			return nil, errCrash
		case 2:
			return errCrash, nil
		case 3:
			return nil, errCrash
		}
		return nil, nil
	}
	return f
}

// try runs do on one replica, replaces that replica if it stopped, and reports whether it answered.
func (f *fleet) try(do func(r *replica) error) (answered bool, err error) {
	i := f.rand.IntN(len(f.r))
	f.killed = false
	err = do(f.r[i])
	if f.killed {
		now := f.r[i].clock.Now()
		f.r[i] = restart(f.t, f.a, i)
		f.r[i].clock.SetTime(now)
		for _, name := range []string{"alice", "bob", "carol"} {
			tellUsers(iamtest.User(name), f.r[i])
		}
		return false, nil
	}
	if errors.Is(err, iam.ErrUnavailable) {
		return false, nil
	}
	return true, err
}

func (f *fleet) login(p *person) {
	for {
		var s *Session
		var refresh string
		answered, err := f.try(func(r *replica) (err error) {
			s, refresh, err = r.Open(f.t.Context(), Login{AuthnResult: iam.AuthnResult{User: r.users.ByName(p.name)}, Client: "kubesphere"})
			return err
		})
		if err != nil {
			f.t.Fatal(err)
		}
		if answered {
			p.session, p.refresh = s, refresh
			return
		}
	}
}

func (f *fleet) refresh(p *person) {
	for {
		var next string
		answered, err := f.try(func(r *replica) (err error) {
			_, _, next, err = r.Refresh(f.t.Context(), "kubesphere", p.refresh, admit)
			return err
		})
		if err != nil {
			f.t.Fatalf("%s was logged out: %v", p.name, err)
		}
		if answered {
			p.refresh = next
			return
		}
	}
}

func (f *fleet) wait(d time.Duration) {
	for _, r := range f.r {
		r.clock.Step(d)
	}
}

// 500 logins and refreshes, each write of which may fail, before or after it is done, with its replica stopped or running: no
// session is lost, none is issued twice, and no reuse is reported without one.
func TestReplicasMayDieAtAnyMoment(t *testing.T) {
	for seed := range uint64(1) {
		f := newFleet(t, seed)
		var all []*person
		for range 500 {
			if len(all) < 60 && (len(all) == 0 || f.rand.IntN(4) == 0) {
				p := &person{name: []string{"alice", "bob", "carol"}[f.rand.IntN(3)]}
				f.login(p)
				all = append(all, p)
			} else {
				f.refresh(all[f.rand.IntN(len(all))])
			}
			if f.rand.IntN(5) == 0 {
				f.wait(15 * time.Second)
			}
		}
		f.a.inject = nil
		var names []string
		for _, p := range all {
			f.refresh(p)
			names = append(names, p.session.Name)
			for i, r := range f.r {
				if !r.alive(t, p.session) {
					t.Errorf("seed %d: %s is refused on replica %d", seed, p.name, i)
				}
			}
		}
		slices.Sort(names)
		if len(slices.Compact(names)) != len(all) {
			t.Errorf("seed %d: a session was handed out twice", seed)
		}
		f.sweepAll()
		for name, o := range f.a.objects {
			if !slices.ContainsFunc(all, func(p *person) bool { return p.session.Name == name }) && o.Refresh.Generation != 1 {
				t.Errorf("seed %d: a session that nobody has was refreshed", seed)
			}
		}
		f.wait(4 * time.Hour)
		f.sweepAll()
		if n := f.a.size(); n != 0 {
			t.Errorf("seed %d: %d left behind", seed, n)
		}
	}
}

func (f *fleet) sweepAll() {
	for _, r := range f.r {
		for len(r.over()) > 0 {
			for _, d := range r.over() { // Sweep, without its pauses
				if err := r.erase(f.t.Context(), d.record.Name, d.record); err != nil {
					f.t.Fatal(err)
				}
				r.dropped(d.record.Name)
			}
		}
	}
}

// The same for codes: each opens one session at most, and a code that was presented once is not treated as used if its answer arrived.
func TestCodesOpenOneSessionAtMostWhateverDies(t *testing.T) {
	for seed := range uint64(2) {
		f := newFleet(t, seed)
		for range 50 {
			name := f.r[0].NewName()
			opened := 0
			for range 4 {
				answered, err := f.try(func(r *replica) error {
					_, _, err := r.Open(t.Context(), Login{AuthnResult: iam.AuthnResult{User: r.users.ByName("alice")}, Client: "harbor", Name: name})
					return err
				})
				switch {
				case answered && err == nil:
					opened++
				case err != nil && !errors.Is(err, iam.ErrUsed):
					t.Fatal(err)
				}
			}
			o := f.a.objects[name]
			if opened > 1 || o != nil && opened > 0 && o.Phase != v1alpha1.PhaseEnded && f.allAnswered(name) {
				t.Fatalf("seed %d: opened %d times, then %+v", seed, opened, o)
			}
		}
	}
}

// allAnswered presents the code once more, without faults; after that nothing issued for it may be valid.
func (f *fleet) allAnswered(name string) bool {
	inject := f.a.inject
	f.a.inject = nil
	defer func() { f.a.inject = inject }()
	if err := second(f.r[0].Open(f.t.Context(), Login{AuthnResult: iam.AuthnResult{User: f.r[0].users.ByName("alice")}, Client: "harbor",
		Name: name})); !errors.Is(err, iam.ErrUsed) {
		f.t.Fatal(err)
	}
	return f.a.objects[name].Phase != v1alpha1.PhaseEnded
}
