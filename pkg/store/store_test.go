package store

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/store/index"
	"kapis.dev/ks-apiserver/pkg/store/storetest"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var podsGVR = schema.GroupVersionResource{Version: "v1", Resource: "pods"}

// discovered is a Discovery that returns the kinds in it.
type discovered struct {
	mu    sync.Mutex
	kinds map[schema.GroupVersion][]metav1.APIResource
	fail  map[schema.GroupVersion]error
	err   error
	asked int
}

func (d *discovered) GroupsAndMaybeResourcesWithContext(context.Context) (*metav1.APIGroupList,
	map[schema.GroupVersion]*metav1.APIResourceList, map[schema.GroupVersion]error, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked++
	if d.err != nil {
		return nil, nil, nil, d.err
	}
	groups, lists := &metav1.APIGroupList{}, map[schema.GroupVersion]*metav1.APIResourceList{}
	byName := map[string]*metav1.APIGroup{}
	var all []schema.GroupVersion
	for gv := range d.kinds {
		all = append(all, gv)
		if d.fail[gv] == nil {
			lists[gv] = &metav1.APIResourceList{GroupVersion: gv.String(), APIResources: d.kinds[gv]}
		}
	}
	slices.SortFunc(all, func(a, b schema.GroupVersion) int { return strings.Compare(a.String(), b.String()) })
	for _, gv := range all {
		v := metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: gv.Version}
		if byName[gv.Group] == nil {
			byName[gv.Group] = &metav1.APIGroup{Name: gv.Group, PreferredVersion: v}
		}
		byName[gv.Group].Versions = append(byName[gv.Group].Versions, v)
	}
	for _, gv := range all {
		if g := byName[gv.Group]; g != nil {
			groups.Groups = append(groups.Groups, *g)
			delete(byName, gv.Group)
		}
	}
	return groups, lists, d.fail, nil
}

func (d *discovered) ServerResourcesForGroupVersionWithContext(context.Context, string) (*metav1.APIResourceList, error) {
	return nil, errors.New("not asked")
}

func (d *discovered) set(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f()
}

func newStore(t testing.TB, s *server, change ...func(*Options)) *Store {
	ctx, cancel := context.WithCancel(context.Background())
	// No outage of a test is long, on a busy machine either, where the test does not say so.
	o := Options{Config: s.config(), Discovery: &discovered{}, SyncWait: time.Minute, MaxOutage: time.Hour}
	for _, c := range change {
		c(&o)
	}
	st, err := New(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		st.Wait()
	})
	return st
}

// recorder is a sink that records what it is told.
type recorder struct {
	mu      sync.Mutex
	objects map[string]*Object
	log     []string
	changed chan struct{}
}

func newRecorder() *recorder {
	return &recorder{objects: map[string]*Object{}, changed: make(chan struct{}, 1)}
}

func (r *recorder) Set(o *Object) {
	r.note(func() { r.objects[o.Namespace+"/"+o.Name] = o; r.log = append(r.log, "set "+o.Name) })
}

func (r *recorder) Delete(namespace, name string) {
	r.note(func() { delete(r.objects, namespace+"/"+name); r.log = append(r.log, "delete "+name) })
}

func (r *recorder) note(f func()) {
	r.mu.Lock()
	f()
	r.mu.Unlock()
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// until waits until the sink has reached a state.
func (r *recorder) until(t testing.TB, what string, ok func(map[string]*Object) bool) {
	t.Helper()
	deadline := time.After(2 * time.Minute)
	for {
		r.mu.Lock()
		done := ok(r.objects)
		r.mu.Unlock()
		if done {
			return
		}
		select {
		case <-r.changed:
		case <-deadline:
			t.Fatalf("the sink did not see: %s", what)
		}
	}
}

// eventually waits until ok is true: snapshots and the catalog are published, not signalled.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	deadline := time.After(2 * time.Minute)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("it did not come to this: %s", what)
		}
	}
}

// untilSnapshot waits for a snapshot that satisfies f.
func untilSnapshot(t testing.TB, s *Store, what string, f func(*index.Snapshot) bool) *index.Snapshot {
	t.Helper()
	var snap *index.Snapshot
	eventually(t, what, func() bool {
		var err error
		snap, err = s.Snapshot(context.Background(), podsGVR)
		return err == nil && f(snap)
	})
	return snap
}

