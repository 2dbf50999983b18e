package merge_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kapis.dev/ks-apiserver/pkg/cluster/merge"
	"kapis.dev/ks-apiserver/pkg/stream"
)

// streaming is a cluster whose streams a test writes.
type streaming struct {
	name string
	// opened has the parameters of each stream that is asked for, and write what is written to the one that is open; "" cuts it off.
	opened chan url.Values
	write  chan string
	code   chan int
}

func newStreaming(name string) *streaming {
	return &streaming{name: name, opened: make(chan url.Values, 100), write: make(chan string), code: make(chan int, 100)}
}

func (s *streaming) source() merge.Source {
	return merge.Source{Name: s.name, UID: s.name, Ask: func(ctx context.Context, v url.Values, h http.Header) (*http.Response, error) {
		s.opened <- v
		code := http.StatusOK
		select {
		case code = <-s.code:
		default:
		}
		from, to := io.Pipe()
		go func() {
			for {
				select {
				case text := <-s.write:
					if text == "" {
						_ = to.CloseWithError(io.ErrUnexpectedEOF)
						return
					}
					_, _ = io.WriteString(to, text)
				case <-ctx.Done():
					_ = to.CloseWithError(ctx.Err())
					return
				}
			}
		}()
		return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {h.Get("Accept")}}, Body: from}, nil
	}}
}

// event is one of the cluster's, after which everything up to a version was told.
func event(typ, name, id string) string {
	if id != "" {
		id = "id: " + id + "\n"
	}
	return fmt.Sprintf("event: %s\n%sdata: {\"type\":%q,\"object\":{\"kind\":\"Pod\","+
		"\"apiVersion\":\"v1\",\"metadata\":{\"name\":%q,\"uid\":\"u-%s\"}}}\n\n", typ, id, typ,
		name, name)
}

func ping(id string) string { return ": ping\nid: " + id + "\n\n" }

// told is a line of a watch.
type told struct {
	Type   string
	Object struct {
		Code     int
		Kind     string
		Metadata struct {
			Name, ResourceVersion string
			Annotations           map[string]string
		}
	}
}

// watching opens a watch, and returns what it tells, which ends with the watch.
func watching(t *testing.T, values url.Values, all ...*streaming) <-chan told {
	t.Helper()
	guard := stream.New(stream.Options{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o, err := merge.ParseOptions(values)
		if err != nil {
			t.Error(err)
			return
		}
		q := &merge.List{Path: "/kapi/v1/pods", Header: http.Header{}, Now: time.Now}
		x, err := q.Watch(o, "")
		if err != nil {
			t.Error(err)
			return
		}
		x.Clusters = func(context.Context) (out []merge.Source, _ error) {
			for _, s := range all {
				out = append(out, s.source())
			}
			return out, nil
		}
		guard.Answer(x).Respond(w, r)
	}))
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(func() { cancel(); srv.CloseClientConnections(); srv.Close() })
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, srv.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := srv.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	out := make(chan told, 100)
	go func() {
		defer close(out)
		defer resp.Body.Close()
		for s := bufio.NewScanner(resp.Body); s.Scan(); {
			var line told
			if err := json.Unmarshal(s.Bytes(), &line); err != nil {
				t.Errorf("%v: %s", err, s.Text())
			}
			out <- line
		}
	}()
	return out
}

// next returns the next line of a watch that is wanted.
func next(t *testing.T, lines <-chan told, wanted func(told) bool) told {
	t.Helper()
	for {
		select {
		case line, open := <-lines:
			if !open {
				t.Fatal("the watch has ended")
			}
			if wanted(line) {
				return line
			}
			if line.Type != "BOOKMARK" {
				t.Fatalf("told is %+v", line)
			}
		case <-time.After(time.Minute):
			t.Fatal("nothing is told")
		}
	}
}

func isEvent(typ, cluster, name string) func(told) bool {
	return func(l told) bool {
		return l.Type == typ && l.Object.Metadata.Name == name && l.Object.Metadata.Annotations[merge.AnnotationCluster] == cluster
	}
}

