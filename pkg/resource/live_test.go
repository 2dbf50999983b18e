package resource

import (
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/resource/plan"
	"kapis.dev/ks-apiserver/pkg/resource/watch"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// liveMessage is a message of a live page.
type liveMessage struct {
	Generation      *uint64
	TotalItems      *int
	ResourceVersion string
	Items           []json.RawMessage
	Order           []string
	Changes         []struct {
		Type   string
		Object json.RawMessage
	}
}

// browser maintains a page as a console would: by the messages.
type browser struct {
	total   int
	order   []string
	objects map[string]string // by UID
	version string
}

func uidOf(t testing.TB, object json.RawMessage) string {
	t.Helper()
	var o struct{ Metadata metav1.ObjectMeta }
	if err := json.Unmarshal(object, &o); err != nil || o.Metadata.UID == "" {
		t.Fatalf("%s: %v", object, err)
	}
	return string(o.Metadata.UID)
}

func (b *browser) take(t testing.TB, text string) liveMessage {
	t.Helper()
	var m liveMessage
	if err := json.Unmarshal([]byte(text), &m); err != nil || m.Generation == nil || m.TotalItems == nil || m.ResourceVersion == "" {
		t.Fatalf("%s: %v", text, err)
	}
	b.total, b.version = *m.TotalItems, m.ResourceVersion
	if m.Items != nil {
		b.order, b.objects = nil, map[string]string{}
		for _, o := range m.Items {
			uid := uidOf(t, o)
			b.order = append(b.order, uid)
			b.objects[uid] = string(o)
		}
		return m
	}
	for _, c := range m.Changes {
		uid := uidOf(t, c.Object)
		_, known := b.objects[uid]
		if known != (c.Type != "ADDED") {
			t.Fatalf("%s of %s, which is known: %v", c.Type, uid, known)
		}
		if c.Type == "DELETED" {
			delete(b.objects, uid)
		} else {
			b.objects[uid] = string(c.Object)
		}
	}
	if m.Order != nil {
		b.order = m.Order
	}
	return m
}

func (b *browser) page() []string {
	out := make([]string, len(b.order))
	for i, uid := range b.order {
		out[i] = b.objects[uid]
	}
	return out
}

func TestALivePageTellsThePageAndThenWhatIsDifferent(t *testing.T) {
	c := newLiveCluster(t)
	for i := range 4 {
		c.pod("a", "p"+strconv.Itoa(i), "x")
	}
	w := get(t, c.listen("pods", plan.Scope{}).URL+"?view=live&limit=2&sortBy=name&ascending=true")
	b := &browser{}
	next := func() (liveMessage, string) {
		t.Helper()
		text, ok := w.line()
		if !ok {
			t.Fatal("it ended")
		}
		return b.take(t, text), text
	}
	is := func(total int, uids ...string) {
		t.Helper()
		if b.total != total || !slices.Equal(b.order, uids) || len(b.objects) != len(uids) {
			t.Fatalf("%d %q of %d", b.total, b.order, len(b.objects))
		}
	}
	if _, text := next(); !strings.HasPrefix(text, `{"generation":`) || strings.Contains(text, "changes") {
		t.Errorf("the first message is %s", text)
	}
	is(4, "u-a-p0", "u-a-p1")

	c.pod("a", "p1", "y")
	if m, text := next(); m.Order != nil || len(m.Changes) != 1 || m.Changes[0].Type != "MODIFIED" {
		t.Errorf("a change says %s", text)
	}
	c.pod("a", "p9", "y")
	if m, text := next(); m.Order != nil || len(m.Changes) != 0 {
		t.Errorf("another total says %s", text)
	}
	is(5, "u-a-p0", "u-a-p1")

	c.remove(podsAt, "a", "p0", true)
	m, text := next()
	is(4, "u-a-p1", "u-a-p2")
	if len(m.Changes) != 2 || m.Changes[0].Type != "ADDED" || m.Changes[1].Type != "DELETED" ||
		string(m.Changes[1].Object) != `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p0","namespace":"a","uid":"u-a-p0"}}` {
		t.Errorf("a page that moves says %s", text)
	}
	c.pod("a", "p3", "z") // neither the page nor the total: no message
	c.put(podsAt, "a", "p2", "}}", true)
	if m, text := next(); len(m.Changes) != 1 || uidOf(t, m.Changes[0].Object) != "u-a-p2" {
		t.Errorf("%s", text)
	}
}

func TestALivePageInOtherForms(t *testing.T) {
	c := newLiveCluster(t)
	c.pod("a", "p1", "x")
	url := c.listen("pods", plan.Scope{}).URL
	t.Run("ServerSentEvents", func(t *testing.T) {
		w := get(t, url+"?view=live&limit=2", "Accept: text/event-stream")
		read := func() string {
			for {
				text, ok := w.line()
				if !ok {
					t.Fatal("it ended")
				}
				if text != "" && text != ": ping" {
					return text
				}
			}
		}
		got := []string{read(), read(), read()}
		c.pod("a", "p1", "y")
		got = append(got, read(), read())
		for i, prefix := range []string{"retry: 1000", "event: PAGE", `data: {"generation":`, "event: CHANGE", `data: {"generation":`} {
			if !strings.HasPrefix(got[i], prefix) {
				t.Errorf("%d: %s", i, got[i])
			}
		}
	})
	t.Run("OnlySomeFields", func(t *testing.T) {
		w := get(t, url+"?view=live&limit=2&fields=.metadata.labels.app")
		if text, _ := w.line(); !strings.Contains(text, `"items":[{"kind":"Pod","apiVersion":"v1","metadata":{"uid":"u-a-p1","labels":{"app":"y"}}}]`) {
			t.Errorf("%s", text)
		}
		c.put(podsAt, "a", "p1", `,"labels":{"app":"y"}},"spec":{"nodeName":"other"}}`, true) // not shown
		c.pod("a", "p1", "z")
		if text, _ := w.line(); !strings.Contains(text,
			`"changes":[{"type":"MODIFIED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"uid":"u-a-p1","labels":{"app":"z"}}}}]`) {
			t.Errorf("%s", text)
		}
	})
	t.Run("OnlyTheTotal", func(t *testing.T) {
		w := get(t, url+"?view=live&limit=0")
		if text, _ := w.line(); !strings.Contains(text, `"totalItems":1,`) || !strings.HasSuffix(text, `"items":[]}`) {
			t.Errorf("%s", text)
		}
		c.pod("a", "p2", "z")
		if text, _ := w.line(); !strings.Contains(text, `"totalItems":2,`) {
			t.Errorf("%s", text)
		}
	})
	t.Run("ItEndsWhenItsTimeIsUp", func(t *testing.T) {
		w := get(t, url+"?view=live&limit=1&timeoutSeconds=1")
		w.line()
		if text, ok := w.line(); ok {
			t.Errorf("%s", text)
		}
	})
}

// The property: the messages of a live page always amount to the page of a list.
func TestEveryLivePageConvergesToTheList(t *testing.T) {
	c := newLiveCluster(t)
	r := rand.New(rand.NewPCG(3, 4))
	change := func() string {
		name := "p" + strconv.Itoa(r.IntN(30))
		if r.IntN(4) == 0 {
			return c.remove(podsAt, "a", name, true)
		}
		return c.pod("a", name, []string{"x", "y", "z"}[r.IntN(3)])
	}
	for range 50 {
		change()
	}
	url := c.listen("pods", plan.Scope{}).URL
	queries := []string{
		"limit=5&sortBy=name", "limit=5&page=2&sortBy=name&ascending=true", "limit=10&labelSelector=app%3Dx&sortBy=.metadata.labels.app,name",
		"limit=3&page=9", "limit=500", "limit=4&name=p1", "limit=0&labelSelector=app%3Dy", "limit=7&sortBy=.metadata.resourceVersion",
		"limit=6&sortBy=name&fields=.metadata.uid,.metadata.labels.app",
	}
	streams := make([]*client, len(queries))
	for i, query := range queries {
		streams[i] = get(t, url+"?view=live&"+query)
	}
	for range 1000 {
		change()
	}
	c.settle("pods")
	for i, query := range queries {
		page, err := c.List(t.Context(), c.kind("pods"), plan.Scope{}, parsed(t, query))
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		for n := range page.Len() {
			want = append(want, itemOf(page, n))
		}
		// The final state; a stream that does not reach it is silent, and fails the test.
		for b := (&browser{}); b.objects == nil || b.total != page.Total || !slices.Equal(b.page(), want); {
			text, ok := streams[i].line()
			if !ok {
				t.Fatalf("%s: it ended", query)
			}
			b.take(t, text)
		}
	}
}

// U8: a live page is an answer like any other: it has the same bounds, and counts among the answers that are being written.
func TestLivePagesHaveTheBoundsOfAnswers(t *testing.T) {
	c := newLiveCluster(t)
	c.Service = New(c.store, Options{MaxBytes: 300 << 10, MaxInFlight: 400 << 10})
	idle := room(c.pages.Responses())
	large := func(name string, bytes int) {
		c.put(podsAt, "a", name, `,"labels":{"app":"x"}},"spec":{"note":"`+strings.Repeat("n", bytes)+`"}}`, true)
	}
	for i := range 4 {
		large("p"+strconv.Itoa(i), 100<<10)
	}
	pods := c.kind("pods")
	c.settle("pods")
	url := c.listen("pods", plan.Scope{}).URL
	begin := func(raw string) (*watch.Live, error) {
		return c.Streams.Live(t.Context(), pods, plan.Scope{}, parsed(t, "view=live&"+raw))
	}

	w := get(t, url+"?view=live&limit=4")
	if text, _ := w.line(); w.res.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("a page that is too long is answered with %d %.200s", w.res.StatusCode, text)
	}
	if n := room(c.pages.Responses()); n != idle {
		t.Errorf("it is still under way: there is room for %d answers, not %d", n, idle)
	}
	w = get(t, url+"?view=live&limit=4&fields=.metadata.name")
	if text, _ := w.line(); w.res.StatusCode != http.StatusOK || !strings.Contains(text, `"totalItems":4`) {
		t.Errorf("what is shown of it is not: %d %.200s", w.res.StatusCode, text)
	}

	one, err := begin("limit=2")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := begin("limit=2"); code(err) != http.StatusTooManyRequests {
		t.Errorf("while another page is under way: %v", err)
	}
	w = get(t, url+"?view=live&limit=2&fields=.spec")
	if w.line(); w.res.StatusCode != http.StatusTooManyRequests {
		t.Errorf("while another page is under way: %d", w.res.StatusCode)
	}
	one.Close()
	if n := room(c.pages.Responses()); n != idle {
		t.Errorf("a page that was given up is under way: there is room for %d answers, not %d", n, idle)
	}

	w = get(t, url+"?view=live&limit=2&sortBy=name&ascending=true")
	if text, _ := w.line(); w.res.StatusCode != http.StatusOK || !strings.Contains(text, `"totalItems":4`) {
		t.Fatalf("%d %.200s", w.res.StatusCode, text)
	}
	large("p0", 50<<10) // as many as are sent again
	if text, _ := w.line(); !strings.Contains(text, "MODIFIED") {
		t.Fatalf("%.200s", text)
	}
	large("p0", 301<<10)
	if text, _ := w.line(); !strings.HasPrefix(text, `{"type":"ERROR","object":{`) || !strings.Contains(text, `"code":413`) {
		t.Errorf("a change that is too long is %.200s", text)
	}
	if text, more := w.line(); more {
		t.Errorf("and then %.200s", text)
	}
	if n := room(c.pages.Responses()); n != idle {
		t.Errorf("at the end there is room for %d answers, not %d", n, idle)
	}
}