func TestIntakeByEveryWay(t *testing.T) {
	for name, f := range map[string]fault{"WatchList": {}, "PlainListWhereStreamsAreUnknown": {noWatchList: true}} {
		t.Run(name, func(t *testing.T) {
			srv := newServer(t)
			srv.set(podsPath, f)
			srv.put(podsPath, storetest.Pod("b", "two"))
			srv.put(podsPath, storetest.Pod("a", "one"))
			st := newStore(t, srv)
			snap, err := st.Snapshot(context.Background(), podsGVR)
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(namesIn(snap.ByCreated(index.All()))); got != "[a/one b/two]" {
				t.Errorf("objects: %s", got)
			}
			r, ok := snap.Get("a", "one")
			if !ok || r.UID != "u-a-one" || r.Alias != "Alias" || r.ResourceVersion != "102" || r.Created != 1767323045 {
				t.Fatalf("record: %+v", r)
			}
			want := `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"one",`
			if !strings.HasPrefix(r.JSON.String(), want) || strings.Contains(r.JSON.String(), "managedFields") || strings.Contains(r.JSON.String(), "last-applied") {
				t.Errorf("JSON: %s", r.JSON)
			}
			srv.put(podsPath, storetest.Pod("a", "three"))
			srv.remove(podsPath, "b/two")
			snap = untilSnapshot(t, st, "a change and a deletion", func(s *index.Snapshot) bool {
				return fmt.Sprint(namesIn(s.ByName(index.All()))) == "[a/one a/three]"
			})
			if snap.ResourceVersion() != "103" && snap.ResourceVersion() != "102" {
				t.Logf("version %s", snap.ResourceVersion())
			}
			lists, streams := srv.counts(podsPath)
			if wantLists := map[bool]int{false: 0, true: 1}[f.noWatchList]; lists != wantLists || streams != 1 { // U13
				t.Errorf("%d lists, %d streams", lists, streams)
			}
		})
	}
}

// U9, and a sink that is added later.
func TestOneReflectorFeedsSinksAndQueries(t *testing.T) {
	srv := newServer(t)
	srv.put(podsPath, storetest.Pod("a", "one"))
	registry := prometheus.NewRegistry()
	st := newStore(t, srv, func(o *Options) {
		o.Registerer = registry
		o.Schemas = map[schema.GroupResource]index.Schema{{Resource: "pods"}: {Cut: rawjson.Cuts([]string{"spec"})}}
	})
	first, second := newRecorder(), newRecorder()
	firstSynced := st.Feed(podsGVR, first)
	first.until(t, "one", func(m map[string]*Object) bool { return len(m) == 1 })
	snap, err := st.Snapshot(context.Background(), podsGVR)
	if err != nil || snap.Len() != 1 {
		t.Fatal(snap, err)
	}
	eventually(t, "the first sink to have all", func() bool { return firstSynced() == nil }) // told a moment after the last object
	secondSynced := st.Feed(podsGVR, second)
	second.until(t, "one", func(m map[string]*Object) bool { return len(m) == 1 })
	srv.put(podsPath, storetest.Pod("a", "two"))
	for _, r := range []*recorder{first, second} {
		r.until(t, "two", func(m map[string]*Object) bool { return len(m) == 2 })
		o := r.objects["a/one"]
		if !strings.Contains(string(o.Raw), `"nodeName":"n1"`) || strings.Contains(string(o.Raw), "managedFields") || !strings.Contains(string(o.Raw), `"uid":"u-a-one"`) {
			t.Errorf("a sink was told %s", o.Raw)
		}
	}
	eventually(t, "the second sink to have all", func() bool { return secondSynced() == nil })
	rec, _ := snap.Get("a", "one")
	if strings.Contains(rec.JSON.String(), "nodeName") {
		t.Errorf("what is cut is kept: %s", rec.JSON)
	}
	if got := strings.Join(first.log, ","); got != "set one,set two" {
		t.Errorf("the first sink was told twice: %s", got)
	}
	if n := testutil.CollectAndCount(collector{st}, "ks_cache_informers"); n != 3 { // pods, definitions, API services
		t.Errorf("%d informers", n)
	}
}

