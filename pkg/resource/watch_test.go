package resource

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/resource/page"
	"kapis.dev/ks-apiserver/pkg/resource/plan"
	"kapis.dev/ks-apiserver/pkg/resource/watch"
	"kapis.dev/ks-apiserver/pkg/stream"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAWatchTellsWhatMatchesAndThenWhatChanges(t *testing.T) {
	c := newLiveCluster(t)
	c.pod("a", "p1", "x")
	c.pod("b", "p2", "x")
	for _, version := range []string{"", "&resourceVersion=", "&resourceVersion=0"} {
		w := get(t, c.listen("pods", plan.Scope{}).URL+"?watch=true"+version)
		w.expect("ADDED p1", "ADDED p2")
		c.pod("a", "p3", "y")
		c.pod("a", "p3", "z")
		gone := c.remove(podsAt, "a", "p3", true)
		got := w.expect("ADDED p3", "MODIFIED p3", "DELETED p3")
		if last := got[2].Object; last.Metadata.ResourceVersion != gone || last.Metadata.Labels["app"] != "z" || last.Metadata.Labels["resourceVersion"] != "5" {
			t.Errorf("the deleted object is not the last one, at the version of its deletion %s: %s", gone, got[2].raw)
		}
		if w.res.Header.Get("Content-Type") != "application/json" || w.res.StatusCode != http.StatusOK {
			t.Errorf("%v", w.res)
		}
		w.leave()
	}
}

func TestEventsShowObjectsAsListsDo(t *testing.T) {
	c := newLiveCluster(t)
	c.pod("a", "p1", "x")
	for _, fields := range []string{"", "fields=.metadata.labels.app,.metadata.name"} {
		page, err := c.List(t.Context(), c.kind("pods"), plan.Scope{}, parsed(t, ""))
		if err != nil {
			t.Fatal(err)
		}
		want := itemOf(page, 0)
		if fields != "" {
			want = `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p1","labels":{"app":"x"}}}`
		}
		w := get(t, c.listen("pods", plan.Scope{}).URL+"?watch=true&"+fields)
		if got := w.expect("ADDED p1"); got[0].raw != `{"type":"ADDED","object":`+want+`}` {
			t.Errorf("%s", got[0].raw)
		}
		w.leave()
	}
}

func TestWhatBeginsToMatchIsAddedAndWhatCeasesIsDeleted(t *testing.T) {
	for _, c := range []struct {
		name, query string
		scope       plan.Scope
		want        []string
	}{
		{"ByLabel", "labelSelector=app%3Dx", plan.Scope{}, []string{"ADDED p1", "DELETED p1", "ADDED p2", "ADDED q1", "MODIFIED q1", "DELETED q1"}},
		{"ByAlternatives", "labelSelector=app%3Dx%7Capp%3Dw", plan.Scope{}, []string{"ADDED p1", "DELETED p1", "ADDED p2", "ADDED q1", "MODIFIED q1", "DELETED q1"}},
		{"ByAbsence", "labelSelector=app!%3Dx", plan.Scope{}, []string{"ADDED p2", "ADDED p1", "DELETED p2"}},
		{"InANamespace", "", plan.Scope{Namespace: "b"}, []string{"ADDED q1", "MODIFIED q1", "DELETED q1"}},
		{"InANamespaceByParameter", "namespace=b", plan.Scope{}, []string{"ADDED q1", "MODIFIED q1", "DELETED q1"}},
		{"OneName", "fieldSelector=metadata.name%3Dp2", plan.Scope{}, []string{"ADDED p2", "MODIFIED p2"}},
		{"OneNameElsewhere", "fieldSelector=metadata.name%3Dp2", plan.Scope{Namespace: "b"}, nil},
		{"ByField", "fieldSelector=metadata.labels.app%3Dx", plan.Scope{}, []string{"ADDED p1", "DELETED p1", "ADDED p2", "ADDED q1", "MODIFIED q1", "DELETED q1"}},
		{"ByPartOfTheName", "name=q", plan.Scope{}, []string{"ADDED q1", "MODIFIED q1", "DELETED q1"}},
		{"InAWorkspaceThatIsNot", "", plan.Scope{Workspace: "w"}, nil},
		{"SortedInNoOrder", "name=q&sortBy=nonsense&ascending=true", plan.Scope{}, []string{"ADDED q1", "MODIFIED q1", "DELETED q1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := newLiveCluster(t)
			k.pod("a", "p1", "x")
			k.pod("a", "p2", "y")
			w := get(t, k.listen("pods", c.scope).URL+"?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&"+c.query)
			n := 0
			for _, s := range c.want { // the initial objects
				if n == 0 && !strings.HasPrefix(s, "ADDED p") {
					break
				}
				w.expect(s)
				if n++; n == 1 {
					break
				}
			}
			k.pod("a", "p1", "y")
			k.pod("a", "p2", "x")
			k.pod("b", "q1", "x")
			k.put(podsAt, "b", "q1", `,"labels":{"app":"x","more":"z"}},"spec":{}}`, true)
			end := k.remove(podsAt, "b", "q1", true)
			w.expect(c.want[n:]...)
			version, _ := strconv.Atoi(end)
			w.quiet(version)
		})
	}
}

