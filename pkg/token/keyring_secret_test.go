package token

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

const namespace = "kubesphere-system"

func open(t *testing.T, client *fake.Clientset) *Keyring {
	t.Helper()
	k, err := OpenKeyring(t.Context(), client.CoreV1().Secrets(namespace), start)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestReplicasShareTheKeysOfTheFirst(t *testing.T) {
	client := fake.NewClientset()
	rings := make([]*Keyring, 4)
	var wg sync.WaitGroup
	for i := range rings {
		wg.Go(func() {
			k, err := OpenKeyring(t.Context(), client.CoreV1().Secrets(namespace), start)
			if err != nil {
				t.Error(err)
			}
			rings[i] = k
		})
	}
	wg.Wait()
	for _, k := range rings[1:] {
		if string(k.KeySet().JWKS()) != string(rings[0].KeySet().JWKS()) {
			t.Error("two replicas have different keys")
		}
	}
	s, _ := rings[0].KeySet().NewRefresh("s1", 1, start())
	if r, _ := ParseRefresh(s); !rings[3].KeySet().MadeRefresh(r, start()) {
		t.Error("a refresh token of one replica is unknown to another")
	}
}

func TestKeySetSurvivesItsSecret(t *testing.T) {
	f := newFixture(t)
	b, err := f.keys.Encode()
	if err != nil {
		t.Fatal(err)
	}
	back, err := Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.verify(t, back).Access(f.access(t)); err != nil {
		t.Error(err)
	}
	again, _ := back.Encode()
	if string(again) != string(b) {
		t.Error("written differently the second time")
	}
}

// S31, T8725-2: weak keys are refused, and the refusal does not print them.
func TestDecodeRefuses(t *testing.T) {
	f := newFixture(t)
	good, _ := f.keys.Encode()
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	change := func(edit func(*storedSet)) []byte {
		var s storedSet
		if err := json.Unmarshal(good, &s); err != nil {
			t.Fatal(err)
		}
		edit(&s)
		b, _ := json.Marshal(s)
		return b
	}
	for name, b := range map[string][]byte{
		"nothing":          nil,
		"too much":         make([]byte, maxSecret+1),
		"no JSON":          []byte("canary"),
		"no keys":          []byte("{}"),
		"short MAC":        change(func(s *storedSet) { s.MAC[0].Key = []byte("canary") }),
		"MAC of zeros":     change(func(s *storedSet) { s.MAC[0].Key = make([]byte, 64) }),
		"no MAC":           change(func(s *storedSet) { s.MAC = nil }),
		"two of one id":    change(func(s *storedSet) { s.Signing = append(s.Signing, s.Signing[0]) }),
		"no id":            change(func(s *storedSet) { s.Signing[0].ID = "" }),
		"other algorithm":  change(func(s *storedSet) { s.Signing[0].Algorithm = "HS256" }),
		"no PEM":           change(func(s *storedSet) { s.Signing[0].PrivateKey = "canary" }),
		"PEM of something": change(func(s *storedSet) { s.Signing[0].PrivateKey = "-----BEGIN X-----\nY2FuYXJ5\n-----END X-----\n" }),
		"too many":         change(func(s *storedSet) { s.MAC = append(s.MAC, make([]storedMAC, maxKeys)...) }),
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Decode(b); err == nil || strings.Contains(err.Error(), "canary") {
				t.Errorf("got %v", err)
			}
		})
	}
	if _, err := NewKeySet([]SigningKey{{ID: "w", Private: weak}}, f.keys.macs); err == nil {
		t.Error("a key of 1024 bits was accepted")
	}
}

func TestSecretThatCanNotBeReadIsAnErrorThatSaysWhatToDo(t *testing.T) {
	client := fake.NewClientset(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: SecretName},
		Data: map[string][]byte{SecretKey: []byte("canary")}})
	_, err := OpenKeyring(t.Context(), client.CoreV1().Secrets(namespace), start)
	if err == nil || !strings.Contains(err.Error(), SecretName) || !strings.Contains(err.Error(), "delete it") || strings.Contains(err.Error(), "canary") {
		t.Errorf("got %v", err)
	}
}

func TestFailingAPIIsAnErrorOfOpen(t *testing.T) {
	client := fake.NewClientset()
	broken := errors.New("connection refused")
	client.PrependReactor("get", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, broken })
	if _, err := OpenKeyring(t.Context(), client.CoreV1().Secrets(namespace), start); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

func TestAdoptTakesGoodKeysAndKeepsThemWhenTheSecretBreaks(t *testing.T) {
	k := open(t, fake.NewClientset())
	first := k.KeySet()
	secret := func(data []byte) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: SecretName}, Data: map[string][]byte{SecretKey: data}}
	}
	same, _ := first.Encode()
	k.adopt(secret(same))
	if k.KeySet() != first {
		t.Error("a Secret with the same keys made a new set")
	}
	k.adopt(secret([]byte("broken")))
	if k.KeySet() != first {
		t.Error("a broken Secret changed the keys")
	}
	other, _ := Generate(start())
	b, _ := other.Encode()
	wrong := secret(b)
	wrong.Name = "another"
	k.adopt(wrong)
	if k.KeySet() != first {
		t.Error("another Secret changed the keys")
	}
	k.adopt(secret(b))
	if string(k.KeySet().JWKS()) != string(other.JWKS()) {
		t.Error("new keys were not taken")
	}
}

// watched is a Secrets client whose watch the test writes.
type watched struct {
	Secrets
	events *watch.RaceFreeFakeWatcher
}

func (w watched) Watch(context.Context, metav1.ListOptions) (watch.Interface, error) {
	return w.events, nil
}

func (watched) IsWatchListSemanticsUnSupported() bool { return true }

func TestRunFollowsTheSecretAndMakesItAnewWhenItIsDeleted(t *testing.T) {
	client := fake.NewClientset()
	secrets := client.CoreV1().Secrets(namespace)
	events := watch.NewRaceFreeFake()
	k, err := OpenKeyring(t.Context(), watched{secrets, events}, start)
	if err != nil {
		t.Fatal(err)
	}
	first := string(k.KeySet().JWKS())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); k.Run(ctx) }()
	defer func() { cancel(); <-done }()

	other, _ := Generate(start())
	b, _ := other.Encode()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: SecretName, ResourceVersion: "100"},
		Data: map[string][]byte{SecretKey: b}}
	events.Modify(secret)
	waitFor(t, func() bool { return string(k.KeySet().JWKS()) == string(other.JWKS()) })
	if err := secrets.Delete(ctx, SecretName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	events.Delete(secret)
	waitFor(t, func() bool {
		j := string(k.KeySet().JWKS())
		return j != first && j != string(other.JWKS())
	})
	if _, err := secrets.Get(ctx, SecretName, metav1.GetOptions{}); err != nil {
		t.Error("the new keys are not stored:", err)
	}
}

// waitFor polls until another goroutine has done something, or the test's own deadline passes.
func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-t.Context().Done():
			t.Fatal("it never happened")
		case <-tick.C:
		}
	}
}

func FuzzDecode(f *testing.F) {
	good, _ := newFixture(f).keys.Encode()
	for _, b := range [][]byte{good, nil, []byte("{}"), []byte(`{"signing":[{}],"mac":[{}]}`)} {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, err := Decode(b); err == nil && (len(s.signing) == 0 || len(s.macs) == 0) {
			t.Error("a set without keys")
		}
	})
}
