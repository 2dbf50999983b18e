package store

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/store/feed"
	"kapis.dev/ks-apiserver/pkg/store/index"
	"kapis.dev/ks-apiserver/pkg/store/storetest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
)

const nodesPath = "/api/v1/nodes"

// condition returns the state of one kind.
func condition(st *Store, gvr schema.GroupVersionResource) Condition {
	for _, c := range st.Conditions() {
		if c.GVR == gvr {
			return c
		}
	}
	return Condition{}
}

// serves waits until the snapshot of pods has exactly these names, in order.
func serves(t testing.TB, st *Store, want string) {
	t.Helper()
	untilSnapshot(t, st, want, func(s *index.Snapshot) bool { return fmt.Sprint(namesIn(s.ByName(index.All()))) == want })
}

// answersAtOnce fails unless pods are answered from memory with n objects.
func answersAtOnce(t testing.TB, st *Store, n int) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // nothing can be waited for
	if snap, err := st.Snapshot(ctx, podsGVR); err != nil || snap.Len() != n {
		t.Errorf("while kube-apiserver is away: %v", err)
	}
}

// withTwoPods returns a server of the pods one and two, a store that has them, and a sink that it feeds.
func withTwoPods(t testing.TB) (*server, *Store, *recorder) {
	t.Helper()
	srv := newServer(t)
	srv.put(podsPath, storetest.Pod("a", "one"))
	srv.put(podsPath, storetest.Pod("a", "two"))
	st := newStore(t, srv)
	sink := newRecorder()
	st.Feed(podsGVR, sink)
	serves(t, st, "[a/one a/two]")
	return srv, st, sink
}

// kube-apiserver restarts: cached objects are answered, the fault is reported, and the watch continues where it was, without
// another list. Changes made meanwhile are seen, deletions included.
func TestARestartOfKubeAPIServerCostsNoList(t *testing.T) {
	srv, st, sink := withTwoPods(t)
	srv.stop()
	eventually(t, "the fault shows", func() bool { return condition(st, podsGVR).Err != nil })
	answersAtOnce(t, st, 2)
	srv.remove(podsPath, "a/one")
	srv.put(podsPath, storetest.Pod("a", "three"))
	srv.start(t)
	serves(t, st, "[a/three a/two]")
	sink.until(t, "the deletion", func(m map[string]*Object) bool { return len(m) == 2 && m["a/one"] == nil })
	c := condition(st, podsGVR)
	if c.Err != nil || c.Resyncs != 0 || c.Restarts == 0 || c.Failed.IsZero() {
		t.Errorf("after it: %+v", c)
	}
	if lists, _ := srv.counts(podsPath); lists != 0 { // U13
		t.Errorf("%d lists", lists)
	}
}

// A backup of etcd is restored while kube-apiserver is away, and its versions go back: a watch from the last version would wait in
// silence for the versions to come. After a long outage everything is read again.
func TestABackupThatWasRestoredDuringAnOutageWins(t *testing.T) {
	srv := newServer(t)
	srv.put(podsPath, storetest.Pod("a", "one"))
	srv.put(podsPath, storetest.Pod("a", "lost"))
	st := newStore(t, srv, func(o *Options) { o.MaxOutage = time.Nanosecond })
	sink := newRecorder()
	st.Feed(podsGVR, sink)
	serves(t, st, "[a/lost a/one]")
	lost := untilSnapshot(t, st, "its version", func(*index.Snapshot) bool { return true }).ResourceVersion()
	srv.stop()
	eventually(t, "the fault shows", func() bool { return condition(st, podsGVR).Err != nil })
	srv.mu.Lock()
	srv.version, srv.history, srv.objects[podsPath] = 1, nil, map[string]string{
		"a/one": strings.ReplaceAll(storetest.Pod("a", "one"), "%RV%", "1"),
	}
	srv.mu.Unlock()
	srv.start(t)
	serves(t, st, "[a/one]")
	sink.until(t, "the state of the backup", func(m map[string]*Object) bool { return len(m) == 1 && m["a/one"] != nil })
	snap := untilSnapshot(t, st, "its version", func(s *index.Snapshot) bool { return s.ResourceVersion() == "1" })
	if _, ok := snap.After(lost); ok {
		t.Errorf("a client goes on from version %s, which never was", lost)
	}
	if at, ok := snap.After("1"); !ok || at != snap.Position() {
		t.Error("a client does not go on from the restored version")
	}
}