// names is whether a bookmark says that these clusters are missing.
func names(clusters string) func(told) bool {
	return func(l told) bool {
		return l.Type == "BOOKMARK" && l.Object.Metadata.Annotations[merge.AnnotationMissing] == clusters
	}
}

// F37: a cluster that is lost deletes nothing and is named; when it is back it goes on where it was, and so does a client that comes back.
func TestAWatchGoesOnWhereItWas(t *testing.T) {
	a, b := newStreaming("a"), newStreaming("b")
	lines := watching(t, url.Values{"labelSelector": {"app=x"}}, a, b)
	for _, s := range []*streaming{a, b} {
		if v := <-s.opened; v.Get("resourceVersion") != "" || v.Get("watch") != "true" || v.Get("labelSelector") != "app=x" {
			t.Errorf("%s is asked %v", s.name, v)
		}
	}
	a.write <- event("ADDED", "one", "") + ping("10")
	next(t, lines, isEvent("ADDED", "a", "one"))
	b.write <- event("ADDED", "two", "") + ping("1000") + event("MODIFIED", "two", "1001")
	next(t, lines, isEvent("ADDED", "b", "two"))
	next(t, lines, isEvent("MODIFIED", "b", "two"))
	b.write <- ""
	lost := next(t, lines, names("b"))
	a.write <- event("DELETED", "one", "11")
	next(t, lines, isEvent("DELETED", "a", "one"))
	if v := <-b.opened; v.Get("resourceVersion") != "1001" {
		t.Errorf("b goes on at %q", v.Get("resourceVersion"))
	}
	b.write <- event("DELETED", "two", "1002")
	next(t, lines, isEvent("DELETED", "b", "two"))
	back := next(t, lines, names(""))
	if back.Object.Kind != "Pod" || back.Object.Metadata.ResourceVersion == lost.Object.Metadata.ResourceVersion {
		t.Errorf("%+v after %+v", back, lost)
	}

	c := newStreaming("c")
	resumed := watching(t, url.Values{"resourceVersion": {back.Object.Metadata.ResourceVersion}}, a, b, c)
	for want, s := range map[string]*streaming{"11": a, "1002": b, "": c} {
		if v := <-s.opened; v.Get("resourceVersion") != want {
			t.Errorf("%s goes on at %q, want %q", s.name, v.Get("resourceVersion"), want)
		}
	}
	c.write <- event("ADDED", "joined", "")
	next(t, resumed, isEvent("ADDED", "c", "joined"))
}

const gone = "event: ERROR\nid:\ndata: {\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"status\":\"Failure\",\"code\":410}}\n\n"

// F37: where a cluster no longer knows the changes, the watch ends, or that cluster alone is sent anew.
func TestAClusterThatHasForgotten(t *testing.T) {
	a, b := newStreaming("a"), newStreaming("b")
	lines := watching(t, nil, a, b)
	<-a.opened
	a.write <- gone
	if end := next(t, lines, func(l told) bool { return l.Type == "ERROR" }); end.Object.Code != http.StatusGone {
		t.Errorf("%+v", end)
	}

	a = newStreaming("a")
	lines = watching(t, url.Values{"partialReset": {"true"}}, a, b)
	<-a.opened
	a.write <- gone
	next(t, lines, func(l told) bool { return l.Object.Metadata.Annotations[merge.AnnotationResetBegins] == "a" })
	if v := <-a.opened; v.Get("resourceVersion") != "" {
		t.Errorf("a goes on at %q", v.Get("resourceVersion"))
	}
	a.write <- event("ADDED", "one", "") + ping("5")
	next(t, lines, isEvent("ADDED", "a", "one"))
	next(t, lines, func(l told) bool { return l.Object.Metadata.Annotations[merge.AnnotationResetEnds] == "a" })
}

// initialEnd is the bookmark after the initial events, which names these clusters as missing.
func initialEnd(missing string) func(told) bool {
	return func(l told) bool {
		return names(missing)(l) && l.Object.Metadata.Annotations["k8s.io/initial-events-end"] == "true"
	}
}

