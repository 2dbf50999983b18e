package token

import (
	"sync"
	"testing"
	"time"
)

const (
	testIssuer   = "https://ks.example"
	testAudience = "kapis:host"
)

func start() time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) }

// sharedKeys saves the tests that don't change keys from generating them.
var sharedKeys = sync.OnceValues(func() (*KeySet, error) { return Generate(start()) })

// clock is a clock that stands still until it is moved.
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

type fixture struct {
	keys     *KeySet
	clock    *clock
	issuer   *Issuer
	verifier *Verifier
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	f := &fixture{clock: &clock{t: start()}}
	var err error
	if f.keys, err = sharedKeys(); err != nil {
		t.Fatal(err)
	}
	f.issuer = &Issuer{Keys: f.keys, URL: testIssuer, Audience: testAudience, Now: f.clock.now}
	f.verifier = f.verify(t, f.keys)
	return f
}

func (f *fixture) verify(t testing.TB, keys KeySource) *Verifier {
	t.Helper()
	v, err := NewVerifier(Rules{Keys: keys, Issuer: testIssuer, Audience: testAudience, Leeway: 30 * time.Second, Now: f.clock.now, CacheSize: 64})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func (f *fixture) claims() *Access {
	return &Access{
		Subject: "uid-1", Username: "alice", Client: "kubesphere", Session: "s1", Issued: f.clock.now(), Expires: f.clock.now().Add(time.Hour),
		Display: Display{Email: "alice@example.com", Groups: []string{"dev"}, Uninitialized: true},
	}
}

func (f *fixture) access(t testing.TB) string {
	t.Helper()
	s, err := f.issuer.Access(f.claims())
	if err != nil {
		t.Fatal(err)
	}
	return s
}
