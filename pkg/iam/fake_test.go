package iam

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	iamapi "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/api/session/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/pkg/token"
)

func start() time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) }

// clock stands until it is moved.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

// api is a kube-apiserver's worth of sessions, with a feed to each replica that can be held back.
type api struct {
	mu       sync.Mutex
	rv       int
	objects  map[string]*v1alpha1.Session
	feeds    []*feed
	calls    map[string]int
	failWith error
	// fresh makes one more replica.
	fresh func() *replica
	// inject says how a write fails: before it is done, or after.
	inject func(verb string) (before, after error)
}

type feed struct {
	sink store.Sink
	held bool
	late []func()
}

func newAPI() *api { return &api{objects: map[string]*v1alpha1.Session{}, calls: map[string]int{}} }

func (a *api) begin(verb string) error {
	a.calls[verb]++
	return a.failWith
}

// write does a write, and lets it fail as the test wants it.
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
	raw, err := json.Marshal(s) // what replicas see has gone through JSON, whole seconds included
	if err != nil {
		panic(err)
	}
	a.tell(func(k store.Sink) { k.Set(&store.Object{Name: s.Name, UID: string(s.UID), Raw: raw}) })
	return a.read(s.Name)
}

func (a *api) tell(event func(store.Sink)) {
	for _, f := range a.feeds {
		if f.held {
			f.late = append(f.late, func() { event(f.sink) })
			continue
		}
		event(f.sink)
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

// hold keeps events from a replica; release brings them.
func (a *api) hold(i int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.feeds[i].held = true
}

func (a *api) release(i int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f := a.feeds[i]
	f.held = false
	for _, event := range f.late {
		event()
	}
	f.late = nil
}

var sharedKeys = sync.OnceValues(func() (*token.KeySet, error) { return token.Generate(start()) })

// replica is one server's share of this package.
type replica struct {
	*Sessions
	users *UserIndex
	clock *clock
}

const secret = "P@88w0rd"

// hash is of the least cost, since the tests compare it often.
func hash(t testing.TB, password string) string {
	t.Helper()
	h, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	return string(h)
}

type change func(*iamapi.User)

func userObject(name string, changes ...change) *store.Object {
	u := &iamapi.User{}
	u.Name, u.UID = name, types.UID("uid-"+name)
	u.Spec.Email = name + "@example.com"
	u.Status.State = iamapi.UserActive
	for _, c := range changes {
		c(u)
	}
	raw, err := json.Marshal(u)
	if err != nil {
		panic(err)
	}
	return &store.Object{Name: name, UID: string(u.UID), Raw: raw}
}

func withPassword(hash string) change { return func(u *iamapi.User) { u.Spec.Password = hash } }
func withState(s iamapi.UserState) change {
	return func(u *iamapi.User) { u.Status.State = s }
}
func withGroups(g ...string) change { return func(u *iamapi.User) { u.Spec.Groups = g } }
func withUID(s types.UID) change    { return func(u *iamapi.User) { u.UID = s } }

// newReplicas makes replicas of one fleet; options are changed by edit.
func newReplicas(t testing.TB, n int, edit func(*SessionOptions)) (*api, []*replica) {
	t.Helper()
	keys, err := sharedKeys()
	if err != nil {
		t.Fatal(err)
	}
	a := newAPI()
	a.fresh = func() *replica {
		r := &replica{users: NewUserIndex(), clock: &clock{t: start()}}
		o := SessionOptions{API: a, Users: r.users, Keys: keys, Skew: 30 * time.Second, Now: r.clock.now,
			Lifetime: func(string) Lifetime { return Lifetime{MaxAge: 2 * time.Hour, Inactivity: time.Hour} }}
		if edit != nil {
			edit(&o)
		}
		if r.Sessions, err = NewSessions(o); err != nil {
			t.Fatal(err)
		}
		return r
	}
	var all []*replica
	for range n {
		r := a.fresh()
		a.feeds = append(a.feeds, &feed{sink: r.Sessions})
		all = append(all, r)
	}
	return a, all
}

// restart puts a new replica in the place of the one of that number, which knows what is stored and no more.
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
		r.Set(&store.Object{Name: name, UID: string(o.UID), Raw: raw})
	}
	a.feeds[i] = &feed{sink: r.Sessions}
	return r
}

func tellUsers(o *store.Object, all ...*replica) {
	for _, r := range all {
		r.users.Set(o)
	}
}

func login(t testing.TB, r *replica, name string) (*Session, string) {
	t.Helper()
	s, refresh, err := r.Open(t.Context(), Login{AuthnResult: AuthnResult{User: r.users.ByName(name)}, Client: "kubesphere"})
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
