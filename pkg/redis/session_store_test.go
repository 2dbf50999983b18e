package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kapis.dev/ks-apiserver/pkg/api/session/v1alpha1"
)

// The answers are those of the Kubernetes API.
func TestSessionsLiveAsInTheKubernetesAPI(t *testing.T) {
	c := newServer(t).client()
	ctx := t.Context()
	made := create(t, c, "a")
	if made.UID == "" || made.ResourceVersion == "" || made.Generation == 0 || made.CreationTimestamp.IsZero() {
		t.Errorf("made %+v", made.ObjectMeta)
	}
	if _, err := c.Create(ctx, session("a")); !apierrors.IsAlreadyExists(err) {
		t.Errorf("made twice: %v", err)
	}
	got, err := c.Get(ctx, made.Name)
	if err != nil || got.UID != made.UID || got.ResourceVersion != made.ResourceVersion || got.Spec.User != "alice" {
		t.Fatalf("read %+v, %v", got, err)
	}
	got.Groups = []string{"dev"}
	next, err := c.Update(ctx, got)
	if err != nil || next.Generation <= made.Generation || next.UID != made.UID {
		t.Fatalf("changed %+v, %v", next, err)
	}
	if _, err := c.Update(ctx, made); !apierrors.IsConflict(err) {
		t.Errorf("changed on old knowledge: %v", err)
	}
	if err := c.Delete(ctx, made.Name, "another"); !apierrors.IsConflict(err) {
		t.Errorf("another's: %v", err)
	}
	if err := c.Delete(ctx, made.Name, made.UID); err != nil {
		t.Error(err)
	}
	for name, err := range map[string]error{
		"read":   second(c.Get(ctx, made.Name)),
		"change": second(c.Update(ctx, next)),
		"delete": c.Delete(ctx, made.Name, ""),
	} {
		if !apierrors.IsNotFound(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func second(_ *v1alpha1.Session, err error) error { return err }

func TestOneOfManyParallelChangesIsTaken(t *testing.T) {
	s := newServer(t)
	clients := []*Sessions{s.client(), s.client()}
	made := create(t, clients[0], "a")
	for what, do := range map[string]func(c *Sessions) error{
		"update": func(c *Sessions) error { return second(c.Update(t.Context(), made)) },
		"create": func(c *Sessions) error { return second(c.Create(t.Context(), session("b"))) },
	} {
		var ok, no atomic.Int64
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() {
				switch err := do(clients[i%2]); {
				case err == nil:
					ok.Add(1)
				case apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err):
					no.Add(1)
				default:
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if ok.Load() != 1 || no.Load() != 49 {
			t.Errorf("%s: %d taken, %d refused", what, ok.Load(), no.Load())
		}
	}
}

func TestSessionThatIsOverLeavesRedisByItself(t *testing.T) {
	c := newServer(t).client()
	o := session("a")
	o.Spec.ExpiresAt = metav1.NewTime(time.Now().Add(-afterlife + 1500*time.Millisecond))
	if _, err := c.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { return apierrors.IsNotFound(second(c.Get(t.Context(), o.Name))) })
}

func TestFeedTellsWhatWasAndWhatComes(t *testing.T) {
	s := newServer(t)
	writer, reader := s.client(), s.client()
	for i := range 3 * scanStep {
		create(t, writer, fmt.Sprint("old", i))
	}
	k := newSink()
	follow(t, reader, k)
	waitFor(t, func() bool { return reader.Place() == Prefix })
	if len(k.all) != 3*scanStep {
		t.Errorf("%d listed", len(k.all))
	}
	o := create(t, writer, "new")
	o, err := writer.Update(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { return k.version(o.Name) == o.ResourceVersion })
	if err := writer.Delete(t.Context(), o.Name, ""); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { return k.deleted(o.Name) })
}

// U26: a lost Redis is reported by the readiness; the feed recovers by itself, and finds what it missed.
func TestLostRedisHeals(t *testing.T) {
	s := newServer(t)
	writer, reader := s.client(), s.client()
	stays, goes := create(t, writer, "stays"), create(t, writer, "goes")
	k := newSink()
	follow(t, reader, k)
	waitFor(t, func() bool { return k.version(goes.Name) != "" && reader.Place() == Prefix && reader.Fault() == nil })

	s.Kill()
	waitFor(t, func() bool { return reader.Place() == "" })
	if err := reader.Fault(); err == nil || strings.Contains(err.Error(), password) {
		t.Errorf("fault %v", err)
	}
	if _, err := reader.Create(t.Context(), session("x")); err == nil || apierrors.IsAlreadyExists(err) {
		t.Errorf("a write to nowhere: %v", err)
	}
	if k.deleted(stays.Name) || k.version(stays.Name) == "" {
		t.Error("a known session is forgotten while Redis is lost")
	}

	s.Start()
	if err := deleteWhenBack(t, writer, goes.Name); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { return reader.Place() == Prefix && k.deleted(goes.Name) })
	if k.version(stays.Name) == "" {
		t.Error("lost in the restart")
	}
}

func deleteWhenBack(t *testing.T, c *Sessions, name string) (err error) {
	t.Helper()
	waitFor(t, func() bool {
		err = c.Delete(t.Context(), name, "")
		return err == nil || apierrors.IsNotFound(err)
	})
	return err
}

// U26: a Redis that is down when the program starts does not stop it.
func TestRedisThatIsDownAtTheStartComesLater(t *testing.T) {
	s := newServer(t)
	create(t, s.client(), "a")
	s.Kill()
	c, k := s.client(), newSink()
	if c.Place() != "" || !errors.Is(c.Fault(), errNotYet) {
		t.Error("good before the first contact")
	}
	follow(t, c, k)
	waitFor(t, func() bool { return !errors.Is(c.Fault(), errNotYet) })
	s.Start()
	waitFor(t, func() bool { return k.version(Prefix+"a") != "" && c.Place() == Prefix })
}

// Two installations share a server, each with its own database.
func TestDatabasesHearNothingOfEachOther(t *testing.T) {
	s := newServer(t)
	one, other := s.database(0), s.database(1)
	mine := create(t, one, "mine")
	k := newSink()
	follow(t, one, k)
	waitFor(t, func() bool { return one.Place() == Prefix })
	create(t, one, "second")
	create(t, other, "theirs") // its count is 1
	namesake, err := other.Create(t.Context(), session("mine"))
	if err != nil {
		t.Fatal(err)
	}
	create(t, other, "third") // its count is the next one of the first database
	if err := other.Delete(t.Context(), namesake.Name, ""); err != nil {
		t.Fatal(err)
	}
	last := create(t, one, "last")
	waitFor(t, func() bool { return k.version(last.Name) == last.ResourceVersion })
	if k.version(Prefix+"third") != "" || k.version(Prefix+"theirs") != "" {
		t.Error("told of another database's session")
	}
	if k.deleted(mine.Name) {
		t.Error("another database's deletion was taken for one here")
	}
}

// A message that did not arrive is detected by the count of the next one, or by the next check.
func TestMissedChangeIsFound(t *testing.T) {
	f := &feed{Sessions: newServer(t).client(), sink: newSink(), known: map[string]struct{}{}, last: 4}
	if err := f.tell("6 r-a {}"); !errors.Is(err, errMissed) {
		t.Errorf("got %v", err)
	}
	for _, payload := range []string{"", "x", "5", "5 r-a", "x r-a {}", "5 other {}", "4 r-a {}", "3 r-a "} {
		if err := f.tell(payload); err != nil || f.last != 4 {
			t.Errorf("%q: %v, last %d", payload, err, f.last)
		}
	}
	if err := f.tell("5 r-a "); err != nil || f.last != 5 {
		t.Error("the next one is not taken")
	}
	if err := f.check(t.Context()); !errors.Is(err, errMissed) {
		t.Errorf("the count went back: %v", err)
	}
	f.last = 0
	for _, name := range []string{"a", "b"} {
		if err := f.check(t.Context()); err != nil {
			t.Errorf("what was made just now may be on its way: %v", err)
		}
		create(t, f.Sessions, name)
		f.last++
	}
	f.last--
	if err := f.check(t.Context()); err != nil {
		t.Errorf("what was made just now may be on its way: %v", err)
	}
	if err := f.check(t.Context()); !errors.Is(err, errMissed) {
		t.Errorf("a change has not come by the next look: %v", err)
	}
}

// A replica whose feed is never idle also has to detect that Redis works again.
func TestBusyReplicaReturnsToRedisAfterACallThatFailed(t *testing.T) {
	s := newServer(t)
	writer, reader := s.client(), s.client()
	reader.checkEvery = 20 * time.Millisecond
	k := newSink()
	follow(t, reader, k)
	waitFor(t, func() bool { return reader.Place() == Prefix })
	o := create(t, writer, "busy")
	reader.lost(errNotYet)
	waitFor(t, func() bool {
		var err error
		if o, err = writer.Update(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		return reader.Place() == Prefix
	})
	waitFor(t, func() bool { return k.version(o.Name) == o.ResourceVersion })
}

// A caller who disconnects, or whose deadline is too short, does not make Redis count as lost.
func TestCallerWhoLeavesLosesNoRedis(t *testing.T) {
	c := newServer(t).client()
	follow(t, c, newSink())
	waitFor(t, func() bool { return c.Place() == Prefix })
	left, leave := context.WithCancel(t.Context())
	leave()
	late, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()
	<-late.Done()
	for _, ctx := range []context.Context{left, late} {
		for what, err := range map[string]error{
			"read":   second(c.Get(ctx, Prefix+"a")),
			"create": second(c.Create(ctx, session("a"))),
			"delete": c.Delete(ctx, Prefix+"a", ""),
		} {
			if err == nil || c.Place() != Prefix {
				t.Errorf("%s: %v, lost: %v", what, err, c.Fault())
			}
		}
	}
}

func FuzzTell(f *testing.F) {
	f.Add("1 r-a {}")
	f.Add(`1 r-a {"metadata":{"name":"r-a","uid":"u"},"spec":{"user":"x"}}`)
	f.Add("1 r-a ")
	set, err := keys()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, payload string) {
		k := newSink()
		one := &feed{Sessions: &Sessions{keys: set, acceptUnsealed: time.Now().Add(time.Hour)}, sink: k, known: map[string]struct{}{}}
		_ = one.tell(payload) // it must not panic, nor pass on an object with another name
		for name := range k.all {
			if !strings.HasPrefix(name, Prefix) {
				t.Errorf("told of %q", name)
			}
		}
	})
}
