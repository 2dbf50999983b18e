package session

import (
	"testing"

	"kapis.dev/ks-apiserver/pkg/api/session/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/iam/iamtest"
)

// restore puts the objects back to what they were, as a restored backup of etcd does, and tells the replicas as their feeds do: by a
// new list.
func (a *api) restore(objects map[string]*v1alpha1.Session, all ...*replica) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for name := range a.objects {
		if objects[name] == nil {
			for _, r := range all {
				r.Delete("", name)
			}
		}
	}
	a.objects = map[string]*v1alpha1.Session{}
	for name, o := range objects {
		generation := o.Generation
		o = o.DeepCopy()
		o.Generation-- // store counts
		a.store(o)
		a.objects[name].Generation = generation
	}
}

// backup returns a copy of all objects.
func (a *api) backup() map[string]*v1alpha1.Session {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := map[string]*v1alpha1.Session{}
	for name := range a.objects {
		out[name] = a.read(name)
	}
	return out
}

// A backup is restored under running replicas: what it lacks is over, what it has goes on with the tokens that it knows, and what has
// ended stays so.
func TestARestoredBackupCountsForRunningReplicas(t *testing.T) {
	a, r := newReplicas(t, 2, nil)
	tellUsers(iamtest.User("alice"), r...)
	kept, first := login(t, r[0], "alice")
	ended, _ := login(t, r[0], "alice")
	backup := a.backup()
	late, _ := login(t, r[0], "alice")
	next := refreshed(t, r[0], first)
	if err := r[0].End(t.Context(), ended.Name, "logout"); err != nil {
		t.Fatal(err)
	}

	a.restore(backup, r...)
	for i, one := range r {
		if !one.alive(t, kept) {
			t.Errorf("replica %d: the session of the backup is over", i)
		}
		if one.alive(t, late) {
			t.Errorf("replica %d: a session that the backup lacks is alive", i)
		}
		if one.alive(t, ended) {
			t.Errorf("replica %d: the session that has ended is alive", i)
		}
		if known, _ := one.known(kept.Name); known.generation != 1 {
			t.Errorf("replica %d knows generation %d, which the backup has not", i, known.generation)
		}
		one.Sweep(t.Context())
	}
	if a.objects[ended.Name] != nil {
		t.Error("the session that has ended is stored: a replica that starts now accepts it")
	}
	pastGrace(r...)
	refused(t, r[1], "kubesphere", next)
	if !r[1].alive(t, kept) {
		t.Error("a token that the backup does not know ends the session")
	}
	refreshed(t, r[1], first)
}

// A replica wrote a state that its feed never brought, since etcd was restored before: what it reads later counts.
func TestAWriteThatWasLostIsForgotten(t *testing.T) {
	a, r := newReplicas(t, 1, nil)
	tellUsers(iamtest.User("alice"), r...)
	s, first := login(t, r[0], "alice")
	backup := a.backup()
	a.hold(0)
	refreshed(t, r[0], first)
	a.mu.Lock()
	a.feeds[0].Late = nil // the feed has never heard of it
	a.objects = backup
	a.mu.Unlock()
	a.release(0)
	r[0].clock.Step(unconfirmed)
	if !r[0].alive(t, s) {
		t.Fatal("the session is over")
	}
	if known, _ := r[0].known(s.Name); known.generation != 1 {
		t.Errorf("it knows generation %d, which nobody has", known.generation)
	}
}
