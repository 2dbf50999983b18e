package redis

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	iamapi "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/api/session/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/iam"
	iamsession "kapis.dev/ks-apiserver/pkg/iam/session"
	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/pkg/token"
)

// kube is the other backend, as far as the test needs it.
type kube struct {
	mu  sync.Mutex
	all map[string]*v1alpha1.Session
}

func (k *kube) Create(_ context.Context, o *v1alpha1.Session) (*v1alpha1.Session, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	o = o.DeepCopy()
	o.UID, o.ResourceVersion = types.UID(o.Name), "1"
	k.all[o.Name] = o
	return o.DeepCopy(), nil
}

func (k *kube) Get(_ context.Context, name string) (*v1alpha1.Session, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if o := k.all[name]; o != nil {
		return o.DeepCopy(), nil
	}
	return nil, apierrors.NewNotFound(v1alpha1.Resource("sessions"), name)
}

func (k *kube) Update(_ context.Context, o *v1alpha1.Session) (*v1alpha1.Session, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.all[o.Name] = o.DeepCopy()
	return o, nil
}

func (k *kube) Delete(_ context.Context, name string, _ types.UID) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.all, name)
	return nil
}

// replica is a server with its sessions in Redis.
type replica struct {
	*iamsession.Store
	redis *Sessions
	alice *iam.User
}

func newReplica(t *testing.T, s *server, k *kube, keys *token.KeySet) *replica {
	t.Helper()
	users := iam.NewUserIndex()
	u := &iamapi.User{}
	u.Name, u.UID, u.Status.State = "alice", "uid-alice", iamapi.UserActive
	raw, err := json.Marshal(u)
	if err != nil {
		t.Fatal(err)
	}
	c := s.client()
	c.checkEvery = 100 * time.Millisecond
	sessions, err := iamsession.New(
		iamsession.Options{API: &iamsession.SplitBackend{Prefix: Prefix, Optional: c, Kube: k}, Prefix: c.Place, Users: users, Keys: keys,
			Lifetime: func(string) iamsession.Lifetime { return iamsession.Lifetime{MaxAge: time.Hour, Inactivity: time.Hour} }, Now: time.Now},
	)
	if err != nil {
		t.Fatal(err)
	}
	users.Set(&store.Object{Name: "alice", Raw: raw})
	follow(t, c, sessions)
	waitFor(t, func() bool { return c.Place() == Prefix })
	return &replica{sessions, c, users.ByName("alice")}
}

func (r *replica) open(t *testing.T) (*iamsession.Session, string) {
	t.Helper()
	s, refresh, err := r.Open(t.Context(), iamsession.Login{AuthnResult: iam.AuthnResult{User: r.alice}, Client: "kubesphere"})
	if err != nil {
		t.Fatal(err)
	}
	return s, refresh
}

func (r *replica) refresh(t *testing.T, refresh string) (string, error) {
	t.Helper()
	_, _, next, err := r.Refresh(t.Context(), "kubesphere", refresh, func(*iamsession.Session) error { return nil })
	return next, err
}

func (r *replica) alive(t *testing.T, s *iamsession.Session) bool {
	t.Helper()
	_, err := r.Authenticate(t.Context(), &token.Access{Subject: s.UserUID, Username: s.User, Client: s.Client, Session: s.Name})
	return err == nil
}