// U22: what was deleted while nothing watched is gone after the next list.
func TestMissedDeletionsAreNoticedByTheNextList(t *testing.T) {
	srv := newServer(t)
	srv.put(podsPath, storetest.Pod("a", "one"))
	srv.put(podsPath, storetest.Pod("a", "two"))
	st := newStore(t, srv)
	sink := newRecorder()
	st.Feed(podsGVR, sink)
	sink.until(t, "both", func(m map[string]*Object) bool { return len(m) == 2 })
	srv.vanish(podsPath, "a/one")
	srv.cut(podsPath, http.StatusGone)
	sink.until(t, "the deletion", func(m map[string]*Object) bool { return len(m) == 1 && m["a/two"] != nil })
	untilSnapshot(t, st, "the deletion", func(s *index.Snapshot) bool { return s.Len() == 1 })
}

func TestAnObjectMadeAnewHasANewPlace(t *testing.T) {
	srv := newServer(t)
	srv.put(podsPath, storetest.Pod("a", "one"))
	srv.put(podsPath, storetest.Pod("a", "two"))
	st := newStore(t, srv)
	untilSnapshot(t, st, "both", func(s *index.Snapshot) bool { return s.Len() == 2 })
	anew := strings.Replace(strings.Replace(storetest.Pod("a", "one"), "u-a-one", "other", 1), "2026-01-02", "2026-01-09", 1)
	srv.put(podsPath, anew)
	untilSnapshot(t, st, "the new order", func(s *index.Snapshot) bool {
		return fmt.Sprint(namesIn(s.ByCreated(index.All()))) == "[a/two a/one]"
	})
}

func TestIdleKindsAreDroppedAndFeedsStay(t *testing.T) {
	srv := newServer(t)
	srv.put(podsPath, storetest.Pod("a", "one"))
	c := clocktesting.NewFakeClock(time.Now())
	st := newStore(t, srv, func(o *Options) { o.Clock = c; o.IdleAfter = time.Minute; o.StallAfter = 24 * time.Hour })
	if _, err := st.Snapshot(context.Background(), podsGVR); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(2 * time.Minute)
	for len(st.Conditions()) != 2 {
		c.Step(2 * time.Minute)
		if time.Now().After(deadline) {
			t.Fatal("the kind is still there")
		}
	}
	for _, k := range st.Conditions() {
		if k.GVR == podsGVR {
			t.Error("the pods are left, which feed no sink")
		}
	}
	if snap, err := st.Snapshot(context.Background(), podsGVR); err != nil || snap.Len() != 1 {
		t.Error("asked again:", err)
	}
}

func TestSnapshotsEndWithTheirContext(t *testing.T) {
	srv := newServer(t)
	srv.set(podsPath, fault{hang: true, noWatchList: true})
	st := newStore(t, srv)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := st.Snapshot(ctx, podsGVR); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestReadersUnderChurnSeeOneMoment(t *testing.T) {
	srv := newServer(t)
	st := newStore(t, srv)
	srv.put(podsPath, storetest.Pod("a", "start"))
	untilSnapshot(t, st, "the start", func(s *index.Snapshot) bool { return s.Len() == 1 })
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; i < 2000; i++ {
			name := fmt.Sprintf("p%d", i%50)
			if i%7 == 0 {
				srv.remove(podsPath, "a/"+name)
			} else {
				srv.put(podsPath, storetest.Pod("a", name, fmt.Sprintf(`"i":"%d"`, i%3)))
			}
		}
		close(stop)
	}()
	for running := true; running; {
		select {
		case <-stop:
			running = false
		default:
		}
		snap, err := st.Snapshot(context.Background(), podsGVR)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, v := range []string{"0", "1", "2"} {
			r := snap.ByCreated(index.HasLabel("i", v))
			n += r.Len()
			r.Walk(0, true, func(ref *index.Ref) bool {
				if got, _ := snap.Record(ref).Labels.Get("i"); got != v {
					t.Fatalf("an index and its object are not of one moment: %s", got)
				}
				return true
			})
		}
		if all := snap.ByName(index.InNamespace("a")).Len(); n != all-1 || all != snap.Len() {
			t.Fatalf("%d labelled of %d, %d in all", n, all, snap.Len())
		}
	}
	<-done
}

func namesIn(r index.Range) []string {
	var out []string
	r.Walk(0, false, func(ref *index.Ref) bool {
		out = append(out, ref.Namespace+"/"+ref.Name)
		return true
	})
	return out
}
