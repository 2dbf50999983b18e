package redis

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kapis.dev/ks-apiserver/pkg/api/session/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/pkg/token"
)

// raw returns the value stored under the name of a session.
func raw(t *testing.T, c *Sessions, name string) map[string]string {
	t.Helper()
	all, err := c.client.HGetAll(t.Context(), c.names.prefix+name).Result()
	if err != nil || len(all) == 0 {
		t.Fatalf("%v, %v", all, err)
	}
	return all
}

// unsealed writes a session to Redis as an older version did.
func unsealed(t *testing.T, c *Sessions, o *v1alpha1.Session) {
	t.Helper()
	b, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.client.HSet(t.Context(), c.names.prefix+o.Name, "v", "1", "o", string(b)).Err(); err != nil {
		t.Fatal(err)
	}
}

// Neither keys, values nor messages reveal the content of a session.
func TestWhatLiesInRedisIsSealed(t *testing.T) {
	c := newServer(t).client()
	sub := c.client.Subscribe(t.Context(), c.channel)
	t.Cleanup(func() { _ = sub.Close() })
	if _, err := sub.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	o := session("a")
	o.Spec.User, o.Groups = "canary-user", []string{"canary-group"}
	o, err := c.Create(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if o, err = c.Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		m, err := sub.ReceiveMessage(t.Context())
		if err != nil || !strings.Contains(m.Payload, o.Name) || strings.Contains(m.Payload, "canary") || strings.Contains(m.Payload, "{") {
			t.Errorf("message %v, %v", m, err)
		}
	}
	for field, value := range raw(t, c, o.Name) {
		if strings.Contains(value, "canary") || strings.Contains(value, "{") {
			t.Errorf("%s = %s", field, value)
		}
	}
	if got, err := c.Get(t.Context(), o.Name); err != nil || got.Spec.User != "canary-user" || got.Groups[0] != "canary-group" {
		t.Errorf("read %v, %v", got, err)
	}
}

// A client that can write to Redis can neither create a session, nor replace one by another.
func TestOnlyWhatWasSealedForItsNameIsASession(t *testing.T) {
	s := newServer(t)
	c := s.client()
	mine, victims := create(t, c, "mine"), create(t, c, "victims")
	foreign, err := token.Generate(time.Now().Add(-time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	other := newClient(t, Options{Addresses: []string{s.Address}, Password: password, DB: 1, Keys: foreign})
	sealed := raw(t, c, victims.Name)["o"]
	plain, err := json.Marshal(victims)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"another's":       sealed,
		"unsealed":        string(plain),
		"changed":         raw(t, c, mine.Name)["o"][1:],
		"of another key":  raw(t, other, create(t, other, "mine").Name)["o"],
		"nothing":         "",
		"random":          rand.Text(),
		"a form of JSON":  " " + string(plain),
		"a list":          "[]",
		"sealed and more": sealed + "AAAA",
	} {
		if err := c.client.HSet(t.Context(), c.names.prefix+mine.Name, "o", value).Err(); err != nil {
			t.Fatal(err)
		}
		if got, err := c.Get(t.Context(), mine.Name); err == nil || apierrors.IsNotFound(err) {
			t.Errorf("%s: read %v, %v", name, got, err)
		}
		k := newSink()
		k.Set(&store.Object{Name: mine.Name, Raw: plain})
		one := &feed{Sessions: c, sink: k, known: map[string]struct{}{}}
		one.set(mine.Name, value, 7)
		if k.version(mine.Name) != "" {
			t.Errorf("%s: the feed tells of it", name)
		}
	}
	if _, err := c.Get(t.Context(), victims.Name); err != nil {
		t.Error(err)
	}
}

// Sessions of an older version are accepted as long as the configuration says, and sealed by their next change.
func TestSessionsOfAnOlderVersionCountForATime(t *testing.T) {
	s := newServer(t)
	strict := s.client()
	c := newClient(t, Options{Addresses: []string{s.Address}, Password: password, AcceptUnsealed: time.Now().Add(time.Hour)})
	stays, goes := session("stays"), session("goes")
	stays.UID, goes.UID = "uid-stays", "uid-goes"
	unsealed(t, c, stays)
	unsealed(t, c, goes)
	if _, err := strict.Get(t.Context(), stays.Name); err == nil || !strings.Contains(err.Error(), "acceptUnsealedUntil") {
		t.Errorf("read without leave: %v", err)
	}
	k := newSink()
	follow(t, c, k)
	waitFor(t, func() bool { return k.version(stays.Name) == "1" && k.version(goes.Name) == "1" })
	got, err := c.Get(t.Context(), stays.Name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Update(t.Context(), got); err != nil {
		t.Fatal(err)
	}
	if _, err := strict.Get(t.Context(), stays.Name); err != nil {
		t.Errorf("after its change: %v", err)
	}
	if err := c.Delete(t.Context(), goes.Name, "another"); !apierrors.IsConflict(err) {
		t.Errorf("another's: %v", err)
	}
	for _, o := range []*v1alpha1.Session{goes, stays} {
		if err := c.Delete(t.Context(), o.Name, o.UID); err != nil {
			t.Error(err)
		}
	}
}

// A session that was sealed with the previous key is opened by a replica that has the next one.
func TestSessionsOutliveTheKeyThatSealedThem(t *testing.T) {
	now := time.Now()
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	random := func() []byte {
		b := make([]byte, 64)
		_, _ = rand.Read(b) // never fails (crypto/rand)
		return b
	}
	signing := []token.SigningKey{{ID: "k", Private: private, Created: now.Add(-time.Hour), NotBefore: now.Add(-time.Hour)}}
	old := token.MACKey{ID: "old", Secret: random(), Created: now.Add(-time.Hour), NotBefore: now.Add(-time.Hour)}
	next := token.MACKey{ID: "next", Secret: random(), Created: now, NotBefore: now.Add(-time.Minute)}
	set := func(macs ...token.MACKey) *token.KeySet {
		s, err := token.NewKeySet(signing, macs)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := newServer(t)
	before := newClient(t, Options{Addresses: []string{s.Address}, Password: password, Keys: set(old)})
	o := create(t, before, "a")
	old.Retire = now.Add(-time.Second)
	after := newClient(t, Options{Addresses: []string{s.Address}, Password: password, Keys: set(old, next)})
	got, err := after.Get(t.Context(), o.Name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := after.Update(t.Context(), got); err != nil {
		t.Fatal(err)
	}
	if _, err := before.Get(t.Context(), o.Name); err == nil {
		t.Error("sealed with the key of before")
	}
}
