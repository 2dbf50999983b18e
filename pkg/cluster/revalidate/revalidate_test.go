package revalidate_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/cluster"
	"kapis.dev/ks-apiserver/pkg/cluster/link"
	"kapis.dev/ks-apiserver/pkg/cluster/linktest"
	"kapis.dev/ks-apiserver/pkg/cluster/revalidate"
	"kapis.dev/ks-apiserver/pkg/store"
)

const uid = "0f8fad5b-d9cb-469f-a165-70867728950e"

// world is a hub with one member, whose questions a handler answers.
type world struct {
	*revalidate.Hub
	member *cluster.Member
	ticks  atomic.Int64

	mu     sync.Mutex
	n      uint64
	wake   chan struct{}
	next   http.HandlerFunc
	opened atomic.Int64
	// instead answers the stream, nil for a revalidate.Member.
	instead http.HandlerFunc
}

// answerBy has questions answered by next, and the stream by instead where that is not nil.
func (w *world) answerBy(next, instead http.HandlerFunc) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.next, w.instead = next, instead
}

func (w *world) handlers() (next, instead http.HandlerFunc) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.next, w.instead
}

// eventually waits until ok is true.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick, end := time.NewTicker(time.Millisecond), time.After(5*time.Minute)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("it did not come to this: %s", what)
		}
	}
}

func (w *world) now() time.Time { return time.Unix(1000, w.ticks.Load()) }

func (w *world) changes() (uint64, <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.wake == nil {
		w.wake = make(chan struct{})
	}
	return w.n, w.wake
}

// change counts a change.
func (w *world) change() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.n++; w.wake != nil {
		close(w.wake)
		w.wake = nil
	}
}

func newWorld(t *testing.T, next http.HandlerFunc) (w *world, drain context.CancelFunc) {
	t.Helper()
	w = &world{next: next}
	by := linktest.NewAuthority(t)
	members := &cluster.Members{Identity: by.Hub(t), Host: "host", Now: time.Now}
	members.Set(&store.Object{Name: "m1", Raw: []byte(`{"metadata":{"name":"m1","uid":"` + uid + `"},"spec":{"enable":true}}`)})
	answers := &revalidate.Member{Next: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		next, _ := w.handlers()
		next(rw, r)
	}), Changes: w.changes}
	h := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.opened.Add(1)
		if _, instead := w.handlers(); instead != nil {
			instead(rw, r)
			return
		}
		answers.ServeHTTP(rw, r)
	})
	by.Link(t, members, uid, h)
	ctx, cancel := context.WithCancel(t.Context())
	w.Hub, w.member = revalidate.NewHub(ctx, w.now), members.ByName("m1")
	return w, cancel
}

var caller = json.RawMessage(`{"X-Remote-User":["ann"],"if-none-match":["*"]}`)

func pods(code int, tag string) revalidate.Question {
	return revalidate.Question{Path: "/kapi/v1/pods", Query: "limit=1", Code: code, Tag: tag}
}

func (w *world) ask(t *testing.T, all ...revalidate.Question) (revalidate.Confirmation, bool, error) {
	t.Helper()
	return w.Confirm(t.Context(), w.member, caller, all)
}

