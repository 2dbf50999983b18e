package store

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/store/storetest"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
)

const (
	usersPath, servicesPath = "/api/v1/users", "/api/v1/services"

	testBound = 400_000
)

var (
	usersGVR    = schema.GroupVersionResource{Version: "v1", Resource: "users"}
	servicesGVR = schema.GroupVersionResource{Version: "v1", Resource: "services"}
)

// large returns an object of about so many bytes.
func large(name string, bytes int) string {
	return storetest.Pod("a", name, `"app":"`+strings.Repeat("x", bytes)+`"`)
}

// putLarge makes objects of 10 KB.
func (s *server) putLarge(path string, n int) {
	for i := range n {
		s.put(path, large(fmt.Sprint("o", i), 10_000))
	}
}

// withBound returns a store with a bound of 400 KB and a clock, that feeds a sink with users.
func withBound(t *testing.T, srv *server, change ...func(*Options)) (*Store, *recorder, *clocktesting.FakeClock) {
	c := clocktesting.NewFakeClock(time.Now())
	st := newStore(t, srv, append([]func(*Options){func(o *Options) {
		o.MemoryBytes, o.Clock, o.StallAfter = testBound, c, 24*time.Hour
	}}, change...)...)
	users := newRecorder()
	synced := st.Feed(usersGVR, users)
	eventually(t, "the users", func() bool { return synced() == nil })
	return st, users, c
}

// refused reports whether the error says that the kind has too many objects, and what to do.
func refused(err error, resource string) bool {
	return apierrors.IsServiceUnavailable(err) && strings.HasPrefix(err.Error(), resource+" can't be listed: there are too many objects") &&
		strings.Contains(err.Error(), "GOMEMLIMIT") && strings.Contains(err.Error(), "resources.cacheMemory")
}

// Too many objects degrade one kind by name, and nothing else; it is back some minutes after they are gone.
func TestTooManyObjectsDegradeOneKind(t *testing.T) {
	for name, f := range map[string]fault{"WatchList": {}, "PlainList": {noWatchList: true}} {
		t.Run(name, func(t *testing.T) {
			srv, registry := newServer(t), prometheus.NewPedanticRegistry()
			srv.set(podsPath, f)
			srv.putLarge(podsPath, 100)
			srv.put(usersPath, storetest.Pod("a", "alice"))
			srv.put(servicesPath, storetest.Pod("a", "one"))
			st, users, clock := withBound(t, srv, func(o *Options) { o.Registerer = registry })
			w, err := st.Watch(bounded(t), servicesGVR)
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()

			if _, err := st.Snapshot(bounded(t), podsGVR); !refused(err, "pods") {
				t.Fatalf("got %v", err)
			}
			_, before := srv.counts(podsPath)
			for range 3 {
				if _, err := st.Watch(bounded(t), podsGVR); !refused(err, "pods") {
					t.Errorf("watch: %v", err)
				}
				if snap := st.SnapshotWithin(bounded(t), podsGVR, time.Minute); snap != nil {
					t.Error("there is a snapshot")
				}
			}
			if _, streams := srv.counts(podsPath); streams != before {
				t.Error("it is read again for each query")
			}
			c := condition(st, podsGVR)
			if !c.Refused || !errors.Is(c.Err, errTooMany) || c.Synced || c.Memory > testBound/100 {
				t.Errorf("the condition: %+v", c)
			}
			got := metricsOf(t, registry, "v1/pods")
			if got["ks_cache_refused"] != 1 || got["ks_cache_failing"] != 1 || metricsOf(t, registry, "")["ks_cache_memory_bound_bytes"] != testBound ||
				metricsOf(t, registry, "v1/services")["ks_cache_refused"] != 0 {
				t.Errorf("the metrics: %v", got)
			}

			srv.put(servicesPath, storetest.Pod("a", "two"))
			for w.Snapshot().Len() < 2 {
				if _, err := w.Next(bounded(t)); err != nil {
					t.Fatalf("the watch of another kind: %v", err)
				}
			}
			srv.put(usersPath, storetest.Pod("a", "bob"))
			users.until(t, "bob", func(o map[string]*Object) bool { return o["a/bob"] != nil })

			for i := range 90 {
				srv.remove(podsPath, fmt.Sprint("a/o", i))
			}
			eventually(t, "it is tried again", func() bool {
				clock.Step(time.Minute)
				s, err := st.Snapshot(bounded(t), podsGVR)
				return err == nil && s.Len() == 10
			})
			if c := condition(st, podsGVR); c.Refused || c.Err != nil {
				t.Errorf("the condition: %+v", c)
			}
		})
	}
}