// F37: informers of client-go begin a watch so: what there is first, and a bookmark of the kind of the objects when each cluster that can has
// sent all of it; a cluster that can't is named.
func TestAWatchBeginsWithWhatThereIs(t *testing.T) {
	a, b, c := newStreaming("a"), newStreaming("b"), newStreaming("c")
	v := url.Values{"sendInitialEvents": {"true"}, "resourceVersionMatch": {"NotOlderThan"}, "allowWatchBookmarks": {"true"}}
	c.code <- http.StatusForbidden
	lines := watching(t, v, a, b, c)
	for _, s := range []*streaming{a, b, c} {
		if got := <-s.opened; got.Get("sendInitialEvents") != "true" || got.Get("resourceVersionMatch") != "NotOlderThan" || got.Get("resourceVersion") != "" {
			t.Errorf("%s is asked %v", s.name, got)
		}
	}
	c.write <- "" // the end of its refusal
	a.write <- event("ADDED", "one", "") + ping("10")
	next(t, lines, isEvent("ADDED", "a", "one"))
	b.write <- event("ADDED", "two", "")
	for ended := false; !ended; { // what comes before b has said that this is all
		l := next(t, lines, func(l told) bool { return l.Type != "" })
		if ended = isEvent("ADDED", "b", "two")(l); !ended && l.Object.Metadata.Annotations["k8s.io/initial-events-end"] != "" {
			t.Fatalf("the end comes before b has sent all: %+v", l)
		}
	}
	b.write <- "event: BOOKMARK\nid: 7\ndata: {\"type\":\"BOOKMARK\",\"object\":" +
		"{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":\"7\"}}}\n\n"
	end := next(t, lines, initialEnd("c"))
	if end.Object.Kind != "Pod" {
		t.Errorf("%+v", end)
	}
	// A client that begins at a version waits for it, and one that goes on gets changes alone.
	a, b = newStreaming("a"), newStreaming("b")
	v.Set("resourceVersion", end.Object.Metadata.ResourceVersion)
	watching(t, v, a, b)
	for want, s := range map[string]*streaming{"10": a, "7": b} {
		if got := <-s.opened; got.Get("resourceVersion") != want || got.Get("sendInitialEvents") != "true" {
			t.Errorf("%s is asked %v", s.name, got)
		}
	}
	w := goingOn(t, v, end.Object.Metadata.ResourceVersion)
	if w.Versions() != nil {
		t.Error("a client that goes on has the versions found anew")
	}
}

func goingOn(t *testing.T, v url.Values, after string) *merge.Watch {
	t.Helper()
	o, err := merge.ParseOptions(v)
	if err != nil {
		t.Fatal(err)
	}
	w, err := (&merge.List{Path: "/kapi/v1/pods", Header: http.Header{}, Now: time.Now}).Watch(o, after)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// F37: a watch of what changes from now on begins at the versions of a list, so that nothing is missed before the first event. A cluster that was too slow
// for the list, or away, sends no object that was there before: it is asked for its version first, and goes on from there where its stream breaks off.
func TestAWatchFromNowOnBeginsAtTheVersionsOfAList(t *testing.T) {
	w := goingOn(t, url.Values{"watch": {"true"}, "sendInitialEvents": {"false"}, "resourceVersionMatch": {"NotOlderThan"}, "labelSelector": {"phase=x"}}, "")
	o := w.Versions()
	if o == nil {
		t.Fatal("it begins anywhere")
	}
	m, a := &member{name: "a", objects: []object{{namespace: "n", name: "one", uid: "u1", version: 1}}}, newStreaming("a")
	m.answer = func(v url.Values, _ http.ResponseWriter) bool {
		if v.Has("watch") || v.Has("sendInitialEvents") || v.Get("limit") != "0" || v.Get("labelSelector") != "phase=x" {
			t.Errorf("the list asks for %v", v)
		}
		return false
	}
	found, err := (&merge.List{Path: "/kapi/v1/pods", Header: http.Header{}, Now: time.Now, Sources: []merge.Source{m.source()}}).Answer(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	w.Begin(found)
	b := newStreaming("b")
	slow := b.source()
	streamed := slow.Ask //nolint:bodyclose // who asks closes it
	slow.Ask = func(ctx context.Context, v url.Values, h http.Header) (*http.Response, error) {
		if v.Has("watch") {
			return streamed(ctx, v, h)
		}
		if v.Has("sendInitialEvents") || v.Get("view") != "keys" || v.Get("limit") != "0" || v.Get("labelSelector") != "phase=x" {
			t.Errorf("its version is asked for by %v", v)
		}
		body := io.NopCloser(strings.NewReader(`{"totalItems":3,"start":0,"metadata":{"resourceVersion":"40"},"rows":[]}`))
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: body, ContentLength: -1}, nil
	}
	w.Clusters = func(context.Context) ([]merge.Source, error) {
		s := a.source()
		s.UID = m.source().UID
		return []merge.Source{s, slow}, nil
	}
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		stream.New(stream.Options{}).Answer(w).Respond(rw, r)
	}))
	defer srv.Close()
	defer srv.CloseClientConnections()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, srv.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := srv.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if v := <-a.opened; v.Get("resourceVersion") != "7" || v.Has("sendInitialEvents") {
		t.Errorf("it begins at %v", v)
	}
	for _, what := range []string{"begins", "goes on"} {
		if v := <-b.opened; v.Get("resourceVersion") != "40" || v.Has("sendInitialEvents") || v.Has("view") || v.Has("limit") {
			t.Errorf("the slow one %s at %v", what, v)
		}
		b.write <- ""
	}
}