// F36: a member asks itself what the hub has, as the caller and with the tag, and says whether it would answer as before; anything else than the
// same answer or the same refusal is another one.
func TestAMemberConfirmsWhatItWouldAnswer(t *testing.T) {
	w, _ := newWorld(t, func(rw http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.URL.Path != "/kapi/v1/pods" || r.URL.RawQuery != "limit=1" || r.Header.Get("X-Remote-User") != "ann" ||
			!link.FromHub(r.Context()) {
			panic(fmt.Sprint(r.URL, r.Header))
		}
		switch tag := r.Header.Get("If-None-Match"); tag {
		case `"same"`:
			rw.WriteHeader(http.StatusNotModified)
		case `"panic"`:
			panic("no")
		case `"abort"`:
			panic(http.ErrAbortHandler)
		case `"early"`:
			rw.WriteHeader(http.StatusEarlyHints)
			rw.WriteHeader(http.StatusNotModified)
		case `"endless"`:
			for {
				if _, err := io.WriteString(rw, "x"); err != nil {
					return
				}
			}
		case "":
			rw.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(rw, "no")
		default:
			_, _ = io.WriteString(rw, "another")
		}
	})
	same, refused := pods(200, `"same"`), pods(403, "")
	elsewhere := same
	elsewhere.Path = "/api/v1/secrets"
	for what, c := range map[string]struct {
		all  []revalidate.Question
		want bool
	}{
		"the same": {[]revalidate.Question{same}, true}, "both": {[]revalidate.Question{same, refused}, true},
		"refused as before": {[]revalidate.Question{refused}, true}, "another refusal": {[]revalidate.Question{pods(404, "")}, false},
		"another": {[]revalidate.Question{pods(200, `"old"`)}, false}, "one of two": {[]revalidate.Question{same, pods(200, `"old"`)}, false},
		"refused now": {[]revalidate.Question{pods(200, "")}, false}, "no list": {[]revalidate.Question{elsewhere}, false},
		"a tag of a refusal": {[]revalidate.Question{pods(403, `"same"`)}, false},
		"a panic":            {[]revalidate.Question{pods(200, `"panic"`)}, false}, "an abort": {[]revalidate.Question{pods(200, `"abort"`)}, false},
		"hints first": {[]revalidate.Question{pods(200, `"early"`)}, true}, "an endless one": {[]revalidate.Question{pods(200, `"endless"`)}, false},
		"nothing": {nil, false},
	} {
		confirmation, got, err := w.ask(t, c.all...)
		if err != nil || got != c.want || confirmation.Holds(w.now()) != c.want {
			t.Errorf("%s: %v, %v, %v", what, got, confirmation, err)
		}
	}
	if n := w.opened.Load(); n != 1 {
		t.Errorf("%d streams were opened", n)
	}
}

// F36: a confirmation counts until its time is over, a change is told or the stream has ended, whatever comes first.
func TestAConfirmationEnds(t *testing.T) {
	w, drain := newWorld(t, func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusNotModified) })
	confirmation := func() revalidate.Confirmation {
		t.Helper()
		l, same, err := w.ask(t, pods(200, `"a"`))
		if err != nil || !same || !l.Holds(w.now()) {
			t.Fatalf("%v %v %v", l, same, err)
		}
		return l
	}
	ends := func(what string, l revalidate.Confirmation) {
		t.Helper()
		eventually(t, "the confirmation ends by "+what, func() bool { return !l.Holds(w.now()) })
	}
	l := confirmation()
	if w.ticks.Add(int64(revalidate.Term)); l.Holds(w.now()) {
		t.Error("its time is over, and it counts")
	}
	one, other := confirmation(), confirmation()
	w.change()
	ends("a change", one)
	ends("a change", other)
	one = confirmation() // after the change was told, it is told again
	w.change()
	ends("a second change", one)
	one = confirmation()
	drain()
	ends("the end of the server", one)
	if _, _, err := w.ask(t, pods(200, `"a"`)); err == nil {
		t.Error("a member is asked after the end")
	}
	if (revalidate.Confirmation{}).Holds(w.now()) {
		t.Error("no confirmation counts")
	}
}

// A change while a question is answered ends the confirmation: the answer may be of before it.
func TestAChangeMeanwhileIsTold(t *testing.T) {
	w, _ := newWorld(t, nil)
	w.answerBy(func(rw http.ResponseWriter, _ *http.Request) {
		w.change()
		rw.WriteHeader(http.StatusNotModified)
	}, nil)
	l, same, err := w.ask(t, pods(200, `"a"`))
	if err != nil || !same {
		t.Fatal(same, err)
	}
	eventually(t, "the confirmation ends", func() bool { return !l.Holds(w.now()) })
}