// An object of a restored backup may have the version that another state of it had before.
func TestARestoredObjectOfTheSameVersionIsTold(t *testing.T) {
	srv := newServer(t)
	srv.put(podsPath, storetest.Pod("a", "one", `"state":"lost"`))
	st := newStore(t, srv)
	sink := newRecorder()
	st.Feed(podsGVR, sink)
	serves(t, st, "[a/one]")
	srv.mu.Lock()
	srv.objects[podsPath]["a/one"] = strings.Replace(srv.objects[podsPath]["a/one"], "lost", "kept", 1)
	srv.mu.Unlock()
	srv.cut(podsPath, http.StatusGone)
	sink.until(t, "the state of the backup", func(m map[string]*Object) bool {
		return strings.Contains(string(m["a/one"].Raw), "kept")
	})
	untilSnapshot(t, st, "the state of the backup", func(s *index.Snapshot) bool {
		r, ok := s.Get("a", "one")
		return ok && strings.Contains(r.JSON.String(), "kept")
	})
}

// A watch cache that was restarted can't say what was missed: everything is streamed again, without a full list.
func TestARestartThatForgotTheHistoryIsStreamedAnew(t *testing.T) {
	srv, st, sink := withTwoPods(t)
	srv.stop()
	srv.vanish(podsPath, "a/one")
	srv.set(podsPath, fault{expired: true})
	srv.start(t)
	serves(t, st, "[a/two]")
	sink.until(t, "the deletion", func(m map[string]*Object) bool { return len(m) == 1 })
	eventually(t, "it heals", func() bool { c := condition(st, podsGVR); return c.Err == nil && c.Resyncs == 1 })
	if lists, _ := srv.counts(podsPath); lists != 0 { // U13
		t.Errorf("%d lists", lists)
	}
}

// One kube-apiserver of several answers from a cache that stands still. What is listed again comes from elsewhere: nothing
// that was deleted comes back, not even for a moment.
func TestAListIsNeverOlderThanWhatWasKnown(t *testing.T) {
	for name, feeds := range map[string]bool{"OfAKindThatFeeds": true, "OfAKindThatIsAskedFor": false} {
		t.Run(name, func(t *testing.T) {
			srv := newServer(t)
			srv.set(podsPath, fault{noWatchList: true})
			srv.put(podsPath, storetest.Pod("a", "one"))
			st := newStore(t, srv)
			sink := newRecorder()
			if feeds {
				srv.lag(podsPath) // known to a former process: the first list is not to be older either
				srv.put(podsPath, storetest.Pod("a", "zero"))
				srv.remove(podsPath, "a/one")
				st.Feed(podsGVR, sink)
				serves(t, st, "[a/zero]")
				srv.remove(podsPath, "a/zero")
				srv.put(podsPath, storetest.Pod("a", "one"))
			}
			serves(t, st, "[a/one]")
			srv.lag(podsPath)
			srv.put(podsPath, storetest.Pod("a", "two"))
			srv.remove(podsPath, "a/one")
			serves(t, st, "[a/two]")
			srv.cut(podsPath, http.StatusGone)
			eventually(t, "another list", func() bool { return condition(st, podsGVR).Resyncs == 1 })
			serves(t, st, "[a/two]")
			if log := strings.Join(sink.log, ","); feeds && log != "set zero,delete zero,set one,set two,delete one" {
				t.Errorf("the sink was told: %s", log)
			}
		})
	}
}

