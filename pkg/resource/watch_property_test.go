package resource

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/resource/plan"
	"kapis.dev/ks-apiserver/pkg/stream"

	"go.uber.org/goleak"
)

// The property: for any filter, and any number of reconnects, what a client has been sent amounts to what a list answers.
func TestEveryWatchConvergesToTheList(t *testing.T) {
	c := newLiveCluster(t)
	r := rand.New(rand.NewPCG(1, 2))
	apps := []string{"x", "y", "z"}
	change := func() {
		ns, name := []string{"a", "b"}[r.IntN(2)], "p"+strconv.Itoa(r.IntN(40))
		switch r.IntN(5) {
		case 0:
			c.remove(podsAt, ns, name, true)
		default:
			c.pod(ns, name, apps[r.IntN(len(apps))])
		}
	}
	for range 60 {
		change()
	}
	type watching struct {
		scope plan.Scope
		query string
		state map[string]string
	}
	scopes := []plan.Scope{{}, {Namespace: "a"}, {Namespace: "b"}}
	queries := []string{
		"",
		"labelSelector=app%3Dx",
		"labelSelector=app!%3Dx",
		"labelSelector=app%3Dx%7Capp%3Dz",
		"name=p1",
		"fieldSelector=metadata.name%3Dp7",
		"names=p1,p2,p3",
	}
	const watchers = 200
	all := make([]*watching, watchers)
	servers := map[string]string{}
	for _, s := range scopes {
		servers[s.Namespace] = c.listen("pods", s).URL
	}
	final := make(chan string)
	version := ""
	var running sync.WaitGroup
	for i := range all {
		x := &watching{scope: scopes[i%len(scopes)], query: queries[i%len(queries)]}
		all[i] = x
		running.Go(func() {
			follow(t, servers[x.scope.Namespace]+"?watch=true&allowWatchBookmarks=true&"+x.query, i, &x.state, func(v string) bool {
				select {
				case <-final:
					n, _ := strconv.Atoi(v)
					last, _ := strconv.Atoi(version)
					return n >= last
				default:
					return false
				}
			})
		})
	}
	for i := range 2000 {
		change()
		if i == 700 || i == 1400 {
			c.remove(podsAt, "a", "p3", false) // a deletion that the watch at kube-apiserver misses
			c.forget(podsAt)
		}
	}
	version = c.pod("a", "p1", "x")
	close(final)
	running.Wait()
	for i, x := range all {
		page, err := c.List(t.Context(), c.kind("pods"), x.scope, parsed(t, x.query))
		if err != nil {
			t.Fatal(err)
		}
		if want := stateOf(page); fmt.Sprint(want) != fmt.Sprint(x.state) {
			t.Errorf("watch %d of %+v %q: %v, want %v", i, x.scope, x.query, x.state, want)
		}
	}
}

// follow keeps a state up to date, by as many watches as needed, until done says that a version is the last. Some clients reconnect now and
// then after what they have seen last.
func follow(t *testing.T, url string, seed int, state *map[string]string, done func(version string) bool) {
	seen := "" // empty: from the beginning
	for n, back := 0, 0; ; back++ {
		ask := url
		if seen == "" {
			*state = map[string]string{}
			ask += "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
		} else {
			ask += "&resourceVersion=" + seen
		}
		w := get(t, ask)
		for {
			e, ok := w.next()
			if !ok {
				break
			}
			if e.Type == "ERROR" {
				if e.Object.Code != http.StatusGone {
					t.Errorf("%s", e.raw)
					return
				}
				seen = ""
				break
			}
			apply(*state, e)
			if v := e.Object.Metadata.ResourceVersion; e.Type == "BOOKMARK" || seen != "" {
				seen = v
			}
			if e.Type == "BOOKMARK" && done(seen) {
				w.leave()
				return
			}
			if n++; seen != "" && seed%3 == 0 && n%(50+seed) == 0 && back < 20 {
				break
			}
		}
		w.leave()
	}
}

// idle reports whether no stream is open: as many fit as one user may have.
func (c *cluster) idle() bool {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	for range stream.DefaultPerUser {
		s, _, err := c.guard.Over(httptest.NewRecorder(), r)
		if err != nil {
			return false
		}
		defer s.Stop()
	}
	return true
}

func TestNothingIsLeftOfAbandonedWatchesAndPages(t *testing.T) { // U7
	old := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, old) }) // runs last: after the servers are closed
	t.Cleanup(http.DefaultTransport.(*http.Transport).CloseIdleConnections)
	c := newLiveCluster(t)
	c.pod("a", "p1", "x")
	url := c.listen("pods", plan.Scope{}).URL
	get(t, url+"?watch=true").leave() // the history begins here
	queries := []string{"?watch=true", "?watch=true&allowWatchBookmarks=true", "?view=live&limit=3", "?watch=true&resourceVersion=" + strconv.Itoa(c.current())}
	for i := range 1000 {
		w := get(t, url+queries[i%len(queries)], "Accept: "+[]string{"application/json", "text/event-stream"}[i/7%2])
		if i%len(queries) != 3 {
			w.line()
		}
		w.leave()
		if i%10 == 0 {
			c.pod("a", "p"+strconv.Itoa(i%7), "x")
		}
	}
	for deadline := time.Now().Add(time.Minute); !c.idle(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("streams are open")
		}
	}
}