// F38: a cluster does not say what kind the bookmarks of all have, unless it can be one.
func TestABookmarkHasAKindOfItsOwn(t *testing.T) {
	bad := newStreaming("a")
	lines := watching(t, nil, bad)
	<-bad.opened
	for i, kind := range []string{strings.Repeat("x", 1000), ""} {
		bad.write <- fmt.Sprintf("id: %d\ndata: {\"type\":\"ADDED\",\"object\":{\"kind\":%q,\"apiVersion\":\"v1\",\"metadata\":"+
			"{\"name\":\"x\",\"uid\":\"u\"}}}\n\n", i+1, kind)
		next(t, lines, func(l told) bool { return l.Type == "ADDED" })
	}
	bad.write <- ""
	if l := next(t, lines, names("a")); l.Object.Kind != "" {
		t.Errorf("%+v", l)
	}
}

// F38: whatever one cluster streams, the events of the others come through, and it is named.
func TestWhatOneClusterStreamsSpoilsNothing(t *testing.T) {
	for name, text := range map[string]string{
		"no JSON":                "data: {\"type\":\"ADDED\"\n\n",
		"two objects":            "data: {\"type\":\"ADDED\",\"object\":{},\"Object\":{}}\n\n",
		"an object without name": "data: {\"type\":\"DELETED\",\"object\":{\"metadata\":{\"uid\":\"u-one\"}}}\n\n",
		"an unknown type":        "data: {\"type\":\"RESET\",\"object\":{\"metadata\":{\"name\":\"x\"}}}\n\n",
		"a version of letters":   "id: x\n\n",
		"an endless event":       "data: " + strings.Repeat("x", 5<<20) + "\n\n",
		"metadata twice": "data: {\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"x\",\"uid\":\"u\"},\"metadata\":{\"annotations\":" +
			"{\"kapis.dev/cluster\":\"a\"}}}}\n\n",
	} {
		t.Run(name, func(t *testing.T) {
			a, bad := newStreaming("a"), newStreaming("zz")
			lines := watching(t, nil, a, bad)
			<-bad.opened
			<-a.opened
			bad.write <- text
			next(t, lines, names("zz"))
			a.write <- event("ADDED", "one", "7")
			next(t, lines, isEvent("ADDED", "a", "one"))
		})
	}
}

