package store

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/store/index"
	"kapis.dev/ks-apiserver/pkg/store/storetest"

	"github.com/prometheus/client_golang/prometheus/testutil"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
)

var secretsGVR = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}

// secretsIn returns the path of the secrets of a namespace, or of all namespaces where it is empty.
func secretsIn(namespace string) string {
	if namespace == "" {
		return "/api/v1/secrets"
	}
	return "/api/v1/namespaces/" + namespace + "/secrets"
}

func secret(namespace, name, data string) string {
	return `{"kind":"Secret","apiVersion":"v1","metadata":{"name":"` + name + `","namespace":"` + namespace +
		`","uid":"u-` + namespace + name + `","resourceVersion":"%RV%"},"type":"Opaque","data":{"key":"` + data + `"}}`
}

// withSecrets returns a store that caches the data of Secrets by namespace only.
func withSecrets(t *testing.T, srv *server, change ...func(*Options)) *Store {
	return newStore(t, srv, append([]func(*Options){func(o *Options) {
		o.Schemas = map[schema.GroupResource]index.Schema{{Resource: "secrets"}: {
			Cut: rawjson.Cuts([]string{"stringData"}), CutClusterWide: rawjson.Cuts([]string{"data"}),
		}}
	}}, change...)...)
}

func in(t *testing.T, st *Store, namespace string) *index.Snapshot {
	t.Helper()
	s, err := st.SnapshotIn(bounded(t), secretsGVR, namespace)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func places(st *Store) (out []string) {
	st.namespaced.Range(func(key, _ any) bool {
		out = append(out, key.(cacheKey).namespace)
		return true
	})
	return out
}

// U11: the data of Secrets is in memory for the namespaces that are asked for, and nowhere else.
func TestDataIsKeptByNamespaceOnly(t *testing.T) {
	const size = 50_000
	srv := newServer(t)
	for i := range 20 {
		o := secret(fmt.Sprint("ns", i), "s", "canary"+strings.Repeat("x", size))
		srv.put(secretsIn(""), o)
		srv.put(secretsIn(fmt.Sprint("ns", i)), o)
	}
	st := withSecrets(t, srv)
	all, err := st.Snapshot(bounded(t), secretsGVR)
	if err != nil {
		t.Fatal(err)
	}
	if all.Len() != 20 || all.Bytes() > 20*300 {
		t.Errorf("the cluster's %d secrets have %d bytes", all.Len(), all.Bytes())
	}
	all.ByCreated(index.All()).Walk(0, false, func(ref *index.Ref) bool {
		if strings.Contains(all.Record(ref).JSON.String(), "canary") {
			t.Error("data is kept for the cluster")
		}
		return true
	})
	one := in(t, st, "ns3")
	r, ok := one.Get("ns3", "s")
	if !ok || one.Len() != 1 || !strings.Contains(r.JSON.String(), "canary") || one.ByCreated(index.InNamespace("ns3")).Len() != 1 {
		t.Fatalf("the namespace has %d secrets, %v", one.Len(), ok)
	}
	var bytes int64
	for _, c := range st.Conditions() {
		bytes += c.Bytes
		if c.GVR == secretsGVR && c.Namespaces == 1 && (c.Name() != "v1/secrets@namespaces" || !c.Synced || c.Objects != 1) {
			t.Errorf("the condition: %+v", c)
		}
	}
	if bytes < size || bytes > 2*size {
		t.Errorf("%d bytes are kept for the %d of one namespace", bytes, size)
	}
	in(t, st, "ns4")
	if n := testutil.CollectAndCount(collector{st}, "ks_cache_informers"); n != 4 { // secrets twice, definitions, API services
		t.Errorf("%d rows of informers, whatever the number of namespaces", n)
	}
}

func TestANamespaceIsFollowed(t *testing.T) {
	srv := newServer(t)
	srv.put(secretsIn("a"), secret("a", "one", "1"))
	st := withSecrets(t, srv)
	w, err := st.WatchIn(bounded(t), secretsGVR, "a")
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	srv.put(secretsIn("a"), secret("a", "two", "2"))
	for w.Snapshot().Len() < 2 {
		if _, err := w.Next(bounded(t)); err != nil {
			t.Fatal(err)
		}
	}
	at, err := st.SnapshotInAt(bounded(t), secretsGVR, "a", w.Snapshot().ResourceVersion())
	if err != nil || at.Len() != 2 {
		t.Error(at, err)
	}
	st.options.VersionWait = 20 * time.Millisecond
	if _, err := st.SnapshotInAt(bounded(t), secretsGVR, "a", "999999"); !apierrors.IsTimeout(err) {
		t.Errorf("a version that is to come: %v", err)
	}
}

func TestOtherKindsAndTheClusterAreKeptOnce(t *testing.T) {
	srv := newServer(t)
	srv.put(podsPath, storetest.Pod("a", "one"))
	st := withSecrets(t, srv)
	p, err := st.SnapshotIn(bounded(t), podsGVR, "a")
	if err != nil || p.Len() != 1 || len(places(st)) != 0 {
		t.Error(p, err, places(st))
	}
	if s := in(t, st, ""); s.Len() != 0 || len(places(st)) != 0 {
		t.Error("no namespace is one")
	}
	w, err := st.WatchIn(bounded(t), podsGVR, "a")
	if err != nil || len(places(st)) != 0 {
		t.Fatal(err)
	}
	w.Close()
}

// The name becomes a path segment of a request that is made with the server's own rights.
func TestWhatIsNoNamespaceIsNotAskedFor(t *testing.T) {
	st := withSecrets(t, newServer(t))
	for _, namespace := range []string{"..", ".", "a/b", "a?b", "A", "%2e%2e", "a b", strings.Repeat("a", 64)} {
		if _, err := st.SnapshotIn(bounded(t), secretsGVR, namespace); !apierrors.IsBadRequest(err) {
			t.Errorf("%q: %v", namespace, err)
		}
		if _, err := st.WatchIn(bounded(t), secretsGVR, namespace); !apierrors.IsBadRequest(err) {
			t.Errorf("watch %q: %v", namespace, err)
		}
	}
	if n := len(places(st)); n != 0 {
		t.Errorf("%d caches are begun", n)
	}
}

func TestIdleNamespacesAreDroppedAndWatchedOnesStay(t *testing.T) {
	srv := newServer(t)
	c := clocktesting.NewFakeClock(time.Now())
	st := withSecrets(t, srv, func(o *Options) { o.Clock = c; o.NamespaceIdle = time.Minute; o.StallAfter = 24 * time.Hour })
	in(t, st, "idle")
	w, err := st.WatchIn(bounded(t), secretsGVR, "watched")
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	eventually(t, "the idle namespace is dropped", func() bool {
		c.Step(time.Minute)
		return fmt.Sprint(places(st)) == "[watched]"
	})
	if _, ok := st.namespaced.Load(cacheKey{secretsGVR, "watched"}); !ok {
		t.Error("a watched namespace is dropped")
	}
}

func TestNamespacesAreFewAtOnce(t *testing.T) {
	srv := newServer(t)
	c := clocktesting.NewFakeClock(time.Now())
	st := withSecrets(t, srv, func(o *Options) { o.Clock = c; o.Namespaces = 3; o.StallAfter = 24 * time.Hour })
	for _, ns := range []string{"a", "b", "c", "a", "d"} {
		in(t, st, ns)
		c.Step(2 * time.Second)
	}
	if _, ok := st.namespaced.Load(cacheKey{secretsGVR, "b"}); ok || len(places(st)) != 3 {
		t.Errorf("the one that was used longest ago is kept: %v", places(st))
	}
}

// However many namespaces a user watches, the lists and objects of any other are there: a quarter of the caches is not watched.
func TestWatchesLeaveCachesForQueriesOfOtherNamespaces(t *testing.T) {
	srv := newServer(t)
	st := withSecrets(t, srv, func(o *Options) { o.Namespaces = 4 })
	var watches []*Watch
	for _, ns := range []string{"a", "b", "c", "a"} {
		w, err := st.WatchIn(bounded(t), secretsGVR, ns)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		watches = append(watches, w)
	}
	for range 2 {
		if _, err := st.WatchIn(bounded(t), secretsGVR, "d"); !apierrors.IsTooManyRequests(err) {
			t.Fatalf("a fourth namespace is watched: %v", err)
		}
	}
	for _, ns := range []string{"d", "e", "a", "f"} {
		in(t, st, ns)
	}
	srv.put(secretsIn("e"), secret("e", "s", "x"))
	if s, err := st.SnapshotInAt(bounded(t), secretsGVR, "e", "101"); err != nil || s.Len() != 1 {
		t.Errorf("a query that waits for a version: %v", err)
	}
	for _, ns := range []string{"a", "b", "c"} {
		if _, ok := st.namespaced.Load(cacheKey{secretsGVR, ns}); !ok {
			t.Errorf("%s is watched, and is not there any more", ns)
		}
	}
	watches[1].Close()
	w, err := st.WatchIn(bounded(t), secretsGVR, "d")
	if err != nil {
		t.Fatalf("after another watch has ended: %v", err)
	}
	w.Close()
}

// Watches do not take all bytes either. One that grows beyond what may be watched together ends, and the namespace is listed as before.
func TestWatchesLeaveBytesForQueriesOfOtherNamespaces(t *testing.T) {
	srv := newServer(t)
	for i := range 5 {
		ns := fmt.Sprint("ns", i)
		srv.put(secretsIn(ns), secret(ns, "s", strings.Repeat("x", 80_000)))
	}
	srv.put(secretsIn("grows"), secret("grows", "s", "x"))
	st := withSecrets(t, srv, func(o *Options) { o.NamespaceBytes = 400_000 })
	var grows *Watch
	for _, ns := range []string{"ns0", "ns1", "ns2", "grows"} {
		w, err := st.WatchIn(bounded(t), secretsGVR, ns)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		grows = w
	}
	for range 2 {
		if _, err := st.WatchIn(bounded(t), secretsGVR, "ns3"); !apierrors.IsTooManyRequests(err) {
			t.Fatalf("a fourth of this size is watched: %v", err)
		}
	}
	if _, streams := srv.counts(secretsIn("ns3")); streams != 1 {
		t.Errorf("a namespace whose watch is refused is read %d times", streams)
	}
	srv.put(secretsIn("grows"), secret("grows", "more", strings.Repeat("x", 80_000)))
	var err error
	for err == nil {
		_, err = grows.Next(bounded(t))
	}
	if !errors.Is(err, ErrGone) {
		t.Errorf("the watch of the namespace that has grown: %v", err)
	}
	for _, ns := range []string{"ns4", "ns3", "grows", "ns0"} {
		in(t, st, ns)
	}
	if b := st.namespaceBytes(); b > 400_000 {
		t.Errorf("%d bytes", b)
	}
}

func tooLargeIs(err error) bool { return apierrors.ReasonForError(err) == "RequestEntityTooLarge" }

// What a namespace holds is bounded while it is read, not only when the list is complete.
func TestANamespaceThatIsTooLargeIsRefused(t *testing.T) {
	for name, f := range map[string]fault{"WatchList": {}, "PlainList": {noWatchList: true}} {
		t.Run(name, func(t *testing.T) {
			srv := newServer(t)
			srv.set(secretsIn("big"), f)
			for i := range 30 {
				srv.put(secretsIn("big"), secret("big", fmt.Sprint("s", i), "canary"+strings.Repeat("x", 10_000)))
			}
			srv.put(secretsIn("ok"), secret("ok", "s", "x"))
			c := clocktesting.NewFakeClock(time.Now())
			st := withSecrets(t, srv, func(o *Options) { o.NamespaceBytes = 400_000; o.Clock = c; o.StallAfter = 24 * time.Hour })
			_, err := st.SnapshotIn(bounded(t), secretsGVR, "big")
			if !tooLargeIs(err) || strings.Contains(err.Error(), "canary") {
				t.Fatalf("got %v", err)
			}
			_, before := srv.counts(secretsIn("big"))
			if _, err := st.WatchIn(bounded(t), secretsGVR, "big"); !tooLargeIs(err) {
				t.Errorf("watch: %v", err)
			}
			if _, streams := srv.counts(secretsIn("big")); streams != before {
				t.Error("it is read again for each query")
			}
			if in(t, st, "ok").Len() != 1 {
				t.Error("another namespace is not served")
			}
			for i := range 28 {
				srv.remove(secretsIn("big"), fmt.Sprint("big/s", i))
			}
			eventually(t, "it is tried again", func() bool {
				c.Step(time.Minute)
				s, err := st.SnapshotIn(bounded(t), secretsGVR, "big")
				return err == nil && s.Len() == 2
			})
		})
	}
}

// A namespace that fits may be read again: the new list replaces what is cached.
func TestANamespaceIsNotCountedTwiceWhileItIsListedAnew(t *testing.T) {
	for name, f := range map[string]fault{"WatchList": {}, "PlainList": {noWatchList: true}} {
		t.Run(name, func(t *testing.T) {
			srv := newServer(t)
			at := secretsIn("a")
			srv.set(at, f)
			for i := range 8 {
				srv.put(at, secret("a", fmt.Sprint("s", i), strings.Repeat("x", 10_000)))
			}
			st := withSecrets(t, srv, func(o *Options) { o.NamespaceBytes = 400_000 })
			in(t, st, "a")
			for n := 1; n <= 3; n++ {
				eventually(t, "the watch", func() bool { _, streams := srv.counts(at); return streams == n })
				srv.cut(at, http.StatusGone)
				eventually(t, "another list", func() bool {
					for _, c := range st.Conditions() {
						if c.Namespaces == 1 && c.Resyncs == uint64(n) {
							return true
						}
					}
					_, err := st.SnapshotIn(bounded(t), secretsGVR, "a")
					return err != nil
				})
				if in(t, st, "a").Len() != 8 {
					t.Fatal("it is not whole")
				}
			}
		})
	}
}

// The bytes of a stream that was cut off before its end are not counted with those of the next.
func TestABrokenFirstListOfANamespaceIsNotCounted(t *testing.T) {
	srv := newServer(t)
	at := secretsIn("a")
	srv.set(at, fault{noBookmark: true})
	for i := range 8 {
		srv.put(at, secret("a", fmt.Sprint("s", i), strings.Repeat("x", 10_000)))
	}
	st := withSecrets(t, srv, func(o *Options) { o.NamespaceBytes, o.StallAfter = 400_000, time.Hour })
	done := make(chan error, 1)
	go func() {
		_, err := st.SnapshotIn(bounded(t), secretsGVR, "a")
		done <- err
	}()
	for n := 1; n <= 4; n++ {
		if n == 4 {
			srv.set(at, fault{})
		}
		if n > 1 {
			srv.cut(at, 0)
		}
		eventually(t, "a stream", func() bool { _, streams := srv.counts(at); return streams == n || len(done) > 0 })
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestANamespaceThatGrowsTooLargeEnds(t *testing.T) {
	srv := newServer(t)
	srv.put(secretsIn("a"), secret("a", "s", "x"))
	st := withSecrets(t, srv, func(o *Options) { o.NamespaceBytes = 400_000 })
	w, err := st.WatchIn(bounded(t), secretsGVR, "a")
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for i := range 30 {
		srv.put(secretsIn("a"), secret("a", fmt.Sprint("s", i), strings.Repeat("x", 10_000)))
	}
	for {
		s, err := w.Next(bounded(t))
		if errors.Is(err, ErrGone) {
			break
		}
		if err != nil || s.Bytes() > 100_000 {
			t.Fatalf("%v, a snapshot of %d bytes", err, s.Bytes())
		}
	}
	if _, err := st.SnapshotIn(bounded(t), secretsGVR, "a"); !tooLargeIs(err) {
		t.Errorf("got %v", err)
	}
}

// Large namespaces evict those that were used longest ago, not those that are watched.
func TestAllNamespacesTogetherAreBounded(t *testing.T) {
	srv := newServer(t)
	for i := range 8 {
		ns := fmt.Sprint("ns", i)
		srv.put(secretsIn(ns), secret(ns, "s", strings.Repeat("x", 80_000)))
	}
	c := clocktesting.NewFakeClock(time.Now())
	st := withSecrets(t, srv, func(o *Options) { o.NamespaceBytes = 400_000; o.Clock = c; o.StallAfter = 24 * time.Hour })
	w, err := st.WatchIn(bounded(t), secretsGVR, "ns0")
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for i := range 8 {
		if in(t, st, fmt.Sprint("ns", i)).Len() != 1 {
			t.Error("nothing is there")
		}
		if b := st.namespaceBytes(); b > 400_000 {
			t.Fatalf("%d bytes with namespace %d", b, i)
		}
		c.Step(2 * time.Second)
	}
	for _, ns := range []string{"ns0", "ns7", "ns6"} {
		if _, ok := st.namespaced.Load(cacheKey{secretsGVR, ns}); !ok {
			t.Errorf("%s is not there any more", ns)
		}
	}
	if n := len(places(st)); n != 4 {
		t.Errorf("%d namespaces are left", n)
	}
}

// A fault of one namespace is an error of its own, and shows nothing of what the namespace holds.
func TestANamespaceThatCannotBeReadIsUnavailableAlone(t *testing.T) {
	srv := newServer(t)
	srv.set(secretsIn("a"), fault{status: http.StatusForbidden})
	srv.put(secretsIn("b"), secret("b", "s", "x"))
	st := withSecrets(t, srv, func(o *Options) { o.SyncWait = 200 * time.Millisecond })
	if _, err := st.SnapshotIn(bounded(t), secretsGVR, "a"); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("got %v", err)
	}
	if _, err := st.WatchIn(bounded(t), secretsGVR, "a"); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("watch: %v", err)
	}
	st.options.SyncWait = 30 * time.Second
	in(t, st, "b")
	for _, c := range st.Conditions() {
		if c.Namespaces == 2 && (c.Err == nil || c.Synced || c.Objects != 1) {
			t.Errorf("the sum of both: %+v", c)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := st.SnapshotIn(ctx, secretsGVR, "c"); !errors.Is(err, context.Canceled) {
		t.Errorf("the caller left: %v", err)
	}
}

func TestNamespacesEndWithTheirKind(t *testing.T) {
	srv := newServer(t)
	st := withSecrets(t, srv)
	w, err := st.WatchIn(bounded(t), secretsGVR, "a")
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	st.drop([]schema.GroupVersionResource{secretsGVR})
	for err == nil {
		_, err = w.Next(bounded(t))
	}
	if !errors.Is(err, ErrGone) || len(places(st)) != 0 {
		t.Errorf("got %v, and %v are left", err, places(st))
	}
}
