package redis

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kapis.dev/ks-apiserver/pkg/api/session/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/pkg/token"
	"kapis.dev/ks-apiserver/tools/redisserver"
)

// TestMain fails when a goroutine is left. A closed pool that was probing a stopped server ends with its next probe, a second
// later, which is longer than goleak's default wait.
func TestMain(m *testing.M) {
	callTimeout = time.Minute
	code := m.Run()
	var left error
	for range 5 {
		if left = goleak.Find(); left == nil {
			break
		}
	}
	if left != nil && code == 0 {
		fmt.Fprintln(os.Stderr, left)
		code = 1
	}
	os.Exit(code)
}

// server is a real redis-server on loopback, which keeps its data when it is stopped.
type server struct {
	*redisserver.Server
	t *testing.T
}

const password = "canary-password"

func newServer(t *testing.T) *server {
	t.Helper()
	return &server{Server: redisserver.New(t, "requirepass "+password), t: t}
}

func (s *server) client() *Sessions { return s.database(0) }

// database returns Sessions in one of the server's databases.
func (s *server) database(db int) *Sessions {
	return newClient(s.t, Options{Addresses: []string{s.Address}, Password: password, DB: db})
}

// keys are the keys of all replicas of a test without others.
var keys = sync.OnceValues(func() (*token.KeySet, error) { return token.Generate(time.Now().Add(-time.Minute)) })

func newClient(t *testing.T, o Options) *Sessions {
	t.Helper()
	if o.Keys == nil {
		set, err := keys()
		if err != nil {
			t.Fatal(err)
		}
		o.Keys = set
	}
	c := New(o)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// do sends the server a command.
func (s *server) do(c *Sessions, args ...any) {
	s.t.Helper()
	if err := c.client.Do(context.Background(), args...).Err(); err != nil {
		s.t.Fatal(err)
	}
}

// waitFor polls for something that another goroutine or program does; the test's own deadline ends it.
func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-t.Context().Done():
			t.Fatal("it never happened")
		case <-tick.C:
		}
	}
}

// sink collects what a feed passes on.
type sink struct {
	mu   sync.Mutex
	all  map[string]string
	gone map[string]bool
}

func newSink() *sink { return &sink{all: map[string]string{}, gone: map[string]bool{}} }

func (s *sink) Set(o *store.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[o.Name] = rawjson.GetText(string(o.Raw), "metadata", "resourceVersion")
}

func (s *sink) Delete(_, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, name)
	s.gone[name] = true
}

func (s *sink) version(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[name]
}

func (s *sink) deleted(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gone[name]
}

// follow runs a feed until the test ends.
func follow(t *testing.T, c *Sessions, to store.Sink) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); c.Run(ctx, to) }()
	t.Cleanup(func() { cancel(); <-done })
}

func session(name string) *v1alpha1.Session {
	now := metav1.NewTime(time.Now())
	return &v1alpha1.Session{ObjectMeta: metav1.ObjectMeta{Name: Prefix + name},
		Spec: v1alpha1.SessionSpec{User: "alice", CreatedAt: now, ExpiresAt: metav1.NewTime(now.Add(time.Hour))}}
}

func create(t *testing.T, c *Sessions, name string) *v1alpha1.Session {
	t.Helper()
	o, err := c.Create(t.Context(), session(name))
	if err != nil {
		t.Fatal(err)
	}
	return o
}
