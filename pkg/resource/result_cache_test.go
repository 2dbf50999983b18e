package resource

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/inflight"
	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/resource/page"
	"kapis.dev/ks-apiserver/pkg/resource/plan"
	"kapis.dev/ks-apiserver/pkg/store/index"

	"k8s.io/apiserver/pkg/authentication/user"
)

// builder returns the plan of a query, with one more condition, which counts its calls.
func (w *world) builder(ctx context.Context, t testing.TB, scope plan.Scope, raw string, asked *atomic.Int64) *plan.Builder {
	t.Helper()
	v, _ := url.ParseQuery(raw)
	q, err := query.Parse(v)
	if err != nil {
		t.Fatal(err)
	}
	k := w.resolve(t, "", "pods")
	b, err := w.planner.Plan(ctx, k, scope, q)
	if err != nil {
		t.Fatal(err)
	}
	b.Check(func(*index.Record) bool { asked.Add(1); return true })
	return b
}

func manyPods(n int) (objects []string) {
	for i := range n {
		objects = append(objects, pod("a", fmt.Sprintf("p%04d", i), `"v":"0"`))
	}
	return objects
}

// changed is pod i in another version.
func changed(i, version int, labels string) string {
	return strings.Replace(pod("a", fmt.Sprintf("p%04d", i), labels), `"resourceVersion":"7"`, fmt.Sprintf(`"resourceVersion":"%d"`, version), 1)
}

func TestIdenticalSearchesRunOnce(t *testing.T) {
	w := newWorld(t, map[string][]string{podsPath: manyPods(500)}, Options{})
	var asked atomic.Int64
	begun, go_ := make(chan struct{}), make(chan struct{})
	var once sync.Once
	var wait sync.WaitGroup
	for range 20 {
		b := w.builder(t.Context(), t, plan.Scope{}, "name=p&sortBy=.status.phase", &asked)
		b.Check(func(*index.Record) bool {
			once.Do(func() { close(begun) })
			<-go_
			return true
		})
		snap, err := w.snapshotFor(b)
		if err != nil {
			t.Fatal(err)
		}
		wait.Go(func() {
			m, _, _, err := w.execute(snap, b)
			if err != nil || m.Len() != 500 {
				t.Errorf("%d, %v", m.Len(), err)
			}
		})
	}
	<-begun
	close(go_)
	if wait.Wait(); asked.Load() != 500 {
		t.Errorf("500 objects were looked at %d times", asked.Load())
	}
}