// F33: a member without a stream is asked without one, and is not tried again for a while.
func TestAMemberOfAnOlderRelease(t *testing.T) {
	for what, instead := range map[string]http.HandlerFunc{
		"not found":    http.NotFound,
		"another page": func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, `{"n":1,"same":true}`) },
	} {
		w, _ := newWorld(t, nil)
		w.answerBy(nil, instead)
		for range 3 {
			if l, same, err := w.ask(t, pods(200, `"a"`)); err == nil || same || l.Holds(w.now()) {
				t.Errorf("%s: %v %v %v", what, l, same, err)
			}
		}
		if n := w.opened.Load(); n != 1 {
			t.Errorf("%s: it was tried %d times", what, n)
		}
		w.ticks.Add(int64(2 * time.Minute))
		if _, _, err := w.ask(t, pods(200, `"a"`)); err == nil || w.opened.Load() != 2 {
			t.Errorf("%s: later it was tried %d times, %v", what, w.opened.Load(), err)
		}
	}
}

// F17, F39: a member that says what it was not asked, or what is no line, gives no confirmation, and ends its stream only.
func TestAMemberThatSaysNonsense(t *testing.T) {
	for what, line := range map[string]string{"no JSON": "x\n", "an endless line": strings.Repeat("1", 1<<20), "another number": `{"n":99,"same":true}` + "\n"} {
		w, _ := newWorld(t, nil)
		w.answerBy(nil, func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Content-Type", r.Header.Get("Content-Type"))
			_, _ = io.WriteString(rw, line)
		})
		if l, same, err := w.ask(t, pods(200, `"a"`)); err == nil || same || l.Holds(w.now()) {
			t.Errorf("%s: %v %v %v", what, l, same, err)
		}
	}
}

// A member that is silent costs a question its time once: then there is no stream.
func TestAMemberThatIsSilentInItsStream(t *testing.T) {
	w, _ := newWorld(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, same, err := w.Confirm(ctx, w.member, caller, []revalidate.Question{pods(200, `"a"`)}); same || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v %v", same, err)
	}
	if _, _, err := w.ask(t, pods(200, `"a"`)); err == nil { // without a deadline
		t.Error("it answers")
	}
	if _, _, err := w.ask(t, revalidate.Question{Path: strings.Repeat("x", 1<<20)}); err == nil {
		t.Error("a line of any length is sent")
	}
}

// Nobody but the hub of the fleet gets a stream.
func TestAStreamIsTheHubs(t *testing.T) {
	asked := false
	m := &revalidate.Member{Next: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }), Changes: (&world{}).changes}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, revalidate.Path, strings.NewReader(`{"n":1}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-ndjson")
	w := &recorded{header: http.Header{}}
	if m.ServeHTTP(w, r); w.code != http.StatusNotFound || asked {
		t.Errorf("%d", w.code)
	}
}

type recorded struct {
	header http.Header
	code   int
}

func (r *recorded) Header() http.Header         { return r.header }
func (r *recorded) WriteHeader(code int)        { r.code = code }
func (r *recorded) Write(p []byte) (int, error) { return len(p), nil }

// What can be confirmed is a whole answer with a tag, or a refusal.
func TestWhatCanBeConfirmed(t *testing.T) {
	for _, c := range []struct {
		path string
		code int
		tag  string
		want bool
	}{
		{"/kapi/v1/pods", 200, `"a"`, true}, {"/kapis/apps/v1/deployments", 200, `"a"`, true}, {"/kapi/v1/pods", 200, "", false},
		{"/kapi/v1/pods", 200, strings.Repeat("a", 1<<10), false}, {"/kapi/v1/pods", 403, "", true}, {"/kapi/v1/pods", 404, `"a"`, true},
		{"/kapi/v1/pods", 503, "", false}, {"/kapi/v1/pods", 429, "", false}, {"/api/v1/pods", 200, `"a"`, false}, {"/api/v1/pods", 403, "", false},
	} {
		q, got := revalidate.Keepable(revalidate.Question{Path: c.path}, &http.Response{StatusCode: c.code, Header: http.Header{"Etag": {c.tag}}})
		if got != c.want || got && (q.Code != c.code || (q.Tag == "") != (c.code != http.StatusOK)) {
			t.Errorf("%+v: %+v %v", c, q, got)
		}
	}
}