// A restored backup of etcd has lower versions than what was known, and is right.
func TestARestoredBackupWins(t *testing.T) {
	for name, f := range map[string]fault{"WatchList": {}, "PlainList": {noWatchList: true}} {
		t.Run(name, func(t *testing.T) {
			srv := newServer(t)
			srv.set(podsPath, f)
			srv.put(podsPath, storetest.Pod("a", "one"))
			st := newStore(t, srv)
			sink := newRecorder()
			st.Feed(podsGVR, sink)
			serves(t, st, "[a/one]")
			eventually(t, "the watch", func() bool { _, streams := srv.counts(podsPath); return streams == 1 })
			srv.mu.Lock()
			srv.version, srv.history, srv.objects[podsPath] = 7, nil, map[string]string{
				"a/two": strings.ReplaceAll(storetest.Pod("a", "two"), "%RV%", "5"),
			}
			srv.mu.Unlock()
			srv.cut(podsPath, http.StatusGone)
			serves(t, st, "[a/two]")
			sink.until(t, "the state of the backup", func(m map[string]*Object) bool { return len(m) == 1 && m["a/two"] != nil })
			if snap := untilSnapshot(t, st, "its version", func(*index.Snapshot) bool { return true }); snap.ResourceVersion() != "7" {
				t.Errorf("version %s", snap.ResourceVersion())
			}
		})
	}
}

// Pages of a list that expire while it is read are no reason to fail: the list is read at once instead.
func TestExpiredContinueTokenIsListedAtOnce(t *testing.T) {
	srv := newServer(t)
	srv.set(podsPath, fault{noWatchList: true, page: 1})
	srv.put(podsPath, storetest.Pod("a", "one"))
	srv.put(podsPath, storetest.Pod("a", "two"))
	serves(t, newStore(t, srv), "[a/one a/two]")
}

// stall is long for a server that answers at all, on a busy machine too, and short for a test.
const stall = 250 * time.Millisecond

// After a complete list, a server that accepts requests and sends nothing degrades its kind alone: for as long as it does,
// visibly, and with the objects as they were.
func TestSilentServers(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault fault
		shows bool // no answer is an error; no event is none
	}{
		{"NeverAnswersAWatch", fault{hangWatch: true}, true},
		{"TakesAWatchAndSaysNothing", fault{mute: true}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv := newServer(t)
			srv.put(podsPath, storetest.Pod("a", "one"))
			srv.put(nodesPath, strings.Replace(storetest.Pod("", "n1"), `"kind":"Pod"`, `"kind":"Node"`, 1))
			st := newStore(t, srv, func(o *Options) { o.StallAfter = stall })
			serves(t, st, "[a/one]")
			srv.set(podsPath, c.fault)
			srv.cut(podsPath, 0)
			if c.shows {
				eventually(t, "the fault shows", func() bool { return errors.Is(condition(st, podsGVR).Err, feed.ErrSilent) })
			} else {
				before := condition(st, podsGVR).Restarts
				eventually(t, "the watch is opened anew", func() bool { return condition(st, podsGVR).Restarts > before+1 })
			}
			answersAtOnce(t, st, 1)
			untilOther(t, st)
			srv.put(podsPath, storetest.Pod("a", "two"))
			srv.set(podsPath, fault{})
			serves(t, st, "[a/one a/two]")
			eventually(t, "it heals", func() bool { return condition(st, podsGVR).Err == nil })
			if c := condition(st, podsGVR); c.Resyncs != 0 {
				t.Errorf("%d resyncs", c.Resyncs)
			}
		})
	}
}

// U14: neither a bookmark nor a list ever arrives: a 503 with the reason for this kind, after its deadline.
func TestAKindThatNeverSyncsSaysSo(t *testing.T) {
	srv := newServer(t)
	srv.set(podsPath, fault{noBookmark: true, hang: true})
	srv.put(podsPath, storetest.Pod("a", "one"))
	srv.put(nodesPath, strings.Replace(storetest.Pod("", "n1"), `"kind":"Pod"`, `"kind":"Node"`, 1))
	st := newStore(t, srv, func(o *Options) { o.StallAfter, o.SyncWait = stall, 10*time.Millisecond })
	eventually(t, "the deadline", func() bool {
		_, err := st.Snapshot(context.Background(), podsGVR)
		return err != nil && errors.Is(condition(st, podsGVR).Err, errStalled)
	})
	untilOther(t, st)
	if c := condition(st, podsGVR); c.Synced || c.Since.IsZero() || c.Failed.IsZero() {
		t.Errorf("condition: %+v", c)
	}
}