func TestAWatchGoesOnBehindAnyVersionOfItsHistory(t *testing.T) {
	c := newLiveCluster(t)
	c.pod("a", "p0", "x")
	url := c.listen("pods", plan.Scope{}).URL + "?watch=true"
	get(t, url).expect("ADDED p0") // the history begins here
	v1 := c.pod("a", "p1", "x")
	v2 := c.pod("a", "p2", "y")
	v3 := c.remove(podsAt, "a", "p1", true)
	c.settle("pods")
	for name, r := range map[string]struct {
		query, id string
		want      []string
	}{
		"BehindTheFirst":       {"&resourceVersion=" + v1, "", []string{"ADDED p2", "DELETED p1"}},
		"BehindTheSecond":      {"&resourceVersion=" + v2, "", []string{"DELETED p1"}},
		"BehindTheDeletion":    {"&resourceVersion=" + v3, "", nil},
		"OnlyWhatMatches":      {"&labelSelector=app%3Dy&resourceVersion=" + v1, "", []string{"ADDED p2"}},
		"FromNow":              {"&sendInitialEvents=false&resourceVersionMatch=NotOlderThan", "", nil},
		"AllAtLeastSoNew":      {"&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=" + v3, "", []string{"ADDED p0", "ADDED p2"}},
		"IdsAreNotForThisForm": {"&resourceVersion=" + v2, v1, []string{"DELETED p1"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := get(t, url+r.query+"&allowWatchBookmarks=true", "Last-Event-ID: "+r.id)
			if w.res.StatusCode != http.StatusOK {
				t.Fatal(w.res.Status)
			}
			w.expect(r.want...)
			w.quiet(c.current())
		})
	}
}

func TestVersionsThatCannotBeServed(t *testing.T) {
	c := newLiveCluster(t)
	c.pod("a", "p0", "x")
	url := c.listen("pods", plan.Scope{}).URL
	get(t, url+"?watch=true").expect("ADDED p0")
	t.Run("TooOldIsAnEventThatSaysSo", func(t *testing.T) {
		w := get(t, url+"?watch=true&resourceVersion=5")
		got := w.expect("ERROR 410")
		var s struct{ Object metav1.Status }
		if err := json.Unmarshal([]byte(got[0].raw), &s); err != nil || s.Object.Reason != metav1.StatusReasonExpired || s.Object.Status != "Failure" {
			t.Errorf("%s %v", got[0].raw, err)
		}
		w.ends()
	})
	t.Run("AheadIsWaitedForAndThen504", func(t *testing.T) {
		w := get(t, url+"?watch=true&resourceVersion="+strconv.Itoa(c.current()+1000))
		if w.res.StatusCode != http.StatusGatewayTimeout {
			t.Error(w.res.Status)
		}
	})
}

