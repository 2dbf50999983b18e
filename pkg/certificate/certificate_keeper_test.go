package certificate

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"maps"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
)

// secrets has one Secret, with kube-apiserver's optimistic concurrency.
type secrets struct {
	mu      sync.Mutex
	now     *corev1.Secret
	version int
	writes  int
	before  func() // runs before the next write
	err     error
}

var resource = schema.GroupResource{Resource: "secrets"}

func (s *secrets) Get(_ context.Context, name string, _ metav1.GetOptions) (*corev1.Secret, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, s.err
	}
	if s.now == nil {
		return nil, apierrors.NewNotFound(resource, name)
	}
	return s.now.DeepCopy(), nil
}

func (s *secrets) hook() {
	if f := s.before; f != nil {
		s.before = nil
		f()
	}
}

func (s *secrets) Create(_ context.Context, o *corev1.Secret, _ metav1.CreateOptions) (*corev1.Secret, error) {
	s.hook()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now != nil {
		return nil, apierrors.NewAlreadyExists(resource, o.Name)
	}
	return s.store(o), nil
}

func (s *secrets) Update(_ context.Context, o *corev1.Secret, _ metav1.UpdateOptions) (*corev1.Secret, error) {
	s.hook()
	s.mu.Lock()
	defer s.mu.Unlock()
	if o.ResourceVersion != s.now.ResourceVersion {
		return nil, apierrors.NewConflict(resource, o.Name, nil)
	}
	return s.store(o), nil
}

func (s *secrets) store(o *corev1.Secret) *corev1.Secret {
	s.version++
	s.writes++
	s.now = o.DeepCopy()
	s.now.ResourceVersion = time.Duration(s.version).String()
	return s.now.DeepCopy()
}

func newClock() *clocktesting.FakeClock {
	return clocktesting.NewFakeClock(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC))
}