// A burst arrives whole, and other kinds are answered meanwhile.
func TestAHundredThousandObjectsAtOnce(t *testing.T) {
	const half = 50_000
	pod := func(from int) func(int) string {
		return func(i int) string {
			return fmt.Sprintf(`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p%d","namespace":"a","uid":"u%d","resourceVersion":"%%RV%%",`+
				`"labels":{"i":"%d"}}}`, from+i, from+i, i%10)
		}
	}
	srv := newServer(t)
	srv.put(nodesPath, strings.Replace(storetest.Pod("", "n1"), `"kind":"Pod"`, `"kind":"Node"`, 1))
	srv.fill(podsPath, half, pod(0))
	st := newStore(t, srv)
	untilSnapshot(t, st, "what was there", func(s *index.Snapshot) bool { return s.Len() == half })
	done := make(chan struct{})
	go func() {
		defer close(done)
		srv.fill(podsPath, half, pod(half))
	}()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for filling := true; filling; {
		select {
		case <-done:
			filling = false
		case <-tick.C:
			untilOther(t, st)
		}
	}
	snap := untilSnapshot(t, st, "all of them", func(s *index.Snapshot) bool { return s.Len() == 2*half })
	if n := snap.ByCreated(index.HasLabel("i", "3")).Len(); n != 2*half/10 {
		t.Errorf("%d have the label", n)
	}
	if c := condition(st, podsGVR); c.Resyncs != 0 || c.Err != nil || c.Events.Added != 2*half {
		t.Errorf("condition: %+v", c)
	}
}

// A definition that is deleted and created again with another scope or version is another kind of the same name.
func TestCustomResourcesThatAreMadeAnew(t *testing.T) {
	const v1, v2, crds = "/apis/zoo.example.com/v1/animals", "/apis/zoo.example.com/v2/animals", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	animal := func(namespace, name string) string {
		return strings.Replace(storetest.Pod(namespace, name), `"kind":"Pod"`, `"kind":"Animal"`, 1)
	}
	definition := strings.Replace(storetest.Pod("", "animals.zoo.example.com"), `"kind":"Pod"`, `"kind":"CustomResourceDefinition"`, 1)
	srv := newServer(t)
	d := &discovered{kinds: map[schema.GroupVersion][]metav1.APIResource{zooV1: resources(true, "animals")}}
	st := newStore(t, srv, func(o *Options) { o.Discovery = d })
	srv.put(crds, definition)
	srv.put(v1, animal("a", "lion"))
	sink := newRecorder()
	st.Feed(zooV1.WithResource("animals"), sink)
	sink.until(t, "the lion", func(m map[string]*Object) bool { return m["a/lion"] != nil })
	holds := func(gvr schema.GroupVersionResource, key string) func() bool {
		return func() bool {
			snap, err := st.Snapshot(context.Background(), gvr)
			if err != nil || snap.Len() != 1 {
				return false
			}
			namespace, name, _ := strings.Cut(key, "/")
			_, ok := snap.Get(namespace, name)
			return ok
		}
	}
	eventually(t, "the lion", holds(zooV1.WithResource("animals"), "a/lion"))

	// Deleted: the server ends the watch and no longer knows the path. No event says that the objects are gone.
	srv.vanish(v1, "a/lion")
	srv.set(v1, fault{status: http.StatusNotFound})
	srv.cut(v1, 0)
	eventually(t, "the fault shows", func() bool { return condition(st, zooV1.WithResource("animals")).Err != nil })
	srv.put(v1, animal("", "tiger"))
	srv.set(v1, fault{})
	d.set(func() { d.kinds[zooV1] = resources(false, "animals") })
	srv.put(crds, definition)
	eventually(t, "the tiger, which is in no namespace", holds(zooV1.WithResource("animals"), "/tiger"))
	sink.until(t, "the tiger alone", func(m map[string]*Object) bool { return len(m) == 1 && m["/tiger"] != nil })
	eventually(t, "the new scope", func() bool {
		k, err := st.Catalog().Resolve(context.Background(), zooV1.WithResource("animals"))
		return err == nil && !k.Namespaced
	})

	// Another version in place of the first.
	srv.put(v2, animal("a", "bear"))
	d.set(func() { d.kinds = map[schema.GroupVersion][]metav1.APIResource{zooV2: resources(true, "animals")} })
	srv.put(crds, definition)
	eventually(t, "the other version", func() bool {
		gvr, ok := st.Catalog().Preferred(schema.GroupResource{Group: zooV1.Group, Resource: "animals"})
		return ok && gvr.Version == "v2"
	})
	eventually(t, "the bear", holds(zooV2.WithResource("animals"), "a/bear"))
}