func TestParametersThatMakeNoSense(t *testing.T) {
	c := newLiveCluster(t)
	url := c.listen("pods", plan.Scope{}).URL
	for query, field := range map[string]string{
		"watch=true&limit=10": "limit", "watch=true&limit=0": "limit", "watch=true&page=2": "page", "watch=true&facets=.spec.nodeName": "facets",
		"watch=true&managedFields=true&limit=5": "limit", "watch=true&view=live": "view", "watch=true&timeoutSeconds=x": "timeoutSeconds",
		"watch=true&timeoutSeconds=-1": "timeoutSeconds", "watch=true&allowWatchBookmarks=x": "allowWatchBookmarks",
		"watch=true&resourceVersion=x":                                     "resourceVersion",
		"watch=true&sendInitialEvents=true":                                "resourceVersionMatch",
		"watch=true&sendInitialEvents=true&resourceVersionMatch=Exact":     "resourceVersionMatch",
		"watch=true&resourceVersionMatch=NotOlderThan":                     "resourceVersionMatch",
		"watch=true&sendInitialEvents=x&resourceVersionMatch=NotOlderThan": "sendInitialEvents",
		"watch=true&labelSelector=a%3D%3D%3D":                              "labelSelector",
		"view=live":                                                        "limit", "view=live&limit=501": "limit", "view=dead": "view",
		"view=live&limit=5&facets=.a": "facets", "view=live&limit=5&sortBy=nonsense": "sortBy",
		"view=live&limit=5&timeoutSeconds=x": "timeoutSeconds", "view=live&limit=5&managedFields=1": "managedFields",
	} {
		w := get(t, url+"?"+query)
		var s metav1.Status
		if err := json.NewDecoder(w.res.Body).Decode(&s); err != nil || w.res.StatusCode != http.StatusBadRequest || len(s.Details.Causes) == 0 ||
			s.Details.Causes[0].Field != field {
			t.Errorf("%s: %d %+v %v", query, w.res.StatusCode, s, err)
		}
	}
	if w := get(t, url, "Accept: text/event-stream"); w.res.StatusCode != http.StatusNotAcceptable {
		t.Errorf("a list as events: %s", w.res.Status)
	}
	if w := get(t, url+"?watch=true&page=1&limit=-1&ascending=true&timeoutSeconds=1"); w.res.StatusCode != http.StatusOK {
		t.Errorf("what says nothing: %s", w.res.Status)
	}
}

func TestBookmarks(t *testing.T) {
	c := newLiveCluster(t)
	c.pod("a", "p1", "x")
	url := c.listen("pods", plan.Scope{}).URL + "?watch=true"
	end := func(e event) bool { return e.Object.Metadata.Annotations["k8s.io/initial-events-end"] == "true" }
	t.Run("MarkTheEndOfTheInitialEvents", func(t *testing.T) { // U14
		for _, allowed := range []string{"", "&allowWatchBookmarks=true"} {
			w := get(t, url+"&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"+allowed)
			w.expect("ADDED p1")
			e, _ := w.next()
			if e.Type != "BOOKMARK" || !end(e) || e.Object.Kind != "Pod" || e.Object.APIVersion != "v1" ||
				e.Object.Metadata.ResourceVersion != strconv.Itoa(c.current()) {
				t.Errorf("%s", e.raw)
			}
		}
	})
	t.Run("TellHowFarEverythingWasSent", func(t *testing.T) {
		w := get(t, url+"&allowWatchBookmarks=true&labelSelector=app%3Dx")
		w.expect("ADDED p1")
		version, _ := strconv.Atoi(c.pod("a", "p2", "not-for-this-watch"))
		w.quiet(version)
	})
	t.Run("EndAWatchWhoseTimeIsUp", func(t *testing.T) {
		w := get(t, url+"&timeoutSeconds=1&allowWatchBookmarks=true&sendInitialEvents=false&resourceVersionMatch=NotOlderThan")
		w.ends()
	})
	t.Run("AreNotSentToWhoDidNotAsk", func(t *testing.T) {
		w := get(t, url+"&timeoutSeconds=1&labelSelector=app%3Dnone")
		if e, ok := w.next(); ok {
			t.Errorf("%s", e.raw)
		}
	})
}

func TestAWatchEndsWhenItsKindIsGone(t *testing.T) {
	c := newLiveCluster(t)
	c.put("/api/v1/widgets", "a", "w1", "}}", true)
	url := c.listen("widgets", plan.Scope{}).URL
	w := get(t, url+"?watch=true")
	w.expect("ADDED w1")
	live := get(t, url+"?view=live&limit=5")
	live.line()
	c.mu.Lock()
	c.missing["widgets"] = true
	c.mu.Unlock()
	c.Catalog().Refresh(t.Context())
	w.ends()
	if text, ok := live.line(); ok {
		t.Errorf("the live page goes on with %s", text)
	}
}

func TestAClientThatLagsBehindTheHistoryIsToldToListAgain(t *testing.T) {
	c := newLiveCluster(t)
	c.pod("a", "p0", "x")
	k := c.kind("pods")
	src, err := c.Streams.Open(t.Context(), nil, k, plan.Scope{}, parsed(t, "sendInitialEvents=false&resourceVersionMatch=NotOlderThan"), true, "")
	if err != nil {
		t.Fatal(err)
	}
	const many = 9000 // more than the history keeps
	for i := range many {
		c.pod("a", "p"+strconv.Itoa(i%10), "x")
	}
	c.settle("pods")
	w := get(t, serveSource(t, src).URL)
	w.expect("ERROR 410")
	w.ends()
}

