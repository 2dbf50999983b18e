package token

import (
	"sync"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

const (
	testIssuer   = "https://ks.example"
	testAudience = "kapis:host"
)

func start() time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) }

// sharedKeys saves the tests that don't change keys from generating them.
var sharedKeys = sync.OnceValues(func() (*KeySet, error) { return Generate(start()) })

type fixture struct {
	keys     *KeySet
	clock    *clocktesting.FakeClock
	issuer   *Issuer
	verifier *Verifier
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	f := &fixture{clock: clocktesting.NewFakeClock(start())}
	var err error
	if f.keys, err = sharedKeys(); err != nil {
		t.Fatal(err)
	}
	f.issuer = &Issuer{Keys: f.keys, URL: testIssuer, Audience: testAudience, Now: f.clock.Now}
	f.verifier = f.verify(t, f.keys)
	return f
}

func (f *fixture) verify(t testing.TB, keys KeySource) *Verifier {
	t.Helper()
	v, err := NewVerifier(Rules{Keys: keys, Issuer: testIssuer, Audience: testAudience, Leeway: 30 * time.Second, Now: f.clock.Now, CacheSize: 64})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func (f *fixture) claims() *Access {
	return &Access{
		Subject: "uid-1", Username: "alice", Client: "kubesphere", Session: "s1", Issued: f.clock.Now(), Expires: f.clock.Now().Add(time.Hour),
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