// A kind whose scope or name changed is dropped where no sink uses it: it is another kind.
func TestAChangedKindIsGone(t *testing.T) {
	d := newDiscovered()
	var gone []schema.GroupVersionResource
	cat := newCatalog(d, clock.RealClock{}, func(g []schema.GroupVersionResource) { gone = append(gone, g...) })
	cat.Refresh(context.Background())
	d.set(func() { d.kinds[zooV1] = resources(false, "animals") })
	cat.Refresh(context.Background())
	if len(gone) != 1 || gone[0] != zooV1.WithResource("animals") {
		t.Errorf("gone: %v", gone)
	}
}

// jumping is a clock that is set while it runs. As with Go's own, the time since a moment does not change by that.
type jumping struct {
	clock.RealClock
	mu     sync.Mutex
	by     time.Duration
	issued map[time.Time]time.Time // what it said -> when
	tick   chan time.Time          // of the look for idle kinds
}

func (j *jumping) Now() time.Time {
	j.mu.Lock()
	defer j.mu.Unlock()
	now := time.Now()
	said := now.Add(j.by).Round(0) // without the reading of the monotonic clock
	j.issued[said] = now
	return said
}

func (j *jumping) Since(t time.Time) time.Duration {
	j.mu.Lock()
	defer j.mu.Unlock()
	if at, ok := j.issued[t]; ok {
		return time.Since(at)
	}
	return time.Now().Add(j.by).Sub(t)
}

func (j *jumping) NewTicker(d time.Duration) clock.Ticker {
	if d == idleCheck {
		return byHand{j.tick}
	}
	return j.RealClock.NewTicker(d)
}

type byHand struct{ c chan time.Time }

func (b byHand) C() <-chan time.Time { return b.c }
func (b byHand) Stop()               {}

func (j *jumping) jump(d time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.by += d
}

// generationOf returns the generation of the last snapshot of a kind, 0 for none.
func generationOf(st *Store, gvr schema.GroupVersionResource) uint64 {
	if c, ok := st.cache(gvr); ok && c.coll.Snapshot() != nil {
		return c.coll.Snapshot().Generation()
	}
	return 0
}

// The machine's clock is set, forwards and back: nothing is dropped, late, or mistaken for its former self.
func TestTheClockJumps(t *testing.T) {
	for name, by := range map[string]time.Duration{"Forwards": 1000 * time.Hour, "Back": -1000 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			srv := newServer(t)
			srv.put(podsPath, storetest.Pod("a", "one"))
			j := &jumping{issued: map[time.Time]time.Time{}, tick: make(chan time.Time)}
			st := newStore(t, srv, func(o *Options) { o.Clock = j })
			serves(t, st, "[a/one]")
			before, generation := condition(st, podsGVR), generationOf(st, podsGVR)
			j.jump(by)
			for range 2 { // the second is taken when the first look is over
				j.tick <- j.Now()
			}
			if c := condition(st, podsGVR); generationOf(st, podsGVR) != generation || c.Age > time.Minute || c.Age < 0 {
				t.Errorf("before %+v, then %+v", before, c)
			}
			srv.put(podsPath, storetest.Pod("a", "two"))
			serves(t, st, "[a/one a/two]")
			st.drop([]schema.GroupVersionResource{podsGVR})
			serves(t, st, "[a/one a/two]")
			if now := generationOf(st, podsGVR); now <= generation {
				t.Errorf("generation %d follows %d", now, generation)
			}
		})
	}
}