// Deletions that were missed while kube-apiserver was away are sent, and a client that reconnects after any of the events has lost none of
// them at a replica that was told of all changes; here it may have to list again.
func TestAfterAListAnewNothingIsLostBehindAnyEvent(t *testing.T) {
	c := newLiveCluster(t)
	for i := range 8 {
		c.pod("a", fmt.Sprintf("p%d", i), "x")
	}
	url := c.listen("pods", plan.Scope{}).URL + "?watch=true&allowWatchBookmarks=true"
	w := get(t, url)
	before := map[string]string{}
	for range 8 {
		e, _ := w.next()
		before[e.key()] = e.Object.Metadata.ResourceVersion
	}
	missing := c.apart(podsAt)
	other := &cluster{t: t, guard: c.guard}
	other.store, other.Service = c.replica()
	elsewhere := other.listen("pods", plan.Scope{}).URL + "?watch=true&allowWatchBookmarks=true"
	get(t, elsewhere).expect("ADDED p0")
	c.remove(podsAt, "a", "p0", true)
	for i := 7; i > 3; i-- { // the last change is of an object in the middle of the list
		c.put(podsAt, "a", fmt.Sprintf("p%d", i), "}}", true)
	}
	c.remove(podsAt, "a", "p1", true)
	c.put(podsAt, "a", "new", "}}", true)
	c.remove(podsAt, "a", "p2", true)
	last := c.put(podsAt, "a", "p5", `,"labels":{"app":"y"}}}`, true)
	c.expire(missing)
	var events []event
	for done := false; !done; {
		e, ok := w.next()
		if !ok {
			t.Fatal("the watch ended")
		}
		if e.Type == "BOOKMARK" {
			done = e.Object.Metadata.ResourceVersion == last
			continue
		}
		events = append(events, e)
	}
	if len(events) != 3+4+1 {
		t.Errorf("%v", events)
	}
	page, err := c.List(t.Context(), c.kind("pods"), plan.Scope{}, parsed(t, ""))
	if err != nil {
		t.Fatal(err)
	}
	want := stateOf(page)
	for cut := range events {
		for _, at := range []string{url, elsewhere} {
			state := maps.Clone(before)
			for _, e := range events[:cut+1] {
				apply(state, e)
			}
			again := get(t, at+"&resourceVersion="+events[cut].Object.Metadata.ResourceVersion)
			for {
				e, ok := again.next()
				if e.Type == "ERROR" && e.Object.Code == http.StatusGone && at == url && cut > 0 {
					state = maps.Clone(want) // by a list
					break
				}
				if !ok || e.Type == "ERROR" {
					t.Fatalf("behind %v: %s", events[cut], e.raw)
				}
				if e.Type == "BOOKMARK" {
					if e.Object.Metadata.ResourceVersion == last {
						break
					}
					continue
				}
				apply(state, e)
			}
			again.leave()
			if fmt.Sprint(state) != fmt.Sprint(want) {
				t.Errorf("behind %v: %v, want %v", events[cut], state, want)
			}
		}
	}
}

// apply is what a client does with an event: it stores the version of each object.
func apply(state map[string]string, e event) {
	switch e.Type {
	case "ADDED", "MODIFIED":
		state[e.key()] = e.Object.Metadata.ResourceVersion
	case "DELETED":
		delete(state, e.key())
	}
}

func stateOf(p *page.Page) map[string]string {
	out := map[string]string{}
	for i := range p.Len() {
		var o struct{ Metadata metav1.ObjectMeta }
		if err := json.Unmarshal([]byte(itemOf(p, i)), &o); err != nil {
			panic(err)
		}
		out[o.Metadata.Namespace+"/"+o.Metadata.Name] = o.Metadata.ResourceVersion
	}
	return out
}

