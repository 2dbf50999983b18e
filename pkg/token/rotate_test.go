package token

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clocktesting "k8s.io/utils/clock/testing"
)

// stored is one Secret that is changed by compare-and-set, as kube-apiserver does it.
type stored struct {
	Secrets
	mu      sync.Mutex
	secret  *corev1.Secret
	updates int
}

func (s *stored) Get(context.Context, string, metav1.GetOptions) (*corev1.Secret, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.secret == nil {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, SecretName)
	}
	return s.secret.DeepCopy(), nil
}

func (s *stored) Create(_ context.Context, o *corev1.Secret, _ metav1.CreateOptions) (*corev1.Secret, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.secret = o.DeepCopy()
	s.secret.ResourceVersion = "1"
	return s.secret.DeepCopy(), nil
}

func (s *stored) Update(_ context.Context, o *corev1.Secret, _ metav1.UpdateOptions) (*corev1.Secret, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o.ResourceVersion != s.secret.ResourceVersion {
		return nil, apierrors.NewConflict(schema.GroupResource{Resource: "secrets"}, SecretName, fmt.Errorf("changed"))
	}
	s.updates++
	s.secret = o.DeepCopy()
	s.secret.ResourceVersion = strconv.Itoa(s.updates + 1)
	return s.secret.DeepCopy(), nil
}

// server is one replica's keys, with its own clock.
type server struct {
	ring     *Keyring
	clock    *clocktesting.FakeClock
	issuer   *Issuer
	verifier *Verifier
	looks    time.Time
}

func newServers(t *testing.T, n int) (*stored, []*server) {
	t.Helper()
	secrets := &stored{}
	var all []*server
	for i := range n {
		c := clocktesting.NewFakeClock(start().Add(time.Duration(i) * 10 * time.Second)) // clocks differ
		ring, err := OpenKeyring(t.Context(), secrets, c.Now)
		if err != nil {
			t.Fatal(err)
		}
		v, err := NewVerifier(Rules{Keys: ring, Issuer: testIssuer, Audience: testAudience, Leeway: 30 * time.Second, Now: c.Now, CacheSize: 1 << 10})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, &server{ring: ring, clock: c, verifier: v, looks: c.Now().Add(time.Duration(i) * 2 * time.Minute),
			issuer: &Issuer{Keys: ring, URL: testIssuer, Audience: testAudience, Now: c.Now}})
	}
	return secrets, all
}

type made struct {
	access, refresh, sealed, kid string
	until                        time.Time
}

func (s *server) make(t *testing.T, life time.Duration) made {
	t.Helper()
	now := s.clock.Now()
	m := made{until: now.Add(life)}
	var err error
	if m.access, err = s.issuer.Access(&Access{Subject: "u", Username: "alice", Client: "c", Session: "s1", Issued: now, Expires: m.until}); err != nil {
		t.Fatal(err)
	}
	if m.refresh, err = s.ring.KeySet().NewRefresh("s1", 1, now); err != nil {
		t.Fatal(err)
	}
	if m.sealed, err = s.ring.KeySet().Seal("cookie", []byte("x"), now); err != nil {
		t.Fatal(err)
	}
	m.kid, _ = decode(t, strings.Split(m.access, ".")[0])["kid"].(string)
	return m
}

func (s *server) check(t *testing.T, m made) {
	t.Helper()
	now := s.clock.Now()
	if _, err := s.verifier.Access(m.access); err != nil {
		t.Fatalf("at %v, until %v: %v", now, m.until, err)
	}
	if r, err := ParseRefresh(m.refresh); err != nil || !s.ring.KeySet().MadeRefresh(r, now) {
		t.Fatalf("at %v: refresh token refused", now)
	}
	if _, err := s.ring.KeySet().Open("cookie", m.sealed, now); err != nil {
		t.Fatalf("at %v: sealed value refused", now)
	}
}

// TDisc-2: keys rotate many times under load on three replicas whose clocks differ and that check at different times: no verification fails, neither here nor
// at a client that caches our public keys for five minutes.
func TestKeysRotateUnderLoadWithoutAFailedVerification(t *testing.T) {
	const life = 90 * time.Minute
	r := Rotation{Every: 2 * time.Hour, Longest: life}
	secrets, all := newServers(t, 3)
	known, fetched := "", time.Time{} // a client's copy of the public keys
	var tokens []made
	kids := map[string]bool{}
	for range 7 * 60 / 4 {
		for i, s := range all {
			s.clock.Step(4 * time.Minute)
			now := s.clock.Now()
			if !now.Before(s.looks) {
				if err := s.ring.rotate(t.Context(), r); err != nil {
					t.Fatal(err)
				}
				s.looks = now.Add(rotationCheck + rotationCheck/10)
			}
			if now.Sub(fetched) > 5*time.Minute {
				known, fetched = string(all[i].ring.KeySet().JWKS()), now
			}
			m := s.make(t, life)
			if !strings.Contains(known, m.kid) {
				t.Fatalf("at %v the client does not know the key yet", now)
			}
			kids[m.kid] = true
			tokens = append(tokens, m)
		}
		for _, s := range all {
			for _, m := range tokens {
				if s.clock.Now().Before(m.until) {
					s.check(t, m)
				}
			}
		}
		if n := len(tokens) - 90; n > 0 {
			tokens = tokens[n:]
		}
	}
	if len(kids) != 4 || secrets.updates < 3 {
		t.Errorf("%d keys have signed, %d updates", len(kids), secrets.updates)
	}
	if n := len(all[0].ring.KeySet().signing); n > 3 {
		t.Errorf("%d keys are kept", n)
	}
}