// U25, U26: two replicas share their sessions through Redis. While it is lost, known sessions stay valid, new ones are opened in
// the Kubernetes API from the first attempt on, and refreshes have to be tried again; afterwards everything works as before.
func TestLostRedisLocksNobodyOut(t *testing.T) {
	server, k := newServer(t), &kube{all: map[string]*v1alpha1.Session{}}
	keys, err := token.Generate(time.Now().Add(-time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	a, b := newReplica(t, server, k, keys), newReplica(t, server, k, keys)
	s, refresh := a.open(t)
	if !strings.HasPrefix(s.Name, Prefix) || len(k.all) != 0 {
		t.Fatalf("session %s is not in Redis", s.Name)
	}
	if !b.alive(t, s) {
		t.Error("refused on the other replica")
	}
	next, err := b.refresh(t, refresh)
	if err != nil {
		t.Fatal(err)
	}
	ended, _ := b.open(t)
	if err := a.End(t.Context(), ended.Name, "logout"); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { return !b.alive(t, ended) })

	server.Kill()
	if !a.alive(t, s) || !b.alive(t, s) {
		t.Error("a known session is refused")
	}
	if _, err := a.refresh(t, next); !errors.Is(err, iam.ErrUnavailable) {
		t.Errorf("refresh: %v", err)
	}
	elsewhere, other := b.open(t)
	if strings.HasPrefix(elsewhere.Name, Prefix) || !b.alive(t, elsewhere) {
		t.Errorf("session %s", elsewhere.Name)
	}
	if _, err := a.refresh(t, other); err != nil {
		t.Errorf("refresh of a session elsewhere: %v", err)
	}

	server.Start()
	waitFor(t, func() bool { return a.redis.Place() == Prefix && b.redis.Place() == Prefix })
	if _, err := a.refresh(t, next); err != nil {
		t.Errorf("after Redis is back: %v", err)
	}
	if back, _ := a.open(t); !strings.HasPrefix(back.Name, Prefix) {
		t.Errorf("session %s is not in Redis", back.Name)
	}
}

// U26: a Redis that answers but refuses writes counts as lost too.
func TestRedisThatRefusesWritesLocksNobodyOut(t *testing.T) {
	for name, c := range map[string]struct{ refuse, relent []any }{
		"full":                     {[]any{"CONFIG", "SET", "maxmemory", "1"}, []any{"CONFIG", "SET", "maxmemory", "0"}},
		"follows another":          {[]any{"REPLICAOF", "127.0.0.1", "1"}, []any{"REPLICAOF", "NO", "ONE"}},
		"without its own replicas": {[]any{"CONFIG", "SET", "min-replicas-to-write", "1"}, []any{"CONFIG", "SET", "min-replicas-to-write", "0"}},
	} {
		t.Run(name, func(t *testing.T) {
			server, k := newServer(t), &kube{all: map[string]*v1alpha1.Session{}}
			keys, err := token.Generate(time.Now().Add(-time.Minute))
			if err != nil {
				t.Fatal(err)
			}
			a, operator := newReplica(t, server, k, keys), server.client()
			s, refresh := a.open(t)
			server.do(operator, c.refuse...)
			for range 3 {
				if elsewhere, _ := a.open(t); strings.HasPrefix(elsewhere.Name, Prefix) || !a.alive(t, elsewhere) {
					t.Errorf("session %s", elsewhere.Name)
				}
			}
			if !a.alive(t, s) {
				t.Error("a known session is refused")
			}
			if _, err := a.refresh(t, refresh); !errors.Is(err, iam.ErrUnavailable) {
				t.Errorf("refresh: %v", err)
			}
			if a.redis.Fault() == nil {
				t.Error("no fault is shown")
			}
			// A check that only reads is not enough to use Redis for logins again.
			f := &feed{Sessions: a.redis, sink: newSink()}
			if f.last, err = f.count(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := f.check(t.Context()); err != nil || a.redis.Place() != "" {
				t.Errorf("after a look: %v, place %q", err, a.redis.Place())
			}

			server.do(operator, c.relent...)
			waitFor(t, func() bool { return a.redis.Place() == Prefix })
			if _, err := a.refresh(t, refresh); err != nil {
				t.Errorf("after Redis takes writes again: %v", err)
			}
			if back, _ := a.open(t); !strings.HasPrefix(back.Name, Prefix) {
				t.Errorf("session %s is not in Redis", back.Name)
			}
		})
	}
}