func TestWhatAFilterDependsOnEndsTheWatch(t *testing.T) {
	c := newLiveCluster(t)
	const services = "/api/v1/services"
	c.put(services, "a", "s", `},"spec":{"selector":{"app":"x"}}}`, true)
	c.pod("a", "p1", "x")
	c.pod("a", "p2", "y")
	srv := c.listen("pods", plan.Scope{Namespace: "a"})
	w := get(t, srv.URL+"?watch=true&serviceName=s")
	w.expect("ADDED p1")
	live := get(t, srv.URL+"?view=live&limit=5&serviceName=s")
	if text, _ := live.line(); !strings.Contains(text, `"totalItems":1,`) || !strings.Contains(text, `"name":"p1"`) {
		t.Fatal(text)
	}
	c.put(services, "a", "other", `},"spec":{"selector":{"app":"z"}}}`, true) // means nothing to it
	c.pod("a", "p3", "x")
	w.expect("ADDED p3")
	c.put(services, "a", "s", `},"spec":{"selector":{"app":"y"}}}`, true)
	w.expect("ERROR 410")
	w.ends()
	for {
		text, ok := live.line()
		if !ok {
			t.Fatal("the live page ended")
		}
		if strings.Contains(text, `"totalItems":1,`) && strings.Contains(text, `"name":"p2"`) {
			return
		}
	}
}

// chased is a ResponseWriter with which there is always something new once a part of the answer is written.
type chased struct {
	http.ResponseWriter
	next func()
}

func (c chased) Unwrap() http.ResponseWriter { return c.ResponseWriter }

func (c chased) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p)
	c.next()
	return n, err
}

// A client that has never read all of it, however fast the changes come, is not followed beyond what its filter depends on.
func TestAWatchThatNeverCatchesUpEndsAllTheSame(t *testing.T) {
	c := newLiveCluster(t)
	const services, many = "/api/v1/services", 60
	c.put(services, "a", "s", `},"spec":{"selector":{"app":"x"}}}`, true)
	c.pod("a", "p", "x")
	c.settle("pods")
	src, err := c.Streams.Open(t.Context(), nil, c.kind("pods"), plan.Scope{Namespace: "a"}, parsed(t, "serviceName=s"), true, "")
	if err != nil {
		t.Fatal(err)
	}
	large, changes := strings.Repeat("x", 80<<10), 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		stream.New(stream.Options{}).Answer(paced(src)).Respond(chased{w, func() {
			if changes++; changes > many {
				return
			}
			for n := range 2 {
				c.put(podsAt, "a", fmt.Sprintf("p%d-%d", changes, n), `,"labels":{"app":"x"},"annotations":{"a":"`+large+`"}},"spec":{}}`, true)
			}
			c.settle("pods")
			if changes == 10 { // it is behind by some events
				c.put(services, "a", "s", `},"spec":{"selector":{"app":"y"}}}`, true)
				c.settle("services")
			}
		}}, r)
	}))
	t.Cleanup(srv.Close)
	w := get(t, srv.URL)
	for {
		e, ok := w.next()
		if !ok {
			t.Fatal("it ends without a word")
		}
		if e.Type == "ERROR" {
			break
		}
	}
	w.ends()
	if changes > many {
		t.Errorf("it ends when the changes do, after %d of them", changes)
	}
}

// U19: after the version that a client has seen, there are no events of objects that it may see only now.
func TestAWatchOfAnotherPartIsToldToListAgain(t *testing.T) {
	for name, why := range map[string]error{"410": apierrors.NewResourceExpired("list again"), "": errors.New("no right at all")} {
		c := newLiveCluster(t)
		c.pod("a", "p", "x")
		var changed atomic.Pointer[error]
		c.guard = stream.New(stream.Options{RecheckEvery: time.Millisecond, Recheck: func(context.Context, *http.Request) error {
			if e := changed.Load(); e != nil {
				return *e
			}
			return nil
		}})
		w := get(t, c.listen("pods", plan.Scope{PartialList: &authz.PartialList{Namespaces: []string{"a"}, Key: "k"}}).URL+"?watch=true")
		w.expect("ADDED p")
		changed.Store(&why)
		if name != "" {
			w.expect("ERROR " + name)
		}
		w.ends()
	}
}