func TestWhoWaitsForASearchMayLeave(t *testing.T) {
	w := newWorld(t, map[string][]string{podsPath: manyPods(3)}, Options{})
	var asked atomic.Int64
	b := w.builder(t.Context(), t, plan.Scope{}, "name=p", &asked)
	snap, err := w.snapshotFor(b)
	if err != nil {
		t.Fatal(err)
	}
	begun, on := make(chan struct{}), make(chan struct{})
	var once sync.Once
	b.Check(func(*index.Record) bool {
		once.Do(func() { close(begun) })
		<-on
		return true
	})
	done := make(chan error)
	go func() {
		_, _, _, err := w.execute(snap, b)
		done <- err
	}()
	<-begun
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, _, err := w.execute(snap, w.builder(ctx, t, plan.Scope{}, "name=p", &asked)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	close(on)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestASearchEndsWithItsContextAndSpoilsNothing(t *testing.T) {
	w := newWorld(t, map[string][]string{podsPath: manyPods(5000)}, Options{})
	var asked atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	b := w.builder(ctx, t, plan.Scope{}, "name=p", &asked)
	snap, err := w.snapshotFor(b)
	if err != nil {
		t.Fatal(err)
	}
	b.Check(func(*index.Record) bool {
		if asked.Load() == 1000 {
			cancel()
		}
		return true
	})
	if _, _, _, err := w.execute(snap, b); !errors.Is(err, context.Canceled) || asked.Load() > 1000+plan.CheckEvery {
		t.Errorf("%v after %d objects", err, asked.Load())
	}
	if m, _, _, err := w.execute(snap, w.builder(t.Context(), t, plan.Scope{}, "name=p", &asked)); err != nil || m.Len() != 5000 {
		t.Errorf("%d, %v", m.Len(), err)
	}
}

func TestAChangeCostsTheFilterOnItsVersions(t *testing.T) {
	w := newWorld(t, map[string][]string{podsPath: manyPods(3000)}, Options{})
	var asked atomic.Int64
	find := func(version string) (plan.Matches, string) {
		b := w.builder(t.Context(), t, plan.Scope{}, "name=p&sortBy=.metadata.labels.v&facets=.metadata.labels.v&resourceVersion="+version, &asked)
		snap, err := w.snapshotFor(b)
		if err != nil {
			t.Fatal(err)
		}
		asked.Store(0)
		m, facets, _, err := w.execute(snap, b)
		if err != nil {
			t.Fatal(err)
		}
		return m, facets
	}
	if find(""); asked.Load() != 3000 {
		t.Errorf("the first search looked at %d", asked.Load())
	}
	if find(""); asked.Load() != 0 {
		t.Errorf("the second at %d", asked.Load())
	}
	for i := range 50 {
		w.send(podsPath, "MODIFIED", changed(i, 2000+i, `"v":"1"`))
	}
	m, facets := find("2049")
	if asked.Load() != 100 {
		t.Errorf("50 changes cost %d", asked.Load())
	}
	if facets != `,"facets":{".metadata.labels.v":{"0":2950,"1":50}}` {
		t.Error(facets)
	}
	var last string
	m.Page(0, 1, true, func(ref *index.Ref) { last = ref.Name })
	if m.Len() != 3000 || last != "p0049" {
		t.Errorf("%d, the last is %s", m.Len(), last)
	}
	for i := range 3001 { // more than there are objects
		w.send(podsPath, "MODIFIED", changed(i%3000, 3000+i, `"v":"2"`))
	}
	if find("6000"); asked.Load() != 3000 {
		t.Errorf("a search that begins anew looked at %d", asked.Load())
	}
}

func TestResultsBeginAnewWhereTheHistoryEnds(t *testing.T) {
	const n = 9000 // more changes than any history has
	w := newWorld(t, map[string][]string{podsPath: manyPods(12_000)}, Options{MaxItems: 20_000})
	k := w.resolve(t, "", "pods")
	if p, err := w.list(t, k, plan.Scope{}, "name=p&label=v%3D1"); err != nil || p.Total != 0 {
		t.Fatal(p, err)
	}
	for i := range n {
		w.send(podsPath, "MODIFIED", changed(i, 2000+i, `"v":"1"`))
	}
	p, err := w.list(t, k, plan.Scope{}, "name=p&label=v%3D1&resourceVersion="+strconv.Itoa(2000+n-1))
	if err != nil || p.Total != n {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestResultsNeverGoBack(t *testing.T) {
	w := newWorld(t, map[string][]string{podsPath: manyPods(3)}, Options{})
	var asked atomic.Int64
	old, err := w.snapshotFor(w.builder(t.Context(), t, plan.Scope{}, "", &asked))
	if err != nil {
		t.Fatal(err)
	}
	w.send(podsPath, "DELETED", changed(0, 2000, ""))
	b := w.builder(t.Context(), t, plan.Scope{}, "name=p&resourceVersion=2000", &asked)
	snap, err := w.snapshotFor(b)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []*index.Snapshot{snap, old} {
		m, _, at, err := w.execute(s, b)
		if err != nil || m.Len() != 2 || at.Position() < snap.Position() {
			t.Errorf("%d of position %d, %v", m.Len(), at.Position(), err)
		}
	}
}

// U8: searches run in a bounded number at once, so that the memory that they take together has a bound; one user's leave room for others'.
func TestSearchesAtOnceAreBounded(t *testing.T) {
	w := newWorld(t, map[string][]string{podsPath: manyPods(1)}, Options{})
	const ofAll, ofOne, n = 4, 2, 50
	w.searches = inflight.New[string](ofAll, ofOne)
	var asked, running, most atomic.Int64
	begun, goOn, ended := make(chan string), make(chan struct{}), make(chan error)
	search := func(ctx context.Context, who, key string) {
		b := w.builder(request.WithUser(ctx, &user.DefaultInfo{Name: who}), t, plan.Scope{}, "name=p&sortBy=.metadata.labels."+key, &asked)
		snap, err := w.snapshotFor(b)
		if err != nil {
			t.Error(err)
		}
		b.Check(func(*index.Record) bool {
			most.Store(max(most.Load(), running.Add(1)))
			begun <- who + " " + key
			if who == "ann" {
				<-goOn
			}
			running.Add(-1)
			return true
		})
		go func() {
			_, _, _, err := w.execute(snap, b)
			ended <- err
		}()
	}
	for i := range n {
		search(t.Context(), "ann", fmt.Sprintf("l%d", i))
	}
	runs := map[string]bool{}
	for range ofOne {
		runs[<-begun] = true
	}
	ctx, cancel := context.WithCancel(t.Context())
	search(ctx, "ann", "given-up")
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("a search that is given up while it waits: %v", err)
	}
	waiting := 0
	for runs[fmt.Sprintf("ann l%d", waiting)] {
		waiting++
	}
	search(t.Context(), "bob", fmt.Sprintf("l%d", waiting)) // which a search of ann's that waits keeps from nobody
	if got := <-begun; !strings.HasPrefix(got, "bob ") {
		t.Errorf("%s runs, and has as many as one may have", got)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	close(goOn)
	for i := 0; i < n; {
		select {
		case <-begun:
		case err := <-ended:
			if i++; err != nil {
				t.Error(err)
			}
		}
	}
	if most.Load() > ofOne+1 {
		t.Errorf("%d searches run at once", most.Load())
	}
}

// However many requests wait for the turn of a result that is not there, one of them searches, and all have it.
func TestOneOfThoseWhoWaitForAResultSearches(t *testing.T) {
	const n = 40
	w := newWorld(t, map[string][]string{podsPath: manyPods(1)}, Options{})
	var asked, searches atomic.Int64
	ended := make(chan error)
	var taken *result
	for i := range n {
		b := w.builder(request.WithUser(t.Context(), &user.DefaultInfo{Name: "ann"}), t, plan.Scope{}, "name=p&sortBy=.metadata.labels.a", &asked)
		snap, err := w.snapshotFor(b)
		if err != nil {
			t.Fatal(err)
		}
		b.Check(func(*index.Record) bool {
			searches.Add(1)
			return true
		})
		if i == 0 { // as one who searches, and gives up
			taken = w.results.Get(b.ResultKey(nil), resultBytes, newResult)
			taken.turn <- struct{}{}
		}
		go func() {
			_, _, _, err := w.execute(snap, b)
			ended <- err
		}()
	}
	for stacks := make([]byte, 4<<20); strings.Count(string(stacks[:runtime.Stack(stacks, true)]), "(*result).inTurn(") < n; {
		runtime.Gosched()
	}
	<-taken.turn
	for range n {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if got := searches.Load(); got != 1 {
		t.Errorf("%d searches ran, want 1", got)
	}
}

// U8: what a result has of its objects is counted, whatever a query sorts by.
func TestResultsCountTheTextsThatTheyHave(t *testing.T) {
	const n = 50
	version := 2000
	labelled := func(i, length int) string {
		version++
		return changed(i, version, fmt.Sprintf(`"v":"%s%02d"`, strings.Repeat("x", length), i))
	}
	var objects []string
	for i := range n {
		objects = append(objects, labelled(i, 200))
	}
	w := newWorld(t, map[string][]string{podsPath: objects}, Options{})
	k := w.resolve(t, "", "pods")
	size := func(raw string) int64 {
		t.Helper()
		if _, err := w.list(t, k, plan.Scope{}, raw); err != nil {
			t.Fatal(err)
		}
		return w.results.Size()
	}
	const byLabel = "limit=0&name=p&sortBy=.metadata.labels.v"
	long := size(byLabel)
	if long < n*200 {
		t.Errorf("%d texts of 200 bytes are counted as %d bytes", n, long)
	}
	if all := size("limit=0&name=p&sortBy=.metadata"); all-long >= long-n*200+100 {
		t.Errorf("the order by what has none costs %d bytes more than %d", all-long, long-n*200)
	}
	before := w.results.Size()
	for i := range n - 10 { // as few as are applied to the result, one by one
		w.send(podsPath, "MODIFIED", labelled(i, 5))
	}
	w.send(podsPath, "DELETED", labelled(n-1, 200))
	if less, want := before-size(byLabel+"&resourceVersion="+strconv.Itoa(version)), int64((n-10)*195+202); less < want || less > want+200 {
		t.Errorf("without %d bytes of texts there are %d bytes less", want, less)
	}
}

func TestResultsOfAnotherCacheAreNotFollowed(t *testing.T) {
	w := newWorld(t, map[string][]string{podsPath: manyPods(3)}, Options{})
	var asked atomic.Int64
	b := w.builder(t.Context(), t, plan.Scope{}, "name=p", &asked)
	snap, err := w.snapshotFor(b)
	if err != nil {
		t.Fatal(err)
	}
	r := w.results.Get(b.ResultKey(nil), 1, newResult)
	// Positions of one store's caches never overlap: that of a cache that is gone is before all those in the history.
	r.work = &workingSet{rows: b.Order.NewRows(snap, nil, true)}
	r.now.Store(&foundRows{position: 1, rows: r.work.rows.Copy()})
	if m, _, _, err := w.execute(snap, b); err != nil || m.Len() != 3 {
		t.Errorf("%d, %v", m.Len(), err)
	}
}

func TestAFaultIsAnErrorAndNoResult(t *testing.T) {
	w := newWorld(t, map[string][]string{podsPath: manyPods(2000)}, Options{})
	var asked atomic.Int64
	b := w.builder(t.Context(), t, plan.Scope{}, "name=p", &asked)
	snap, err := w.snapshotFor(b)
	if err != nil {
		t.Fatal(err)
	}
	costly := errors.New("it costs too much")
	b.Fault = func() error {
		if asked.Load() > 300 {
			return costly
		}
		return nil
	}
	for range 2 {
		asked.Store(0)
		if _, _, _, err := w.execute(snap, b); !errors.Is(err, costly) {
			t.Errorf("%v after %d objects", err, asked.Load())
		}
	}
	if m, _, _, err := w.execute(snap, w.builder(t.Context(), t, plan.Scope{}, "name=p", &asked)); err != nil || m.Len() != 2000 {
		t.Errorf("%d, %v", m.Len(), err)
	}
}

// The result for one caller is never taken for that of another.
func TestKeysHaveEverythingOfTheScope(t *testing.T) {
	w := newWorld(t, map[string][]string{podsPath: manyPods(1)}, Options{})
	var asked atomic.Int64
	seen := map[string]plan.Scope{}
	for _, s := range []plan.Scope{
		{}, {Namespace: "a"}, {Workspace: "a"}, {Namespace: "a", Workspace: "a"}, {PartialList: &authz.PartialList{}}, {PartialList: &authz.PartialList{Key: "a"}},
		{PartialList: &authz.PartialList{Key: "b"}}, {Namespace: "a", PartialList: &authz.PartialList{Key: "a"}}, {Namespace: "aa"},
		{Workspace: "a", PartialList: &authz.PartialList{Key: "a"}},
	} {
		b := w.builder(t.Context(), t, s, "name=p", &asked)
		for _, key := range []string{string(b.ResultKey(nil)), string(b.PageKey(nil))} {
			if other, ok := seen[key]; ok {
				t.Errorf("%+v and %+v have one key", s, other)
			}
			seen[key] = s
		}
	}
	long := strings.Repeat("x", 5000)
	a, b := w.builder(t.Context(), t, plan.Scope{}, "name=a"+long, &asked), w.builder(t.Context(), t, plan.Scope{}, "name=b"+long, &asked)
	if key := a.ResultKey(nil); len(key) != 33 || string(key) == string(b.ResultKey(nil)) {
		t.Errorf("the key of a long query has %d bytes", len(key))
	}
}

// Items, totals and counts of one answer are of one moment, which never goes back for a reader.
func TestManyReadersUnderChurnSeeMoments(t *testing.T) {
	const n = 200
	w := newWorld(t, map[string][]string{podsPath: manyPods(n)}, Options{})
	k := w.resolve(t, "", "pods")
	if _, err := w.list(t, k, plan.Scope{}, ""); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var wait sync.WaitGroup
	for _, raw := range []string{
		"name=p&facets=.metadata.labels.v", "label=v!%3D2&sortBy=.metadata.labels.v&facets=.metadata.labels.v&limit=7", "sortBy=.metadata.labels.v,name&limit=50",
		"facets=.metadata.labels.v&limit=0", "label=v%3D1&name=p&fields=.metadata.labels.v&limit=5",
	} {
		for range 3 {
			wait.Go(func() {
				version := 0
				for {
					select {
					case <-stop:
						return
					default:
					}
					p, err := w.list(t, k, plan.Scope{}, raw)
					if err != nil {
						t.Errorf("%s: %v", raw, err)
						return
					}
					if v, _ := strconv.Atoi(p.ResourceVersion); v < version {
						t.Errorf("%s: version %d after %d", raw, v, version)
					} else {
						version = v
					}
					if strings.Contains(raw, "limit=0") || !strings.Contains(raw, "v%3D1") && !strings.Contains(raw, "v!") {
						if p.Total != n {
							t.Errorf("%s: total %d", raw, p.Total)
						}
					}
					rec := httptest.NewRecorder()
					p.List().Respond(rec, httptest.NewRequest(http.MethodGet, "/", nil))
					checkMoment(t, raw, p, rec.Body.Bytes())
				}
			})
		}
	}
	for i := range 3000 {
		w.send(podsPath, "MODIFIED", changed(i%n, 2000+i, fmt.Sprintf(`"v":"%d"`, i*7%3)))
	}
	if p, err := w.list(t, k, plan.Scope{}, "resourceVersion=4999&facets=.metadata.labels.v"); err != nil || p.Total != n {
		t.Errorf("%+v, %v", p, err)
	}
	close(stop)
	wait.Wait()
}

func checkMoment(t *testing.T, raw string, p *page.Page, body []byte) {
	t.Helper()
	var got struct {
		Items []struct {
			Metadata struct{ Labels map[string]string }
		}
		TotalItems int
		Facets     map[string]map[string]int
	}
	if err := json.Unmarshal(body, &got); err != nil {
		t.Errorf("%s: %v", raw, err)
		return
	}
	if len(got.Items) != p.Len() || got.TotalItems != p.Total {
		t.Errorf("%s: %d items, %d in all", raw, len(got.Items), got.TotalItems)
	}
	if counts, ok := got.Facets[".metadata.labels.v"]; ok {
		sum := 0
		for _, c := range counts {
			sum += c
		}
		if sum != p.Total {
			t.Errorf("%s: %v of %d", raw, counts, p.Total)
		}
	}
	for _, item := range got.Items {
		v := item.Metadata.Labels["v"]
		if strings.Contains(raw, "v%3D1") && v != "1" || strings.Contains(raw, "v!") && v == "2" {
			t.Errorf("%s: an item has v=%s", raw, v)
		}
	}
}