func open(t *testing.T, s *secrets, c *clocktesting.FakeClock, hosts ...string) *Keeper {
	t.Helper()
	if hosts == nil {
		hosts = []string{"hook.system.svc", "127.0.0.1"}
	}
	k, err := Open(t.Context(), Options{Secrets: s, Name: "hook", Hosts: hosts, Now: c.Now})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// trusts returns nil if a client that has only the bundle trusts the served certificate.
func trusts(t *testing.T, bundle []byte, k *Keeper, host string) error {
	t.Helper()
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(bundle) {
		t.Fatal("the bundle has no certificate")
	}
	served, err := k.Certificate(&tls.ClientHelloInfo{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = served.Leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: host, CurrentTime: k.Now()})
	return err
}

func TestWhoTrustsTheBundleTrustsWhatIsServed(t *testing.T) {
	k := open(t, &secrets{}, newClock())
	for _, host := range []string{"hook.system.svc", "127.0.0.1"} {
		if err := trusts(t, k.Bundle(), k, host); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
	if trusts(t, k.Bundle(), k, "other.system.svc") == nil {
		t.Error("it is good for any host")
	}
	if trusts(t, open(t, &secrets{}, newClock()).Bundle(), k, "127.0.0.1") == nil {
		t.Error("two installations have one authority")
	}
}

func TestReplicasShareOne(t *testing.T) {
	s, c := &secrets{}, newClock()
	var second *Keeper
	s.before = func() { second = open(t, s, c) } // it is faster than the first
	first := open(t, s, c)
	if s.writes != 1 || string(first.Bundle()) != string(second.Bundle()) || trusts(t, first.Bundle(), second, "127.0.0.1") != nil {
		t.Errorf("%d writes", s.writes)
	}
	third := open(t, s, c)
	if s.writes != 1 || string(third.Bundle()) != string(first.Bundle()) {
		t.Error("a restart makes another one")
	}
}

func TestItIsRenewedBeforeItEndsAndNobodyIsLeftBehind(t *testing.T) { // U41
	s, c := &secrets{}, newClock()
	k := open(t, s, c)
	other := open(t, s, c)
	bundle, authorities := k.Bundle(), 0 // what kube-apiserver was given last, a tick ago
	for range 3 * 365 {
		c.Step(24 * time.Hour)
		if left := k.Expires().Sub(c.Now()); left < servingLife/3-25*time.Hour {
			t.Fatalf("%v: only %v is left", c.Now(), left)
		}
		for _, one := range []*Keeper{k, other} {
			if err := one.Renew(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := trusts(t, bundle, one, "127.0.0.1"); err != nil {
				t.Fatalf("%v: who knows yesterday's bundle does not trust: %v", c.Now(), err)
			}
		}
		select {
		case <-k.Changed():
			authorities++
		default:
			if string(bundle) != string(k.Bundle()) {
				t.Fatal("the bundle changed, and nobody was told")
			}
		}
		bundle = k.Bundle()
	}
	if authorities < 3 || len(k.now.Load().authorities) > 2 {
		t.Errorf("the bundle changed %d times and has %d authorities", authorities, len(k.now.Load().authorities))
	}
	if s.writes > 40 {
		t.Errorf("%d writes in three years", s.writes)
	}
}

func TestAnotherHostGetsAnotherCertificateOfTheSameAuthority(t *testing.T) {
	s, c := &secrets{}, newClock()
	before := open(t, s, c).Bundle()
	k := open(t, s, c, "10.0.0.1")
	if string(k.Bundle()) != string(before) || trusts(t, before, k, "10.0.0.1") != nil {
		t.Error("the authority changed")
	}
}

func TestASecretThatIsNoGoodIsMadeAnew(t *testing.T) {
	c := newClock()
	good := &secrets{}
	open(t, good, c)
	other := &secrets{}
	open(t, other, c)
	for name, edit := range map[string]func(map[string][]byte){
		"Empty":        func(d map[string][]byte) { clear(d) },
		"NoKey":        func(d map[string][]byte) { delete(d, keyCA) },
		"NoServingKey": func(d map[string][]byte) { delete(d, corev1.TLSPrivateKeyKey) },
		"Garbage": func(d map[string][]byte) {
			d[keyBundle] = []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
		},
		"AnothersAuthority": func(d map[string][]byte) { d[keyBundle] = other.now.Data[keyBundle] },
		"AnothersServing":   func(d map[string][]byte) { d[corev1.TLSCertKey] = other.now.Data[corev1.TLSCertKey] },
		"SignedByAnother": func(d map[string][]byte) {
			d[corev1.TLSCertKey], d[corev1.TLSPrivateKeyKey] = other.now.Data[corev1.TLSCertKey], other.now.Data[corev1.TLSPrivateKeyKey]
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &secrets{now: good.now.DeepCopy()}
			s.now.Labels = map[string]string{"kept": "yes"}
			s.now.Data = maps.Clone(good.now.Data)
			edit(s.now.Data)
			k := open(t, s, c)
			if s.writes != 1 || trusts(t, k.Bundle(), k, "127.0.0.1") != nil || s.now.Labels["kept"] != "yes" {
				t.Errorf("%d writes, labels %v", s.writes, s.now.Labels)
			}
		})
	}
}

// Another replica has configured which certificate is trusted, and reads the Secret only once a minute.
func TestALostSecretIsWrittenAsItWas(t *testing.T) {
	for name, lose := range map[string]func(*secrets){
		"Deleted": func(s *secrets) { s.now = nil },
		"Emptied": func(s *secrets) { s.now.Data = nil },
	} {
		t.Run(name, func(t *testing.T) {
			s, c := &secrets{}, newClock()
			leader := open(t, s, c)
			follower := open(t, s, c)
			trusted, before := leader.Bundle(), maps.Clone(s.now.Data)
			lose(s)
			for _, k := range []*Keeper{follower, leader} {
				if err := k.Renew(t.Context()); err != nil {
					t.Fatal(err)
				}
				if err := trusts(t, trusted, k, "127.0.0.1"); err != nil {
					t.Error(err)
				}
			}
			if s.writes != 2 || !maps.EqualFunc(s.now.Data, before, bytes.Equal) {
				t.Errorf("%d writes", s.writes)
			}
			lose(s)
			c.Step(servingLife) // the content in memory has expired
			if err := follower.Renew(t.Context()); err != nil || trusts(t, trusted, follower, "127.0.0.1") != nil || !follower.Expires().After(c.Now()) {
				t.Errorf("it ends %v, %v", follower.Expires(), err)
			}
		})
	}
}

func TestWhatWorkedGoesOnWhileTheSecretCantBeRead(t *testing.T) {
	s, c := &secrets{}, newClock()
	k := open(t, s, c)
	s.err = apierrors.NewServiceUnavailable("down")
	if err := k.Renew(t.Context()); err == nil {
		t.Error("no error")
	}
	if trusts(t, k.Bundle(), k, "127.0.0.1") != nil {
		t.Error("it serves no more")
	}
	if _, err := Open(t.Context(), Options{Secrets: s, Name: "hook", Hosts: []string{"a"}, Now: c.Now}); err == nil {
		t.Error("it opened without a Secret")
	}
	if _, err := Open(t.Context(), Options{Secrets: &secrets{}, Name: "hook", Now: c.Now}); err == nil {
		t.Error("it is for no host")
	}
}

// O35: kube-apiserver, which learns of a new authority hours late, refuses no certificate that is served, wherever in the life of that one the
// authority is renewed.
func TestAnAuthorityChangesWithoutARefusedCall(t *testing.T) {
	const hour, late = time.Hour, 12 * time.Hour
	life := authorityLife * 2 / 3 / hour * hour // until an authority is due
	for before := time.Duration(0); before <= 3*24*hour; before += 3 * hour {
		c, s := newClock(), &secrets{}
		born := c.Now()
		open(t, s, c)
		// A certificate for other hosts is signed such that it is due around the time of its authority.
		c.SetTime(born.Add(life + 2*24*hour - servingLife*2/3 - before))
		k := open(t, s, c, "other.system.svc")
		known := [][]byte{k.Bundle()} // by the hour
		for c.SetTime(born.Add(life - 2*24*hour)); c.Now().Before(born.Add(life + 4*24*hour)); c.Step(hour) {
			if err := k.Renew(t.Context()); err != nil {
				t.Fatal(err)
			}
			known = append(known, k.Bundle())
			trusted := known[max(0, len(known)-1-int(late/hour))]
			if err := trusts(t, trusted, k, "other.system.svc"); err != nil {
				t.Fatalf("signed %s before: %s after its birth, the one that is served is refused: %v", before, c.Now().Sub(born), err)
			}
		}
		if bytes.Equal(known[0], known[len(known)-1]) {
			t.Fatal("the authority was not renewed")
		}
	}
}