func TestServerSentEvents(t *testing.T) {
	c := newLiveCluster(t)
	v0 := c.pod("a", "p1", "x")
	url := c.listen("pods", plan.Scope{}).URL + "?watch=true&labelSelector=app%3Dx"
	const accept = "Accept: text/event-stream"
	frame := func(w *client) string { // the next frame that is no comment
		t.Helper()
		for {
			var text []string
			for {
				line, ok := w.line()
				if !ok {
					return "END"
				}
				if line == "" {
					break
				}
				text = append(text, line)
			}
			if text[0] != ": ping" {
				return strings.Join(text, "|")
			}
			if len(text) != 2 || !strings.HasPrefix(text[1], "id: ") {
				t.Fatalf("a ping has no version: %q", text)
			}
		}
	}
	has := func(text string, want ...string) {
		t.Helper()
		for _, s := range want {
			if !strings.Contains(text, s) {
				t.Fatalf("%s lacks %s", text, s)
			}
		}
	}
	w := get(t, url, accept)
	if w.res.Header.Get("Content-Type") != "text/event-stream" {
		t.Error(w.res.Header)
	}
	has(frame(w), "retry: 1000")
	if first := frame(w); strings.Contains(first, "id:") || !strings.HasPrefix(first, "event: ADDED|data: {") { // or the others would be lost
		t.Errorf("%s", first)
	}
	v1 := c.pod("a", "p1", "y")
	has(frame(w), "event: DELETED|id: "+v1+`|data: {"type":"DELETED","object":{`, `"app":"x"`, `"resourceVersion":"`+v1+`"`)
	v2 := c.pod("a", "p1", "x")
	has(frame(w), "event: ADDED|id: "+v2+"|data: ")
	w.leave()

	again := get(t, url+"&resourceVersion="+v0, accept, "Last-Event-ID: "+v1)
	has(frame(again), "retry")
	has(frame(again), "event: ADDED|id: "+v2)
	again.leave()

	lost := get(t, url, accept, "Last-Event-ID: 5")
	has(frame(lost), "retry")
	has(frame(lost), `event: ERROR|id:|data: {"type":"ERROR","object":{`, `"code":410`)
	has(frame(lost), "END")

	// An EventSource would give up after a 504.
	ahead := get(t, url, accept, "Last-Event-ID: "+strconv.Itoa(c.current()+2))
	has(frame(ahead), "retry")
	c.pod("a", "seen1", "x")
	c.pod("a", "seen2", "x")
	v3 := c.pod("a", "p3", "x")
	has(frame(ahead), "event: ADDED|id: "+v3+"|data: ", `"name":"p3"`)
	ahead.leave()

	never, err := c.Streams.Open(t.Context(), http.Header{"Accept": {"text/event-stream"}, "Last-Event-Id": {"1000000"}}, c.kind("pods"),
		plan.Scope{}, parsed(t, ""), true, "")
	if err != nil {
		t.Fatal(err)
	}
	impatient := never.(*watch.Watching)
	impatient.Ahead, impatient.Check, impatient.Beat = 0, time.Millisecond, time.Hour // it does not wait for a beat
	w = get(t, httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		stream.New(stream.Options{}).Answer(impatient).Respond(w, r)
	})).URL, accept)
	has(frame(w), "retry")
	has(frame(w), `event: ERROR|id:|data: {"type":"ERROR","object":{`, `"code":410`, "has not reached")
	has(frame(w), "END")

	// The list that the cache goes on with does not show what came and went before it, and the client may have been told that it came.
	c.settle("pods")
	watches := c.apart(podsAt)
	seen := c.put(podsAt, "a", "short", `,"labels":{"app":"x"}},"spec":{}}`, false)
	missed := get(t, url, accept, "Last-Event-ID: "+seen)
	has(frame(missed), "retry")
	c.remove(podsAt, "a", "short", false)
	c.put(podsAt, "a", "p4", `,"labels":{"app":"x"}},"spec":{}}`, false)
	c.expire(watches)
	has(frame(missed), `event: ERROR|id:|data: {"type":"ERROR","object":{`, `"code":410`, "not kept any more")
	has(frame(missed), "END")

	fresh := get(t, url, accept, "Last-Event-ID: nonsense")
	has(frame(fresh), "retry")
	has(frame(fresh), "event: ADDED|data: ")
}

func TestAPartialWatchSaysSo(t *testing.T) {
	c := newLiveCluster(t)
	for scope, want := range map[*plan.Scope]string{{}: "", {PartialList: &authz.PartialList{Namespaces: []string{"a"}, Key: "k"}}: "true"} {
		for _, q := range []string{"watch=true", "view=live&limit=1"} {
			if got := get(t, c.listen("pods", *scope).URL+"?"+q).res.Header.Get("X-Kapis-Partial"); got != want {
				t.Errorf("%+v: %q", scope, got)
			}
		}
	}
}