// F37: a live page is the page, and then what a list would answer differently, whenever a cluster says that something has changed; it does not end where as
// many lists are answered at that moment as can be.
func TestALivePageOverClusters(t *testing.T) {
	members := []*member{{name: "a", objects: []object{{namespace: "n", name: "one", uid: "u1", version: 1}}}, {name: "b"}}
	streams := []*streaming{newStreaming("a"), newStreaming("b")}
	var mu sync.Mutex
	all := func(context.Context) (out []merge.Source, _ error) {
		for i, m := range members {
			s, page := streams[i].source(), m.source()
			s.Ask = func(ctx context.Context, v url.Values, h http.Header) (*http.Response, error) {
				mu.Lock()
				defer mu.Unlock()
				if v.Get("watch") == "true" {
					return streams[i].source().Ask(ctx, v, h)
				}
				return page.Ask(ctx, v, h)
			}
			out = append(out, s)
		}
		return out, nil
	}
	o, err := merge.ParseOptions(url.Values{"limit": {"5"}, "sortBy": {"name"}, "ascending": {"true"}, "view": {"live"}})
	if err != nil || !o.Live() {
		t.Fatal(err)
	}
	q := &merge.List{Path: "/kapi/v1/pods", Header: http.Header{}, Now: time.Now}
	var busy atomic.Bool
	live, err := q.Live(t.Context(), o, func(ctx context.Context) (*merge.Answer, error) {
		if busy.CompareAndSwap(true, false) {
			return nil, apierrors.NewTooManyRequests("others are answered", 1)
		}
		now := *q
		now.Sources, _ = all(ctx)
		return now.Answer(ctx, o)
	})
	if err != nil {
		t.Fatal(err)
	}
	guard := stream.New(stream.Options{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		guard.Answer(live.Source(all, func() {})).Respond(w, r)
	}))
	ctx, cancel := context.WithCancel(t.Context())
	defer srv.Close()
	defer srv.CloseClientConnections()
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, srv.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := srv.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	if !lines.Scan() || !strings.Contains(lines.Text(), `"one"`) || !strings.Contains(lines.Text(), `"totalItems":1`) {
		t.Fatalf("%s %v", lines.Text(), lines.Err())
	}
	for _, s := range streams {
		if v := <-s.opened; v.Get("resourceVersion") != "7" {
			t.Errorf("%s is followed from %q", s.name, v.Get("resourceVersion"))
		}
	}
	mu.Lock()
	members[0].objects, members[1].objects = nil, []object{{namespace: "n", name: "two", uid: "u1", version: 2}}
	mu.Unlock()
	busy.Store(true)
	streams[1].write <- event("ADDED", "two", "9")
	var change struct {
		TotalItems int
		Order      []string
		Changes    []struct {
			Type   string
			Object struct {
				Metadata struct {
					Name        string
					Annotations map[string]string
				}
			}
		}
	}
	if !lines.Scan() || json.Unmarshal(lines.Bytes(), &change) != nil {
		t.Fatalf("%s %v", lines.Text(), lines.Err())
	}
	if c := change.Changes; len(c) != 2 || c[0].Type != "ADDED" || c[0].Object.Metadata.Name != "two" || c[1].Type != "DELETED" ||
		c[1].Object.Metadata.Annotations[merge.AnnotationCluster] != "a" || len(change.Order) != 1 || change.Order[0] != "b/u1" || change.TotalItems != 1 {
		t.Errorf("%s", lines.Text())
	}
}

// What makes no sense in a watch is refused by name.
func TestBadWatchesAreRefused(t *testing.T) {
	for _, v := range []url.Values{{"limit": {"3"}}, {"page": {"2"}}, {"facets": {"cluster"}}, {"resourceVersion": {"5"}}, {"timeoutSeconds": {"x"}},
		{"partialReset": {"x"}}, {"sendInitialEvents": {"true"}}, {"resourceVersionMatch": {"Exact"}},
		{"sendInitialEvents": {"x"}, "resourceVersionMatch": {"NotOlderThan"}}, {"managedFields": {"true"}, "limit": {"3"}}} {
		o, err := merge.ParseOptions(v)
		if err == nil {
			_, err = (&merge.List{}).Watch(o, "")
		}
		if !apierrors.IsBadRequest(err) {
			t.Errorf("%v: %v", v, err)
		}
	}
}
