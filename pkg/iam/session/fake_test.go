package session

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"kapis.dev/ks-apiserver/pkg/api/session/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/iamtest"
	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/pkg/token"
)

// api is a fake kube-apiserver for sessions, with a feed to each replica that a test can hold back.
type api struct {
	mu       sync.Mutex
	rv       int
	objects  map[string]*v1alpha1.Session
	feeds    []*iamtest.Feed
	calls    map[string]int
	failWith error
	// fresh makes an additional replica.
	fresh func() *replica
	// inject returns the error with which a write fails: before it is done, or after.
	inject func(verb string) (before, after error)
}

func newAPI() *api { return &api{objects: map[string]*v1alpha1.Session{}, calls: map[string]int{}} }

func (a *api) begin(verb string) error {
	a.calls[verb]++
	return a.failWith
}

// write does a write, or lets it fail as the test demands.
func (a *api) write(verb string, do func() (*v1alpha1.Session, error)) (*v1alpha1.Session, error) {
	if err := a.begin(verb); err != nil {
		return nil, err
	}
	var before, after error
	if a.inject != nil {
		before, after = a.inject(verb)
	}
	if before != nil {
		return nil, before
	}
	o, err := do()
	if err == nil && after != nil {
		return nil, after
	}
	return o, err
}

func (a *api) Create(_ context.Context, s *v1alpha1.Session) (*v1alpha1.Session, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.write("create", func() (*v1alpha1.Session, error) {
		if a.objects[s.Name] != nil {
			return nil, apierrors.NewAlreadyExists(v1alpha1.Resource("sessions"), s.Name)
		}
		s := s.DeepCopy()
		s.UID, s.Generation = types.UID("uid-of-"+s.Name), 0
		return a.store(s), nil
	})
}

func (a *api) store(s *v1alpha1.Session) *v1alpha1.Session {
	a.rv++
	s.ResourceVersion = strconv.Itoa(a.rv)
	s.Generation++
	a.objects[s.Name] = s
	raw, err := json.Marshal(s) // what replicas see has been encoded as JSON, with times in whole seconds
	if err != nil {
		panic(err)
	}
	a.tell(func(k store.Sink) { k.Set(&store.Object{Name: s.Name, Raw: raw}) })
	return a.read(s.Name)
}

func (a *api) tell(event func(store.Sink)) {
	for _, f := range a.feeds {
		if f.Held {
			f.Late = append(f.Late, func() { event(f.Sink) })
			continue
		}
		event(f.Sink)
	}
}

func (a *api) read(name string) *v1alpha1.Session {
	raw, err := json.Marshal(a.objects[name])
	if err != nil {
		panic(err)
	}
	out := &v1alpha1.Session{}
	if err := json.Unmarshal(raw, out); err != nil {
		panic(err)
	}
	return out
}

func (a *api) Get(_ context.Context, name string) (*v1alpha1.Session, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.begin("get"); err != nil {
		return nil, err
	}
	if a.objects[name] == nil {
		return nil, apierrors.NewNotFound(v1alpha1.Resource("sessions"), name)
	}
	return a.read(name), nil
}

func (a *api) Update(_ context.Context, s *v1alpha1.Session) (*v1alpha1.Session, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.write("update", func() (*v1alpha1.Session, error) {
		old := a.objects[s.Name]
		if old == nil {
			return nil, apierrors.NewNotFound(v1alpha1.Resource("sessions"), s.Name)
		}
		if old.ResourceVersion != s.ResourceVersion {
			return nil, apierrors.NewConflict(v1alpha1.Resource("sessions"), s.Name, fmt.Errorf("changed"))
		}
		s := s.DeepCopy()
		s.Generation = old.Generation
		return a.store(s), nil
	})
}

func (a *api) Delete(_ context.Context, name string, uid types.UID) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, err := a.write("delete", func() (*v1alpha1.Session, error) {
		old := a.objects[name]
		if old == nil {
			return nil, apierrors.NewNotFound(v1alpha1.Resource("sessions"), name)
		}
		if uid != "" && old.UID != uid {
			return nil, apierrors.NewConflict(v1alpha1.Resource("sessions"), name, fmt.Errorf("another uid"))
		}
		delete(a.objects, name)
		a.tell(func(k store.Sink) { k.Delete("", name) })
		return old, nil
	})
	return err
}

func (a *api) fail(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failWith = err
}

func (a *api) count(verb string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.calls[verb]
}

func (a *api) size() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.objects)
}

// hold holds back the events of a replica; release delivers them.
func (a *api) hold(i int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.feeds[i].Held = true
}

func (a *api) release(i int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f := a.feeds[i]
	f.Held = false
	for _, event := range f.Late {
		event()
	}
	f.Late = nil
}

// replica is the Store of one server.
type replica struct {
	*Store
	users *iam.UserIndex
	clock *clocktesting.FakeClock
}

// newReplicas makes replicas of one fleet; options are changed by edit.
func newReplicas(t testing.TB, n int, edit func(*Options)) (*api, []*replica) {
	t.Helper()
	keys, err := iamtest.Keys()
	if err != nil {
		t.Fatal(err)
	}
	a := newAPI()
	a.fresh = func() *replica {
		r := &replica{users: iam.NewUserIndex(), clock: clocktesting.NewFakeClock(iamtest.Start())}
		o := Options{API: a, Users: r.users, Keys: keys, Skew: 30 * time.Second, Now: r.clock.Now,
			Lifetime: func(string) Lifetime { return Lifetime{MaxAge: 2 * time.Hour, Inactivity: time.Hour} }}
		if edit != nil {
			edit(&o)
		}
		if r.Store, err = New(o); err != nil {
			t.Fatal(err)
		}
		return r
	}
	var all []*replica
	for range n {
		r := a.fresh()
		a.feeds = append(a.feeds, &iamtest.Feed{Sink: r.Store})
		all = append(all, r)
	}
	return a, all
}

// restart replaces the replica of that number by a new one, which knows only what is stored.
func restart(t testing.TB, a *api, i int) *replica {
	t.Helper()
	r := a.fresh()
	a.mu.Lock()
	defer a.mu.Unlock()
	for name, o := range a.objects {
		raw, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		r.Set(&store.Object{Name: name, Raw: raw})
	}
	a.feeds[i] = &iamtest.Feed{Sink: r.Store}
	return r
}

func tellUsers(o *store.Object, all ...*replica) {
	for _, r := range all {
		r.users.Set(o)
	}
}

func login(t testing.TB, r *replica, name string) (*Session, string) {
	t.Helper()
	s, refresh, err := r.Open(t.Context(), Login{AuthnResult: iam.AuthnResult{User: r.users.ByName(name)}, Client: "kubesphere"})
	if err != nil {
		t.Fatal(err)
	}
	return s, refresh
}

func access(s *Session) *token.Access {
	return &token.Access{Subject: s.UserUID, Username: s.User, Client: s.Client, Session: s.Name}
}

func admit(*Session) error { return nil }

func (r *replica) alive(t testing.TB, s *Session) bool {
	t.Helper()
	u, err := r.Authenticate(t.Context(), access(s))
	return err == nil && u.GetName() == s.User
}