func TestOneOfManyReplicasRotates(t *testing.T) {
	secrets, all := newServers(t, 4)
	for _, s := range all {
		s.clock.Step(48 * time.Hour)
	}
	var wg sync.WaitGroup
	for _, s := range all {
		wg.Go(func() {
			if err := s.ring.rotate(t.Context(), Rotation{Every: 24 * time.Hour, Longest: time.Hour}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if secrets.updates != 1 {
		t.Errorf("%d updates", secrets.updates)
	}
}

func TestKeysThatAreYoungOrNeverRotateStay(t *testing.T) {
	secrets, all := newServers(t, 1)
	for _, r := range []Rotation{{Every: 24 * time.Hour}, {}} {
		if err := all[0].ring.rotate(t.Context(), r); err != nil || secrets.updates != 0 {
			t.Errorf("%v: %v, %d updates", r, err, secrets.updates)
		}
		all[0].clock.Step(1000 * time.Hour)
		if r.Every > 0 {
			all[0].clock.Step(-1000 * time.Hour)
		}
	}
}

// A value that is stored for years opens after its key's end, and says that it should be sealed again; a token of that key does not verify.
func TestStoredValuesOutliveTheirKey(t *testing.T) {
	_, all := newServers(t, 1)
	s := all[0]
	m := s.make(t, time.Hour)
	r := Rotation{Every: 24 * time.Hour, Longest: time.Hour}
	if _, old, err := s.ring.KeySet().OpenStored("cookie", m.sealed, s.clock.Now()); err != nil || old {
		t.Errorf("old %v, %v", old, err)
	}
	for range 3 {
		s.clock.Step(25 * time.Hour)
		if err := s.ring.rotate(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	set, now := s.ring.KeySet(), s.clock.Now()
	if _, err := set.Open("cookie", m.sealed, now); err == nil {
		t.Error("opened with a key that is worn out")
	}
	if p, _ := ParseRefresh(m.refresh); set.MadeRefresh(p, now) {
		t.Error("a refresh token of a key that is worn out")
	}
	if v, old, err := set.OpenStored("cookie", m.sealed, now); err != nil || !old || string(v) != "x" {
		t.Errorf("%q, old %v, %v", v, old, err)
	}
	if _, _, err := set.OpenStored("other", m.sealed, now); err == nil {
		t.Error("opened for another use")
	}
}

// A rotation that is too fast for the tokens that depend on the keys stops, so that no good token is refused.
func TestFullSetDoesNotRotate(t *testing.T) {
	f := newFixture(t)
	set := f.keys
	now := start()
	for i := range 2 * maxKeys {
		now = now.Add(time.Hour)
		macs := append([]MACKey{newMACKey(now, now)}, set.macs...)
		if len(macs) > rotationFull {
			break
		}
		var err error
		if set, err = NewKeySet(set.signing, macs); err != nil {
			t.Fatal(i, err)
		}
	}
	next, err := set.next(now.Add(24*time.Hour), Rotation{Every: 48 * time.Hour, Longest: time.Hour})
	if err != nil || next != nil && len(next.macs) != rotationFull {
		t.Error(err, "or more keys than there is room for")
	}
}

func TestAgeOfTheSigningKeyIsAMetric(t *testing.T) {
	_, all := newServers(t, 1)
	reg := prometheus.NewPedanticRegistry()
	if err := all[0].ring.Register(reg); err != nil {
		t.Fatal(err)
	}
	all[0].clock.Step(90 * time.Second)
	want := "# HELP ks_signing_key_age_seconds Since when the key that signs tokens does so; -1 where none may.\n" +
		"# TYPE ks_signing_key_age_seconds gauge\nks_signing_key_age_seconds 90\n"
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	if all[0].ring.Register(reg) == nil {
		t.Error("registered twice")
	}
}

func TestRotationSurvivesABrokenOrMissingSecret(t *testing.T) {
	secrets, all := newServers(t, 1)
	before := all[0].ring.KeySet()
	secrets.secret.Data[SecretKey] = []byte("canary")
	if err := all[0].ring.rotate(t.Context(), Rotation{Every: time.Hour}); err == nil || strings.Contains(err.Error(), "canary") {
		t.Errorf("got %v", err)
	}
	secrets.secret = nil
	if err := all[0].ring.rotate(t.Context(), Rotation{Every: time.Hour}); err != nil {
		t.Error(err)
	}
	if all[0].ring.KeySet() != before {
		t.Error("the keys have changed")
	}
}

func TestRotateEndsWithItsContext(t *testing.T) {
	k := open(t, fake.NewClientset())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); k.Rotate(ctx, Rotation{Every: time.Hour}) }()
	cancel()
	<-done
}