// A kind that is served and grows too large ends with its watches; what others read goes on.
func TestTheLargestKindMakesRoom(t *testing.T) {
	srv := newServer(t)
	srv.putLarge(podsPath, 30)
	srv.put(servicesPath, storetest.Pod("a", "one"))
	st, _, _ := withBound(t, srv)
	var watches []*Watch
	for _, gvr := range []schema.GroupVersionResource{podsGVR, servicesGVR} {
		w, err := st.Watch(bounded(t), gvr)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		watches = append(watches, w)
	}
	for i := range 15 {
		srv.put(servicesPath, large(fmt.Sprint("s", i), 10_000))
	}
	for {
		if _, err := watches[0].Next(bounded(t)); errors.Is(err, ErrGone) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := st.Snapshot(bounded(t), podsGVR); !refused(err, "pods") {
		t.Errorf("got %v", err)
	}
	for watches[1].Snapshot().Len() < 16 {
		if _, err := watches[1].Next(bounded(t)); err != nil {
			t.Fatal(err)
		}
	}
}

// A large kind that somebody asks for takes no room from what is served; a small one has always room.
func TestAKindThatIsReadFirstDoesNotDisplaceOthers(t *testing.T) {
	srv := newServer(t)
	srv.putLarge(podsPath, 30)
	srv.putLarge(servicesPath, 15)
	st, _, clock := withBound(t, srv)
	w, err := st.Watch(bounded(t), podsGVR)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for range 3 { // again after its time, too
		if _, err := st.Snapshot(bounded(t), servicesGVR); !refused(err, "services") {
			t.Errorf("got %v", err)
		}
		eventually(t, "the refusal ends", func() bool {
			clock.Step(time.Minute)
			_, ok := st.cache(servicesGVR)
			return !ok
		})
	}
	if s, err := st.Snapshot(bounded(t), podsGVR); err != nil || s.Len() != 30 {
		t.Errorf("pods: %v", err)
	}
}

// Kinds that nobody has used for a minute make room without an error to anyone.
func TestUnusedKindsMakeRoom(t *testing.T) {
	srv := newServer(t)
	srv.putLarge(podsPath, 30)
	srv.putLarge(servicesPath, 30)
	st, _, clock := withBound(t, srv)
	for range 2 {
		for _, gvr := range []schema.GroupVersionResource{podsGVR, servicesGVR} {
			if s, err := st.Snapshot(bounded(t), gvr); err != nil || s.Len() != 30 {
				t.Fatalf("%s: %v", gvr.Resource, err)
			}
			clock.Step(2 * time.Minute)
		}
	}
}

// What decides rights is read however large it is, and what else there is makes room for it.
func TestWhatFeedsIsNeverRefused(t *testing.T) {
	srv := newServer(t)
	srv.putLarge(podsPath, 20)
	srv.put(usersPath, storetest.Pod("a", "alice"))
	st, users, _ := withBound(t, srv)
	if _, err := st.Snapshot(bounded(t), podsGVR); err != nil {
		t.Fatal(err)
	}
	srv.putLarge(usersPath, 100)
	users.until(t, "all users", func(o map[string]*Object) bool { return o["a/o99"] != nil })
	eventually(t, "pods make room", func() bool {
		_, err := st.Snapshot(bounded(t), podsGVR)
		return refused(err, "pods")
	})
	synced := st.Feed(podsGVR, newRecorder())
	eventually(t, "what was refused is read when it has to be", func() bool { return synced() == nil })
	if s, err := st.Snapshot(bounded(t), podsGVR); err != nil || s.Len() != 20 {
		t.Errorf("got %v", err)
	}
	for _, gvr := range []schema.GroupVersionResource{usersGVR, podsGVR} {
		if c := condition(st, gvr); c.Err != nil || !c.Synced {
			t.Errorf("the condition: %+v", c)
		}
	}
}

// A failure that is no lack of memory is told as before.
func TestOtherFailuresAreNoRefusal(t *testing.T) {
	srv := newServer(t)
	srv.set(podsPath, fault{status: http.StatusForbidden})
	st := newStore(t, srv, func(o *Options) { o.MemoryBytes, o.SyncWait = testBound, 200*time.Millisecond })
	if _, err := st.Snapshot(bounded(t), podsGVR); !apierrors.IsServiceUnavailable(err) || strings.Contains(err.Error(), "too many") {
		t.Errorf("got %v", err)
	}
	if c := condition(st, podsGVR); c.Refused {
		t.Errorf("the condition: %+v", c)
	}
}
