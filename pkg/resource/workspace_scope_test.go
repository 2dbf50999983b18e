package resource

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"

	"kapis.dev/ks-apiserver/pkg/resource/page"
	"kapis.dev/ks-apiserver/pkg/resource/plan"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const namespacesAt = "/api/v1/namespaces"

// place creates a namespace, or moves it to a workspace, empty for none.
func (c *cluster) place(name, workspace string) string {
	return c.put(namespacesAt, "", name, `,"labels":{"`+plan.WorkspaceLabel+`":"`+workspace+`"}}}`, true)
}

// claim creates or changes a pod that says which workspace it belongs to.
func (c *cluster) claim(namespace, name, workspace, app string) string {
	return c.put(podsAt, namespace, name, `,"labels":{"app":"`+app+`","`+plan.WorkspaceLabel+`":"`+workspace+`"}}}`, true)
}

// naive returns what a scope shows, by testing every pod and every namespace: names that contain query, sorted.
func (c *cluster) naive(s plan.Scope, app string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	parse := func(text string) (o metav1.PartialObjectMetadata) {
		if err := json.Unmarshal([]byte(text), &o); err != nil {
			c.t.Error(err)
		}
		return o
	}
	of := map[string]string{}
	for _, text := range c.objects[namespacesAt] {
		o := parse(text)
		of[o.Name] = o.Labels[plan.WorkspaceLabel]
	}
	out := []string{}
	for key, text := range c.objects[podsAt] {
		o := parse(text)
		owner := of[o.Namespace]
		if owner == "" {
			owner = o.Labels[plan.WorkspaceLabel]
		}
		if owner == s.Workspace && (s.Namespace == "" || s.Namespace == o.Namespace) && (app == "" || o.Labels["app"] == app) {
			out = append(out, key)
		}
	}
	slices.Sort(out)
	return out
}

// mover moves namespaces between workspaces, and creates pods that say they belong to one.
type mover struct {
	*cluster
	r *rand.Rand
}

func (m *mover) step() {
	namespace, workspace := "n"+strconv.Itoa(m.r.IntN(6)), []string{"", "w1", "w2", "w3"}[m.r.IntN(4)]
	name, app := "p"+strconv.Itoa(m.r.IntN(8)), []string{"x", "y"}[m.r.IntN(2)]
	switch m.r.IntN(8) {
	case 0, 1, 2:
		m.place(namespace, workspace)
	case 3:
		m.remove(namespacesAt, "", namespace, true)
	case 4:
		m.remove(podsAt, namespace, name, true)
	default:
		m.claim(namespace, name, workspace, app)
	}
}

// settled waits until both caches have seen everything, and returns the version of the pods.
func (c *cluster) settled() string {
	c.t.Helper()
	c.place("settled", "")
	c.settle("namespaces") // of the kind's own last version
	version := c.pod("settled", "p", "z")
	c.settle("pods")
	return version
}

// scopesOfWorkspaces are the scopes of a mover's workspaces.
func scopesOfWorkspaces() (out []plan.Scope) {
	for _, workspace := range []string{"w1", "w2", "w3"} {
		for _, namespace := range []string{"", "n0", "n1"} {
			out = append(out, plan.Scope{Workspace: workspace, Namespace: namespace})
		}
	}
	return out
}

// S7. The property: after any moves, answers from the caches are what a test of all objects finds.
func TestWorkspacesAnswerLikeTheModelWhateverMoves(t *testing.T) {
	for seed := range uint64(4) {
		m := &mover{newLiveCluster(t), rand.New(rand.NewPCG(seed, 5))}
		for range 40 {
			m.step()
		}
		for round := range 150 {
			for range m.r.IntN(4) {
				m.step()
			}
			m.settled()
			var asking sync.WaitGroup
			for _, scope := range scopesOfWorkspaces() {
				if m.r.IntN(3) == 0 {
					continue // its cached result falls behind
				}
				for raw, app := range map[string]string{
					"": "", "sortBy=name": "", "labelSelector=app%3Dx": "x", "fieldSelector=metadata.labels.app%3Dy&sortBy=.metadata.labels.app": "y",
					"cel=true&facets=.metadata.namespace": "",
				} {
					asking.Go(func() {
						page, err := m.List(context.Background(), m.kind("pods"), scope, parsed(t, raw))
						if err != nil {
							t.Error(err)
							return
						}
						got := keysOf(t, page)
						slices.Sort(got)
						if want := m.naive(scope, app); !slices.Equal(got, want) || page.Total != len(want) {
							t.Errorf("seed %d, round %d, %+v ?%s: %v, want %v", seed, round, scope, raw, got, want)
						}
					})
				}
			}
			asking.Wait()
			if t.Failed() {
				return
			}
		}
	}
}

// S7: and a watch, started again whenever it ends, amounts to the same. (A client that continues after a version gets the namespaces as
// they are.)
func TestWatchesOfWorkspacesConvergeWhateverMoves(t *testing.T) {
	m := &mover{newLiveCluster(t), rand.New(rand.NewPCG(9, 5))}
	for range 60 {
		m.step()
	}
	m.settled()
	scopes := scopesOfWorkspaces()
	states := make([]map[string]string, len(scopes))
	final := make(chan struct{})
	last := 0
	var watching sync.WaitGroup
	for i, scope := range scopes {
		url, marks := m.listen("pods", scope).URL, 0
		watching.Go(func() {
			follow(t, url+"?watch=true&allowWatchBookmarks=true", 1, &states[i], func(v string) bool {
				select {
				case <-final:
				default:
					return false
				}
				if n, _ := strconv.Atoi(v); n >= last {
					marks++
				}
				return marks > 1 // between two marks, its dependencies were checked
			})
		})
	}
	for range 3000 {
		m.step()
	}
	m.settled()
	last, _ = strconv.Atoi(m.claim("n0", "last", "w1", "x"))
	close(final)
	watching.Wait()
	for i, scope := range scopes {
		want := m.naive(scope, "")
		got := []string{}
		for key := range states[i] {
			got = append(got, key)
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%+v: %v, want %v", scope, got, want)
		}
	}
}

// Changes of other workspaces' namespaces end no watch of a workspace, and its cached results stay in use.
func TestNamespacesOfOthersDoNotConcernAWorkspace(t *testing.T) {
	c := newLiveCluster(t)
	c.place("mine", "w1")
	c.place("theirs", "w2")
	c.claim("mine", "p", "", "x")
	c.claim("theirs", "says-w1", "w1", "x")
	c.claim("nobodys", "says-w1", "w1", "x")
	c.settled()
	for _, scope := range []plan.Scope{{Workspace: "w1"}, {Workspace: "w1", Namespace: "mine"}} {
		t.Run(fmt.Sprintf("%+v", scope.Namespace), func(t *testing.T) {
			page := func() (*page.Page, string) {
				t.Helper()
				q := parsed(t, "sortBy=name&limit=1")
				p, err := c.List(t.Context(), c.kind("pods"), scope, q)
				if err != nil {
					t.Fatal(err)
				}
				b, err := c.planner.Plan(t.Context(), c.kind("pods"), scope, q)
				if err != nil {
					t.Fatal(err)
				}
				return p, string(b.ResultKey(nil))
			}
			_, before := page()
			x, err := c.Streams.Watch(t.Context(), c.kind("pods"), scope, parsed(t, "allowWatchBookmarks=true&resourceVersion="+c.settled()), "")
			if err != nil {
				t.Fatal(err)
			}
			w := get(t, serveSource(t, x).URL)
			for i := range 20 {
				c.place("other"+strconv.Itoa(i), "w2")
				c.place("theirs", []string{"w2", "w3"}[i%2])
			}
			c.settled()
			if _, after := page(); after != before {
				t.Error("what is kept is asked for by another key")
			}
			c.claim("mine", "q"+scope.Namespace, "", "x")
			wantEvent(t, w, "ADDED q"+scope.Namespace)
			if scope.Namespace == "" { // it ends: the namespace of an object that it has shown is in another workspace now
				c.place("nobodys", "w2")
				wantEvent(t, w, "ERROR 410")
			}
		})
	}
}

// S7: a watch that continues after namespaces have moved uses their present workspaces, also for later objects.
func TestAPlanThatGoesOnKnowsWhereNamespacesAre(t *testing.T) {
	c := newLiveCluster(t)
	c.place("mine", "w1")
	c.settled()
	b, err := c.planner.Plan(t.Context(), c.kind("pods"), plan.Scope{Workspace: "w1"}, parsed(t, ""))
	if err != nil {
		t.Fatal(err)
	}
	shown := func(namespace string) bool {
		t.Helper()
		c.claim(namespace, "p", "w1", "x")
		c.settled()
		snap, err := c.planner.Snapshot(t.Context(), b.Kind, b.Scope, "")
		if err != nil {
			t.Fatal(err)
		}
		r, ok := snap.Get(namespace, "p")
		if !ok {
			t.Fatal("there is no pod")
		}
		return b.Matches(r)
	}
	c.place("theirs", "w2")
	c.settled()
	if b.Outdated(t.Context()) {
		t.Fatal("a namespace of others ends it")
	}
	if shown("theirs") {
		t.Error("it shows an object of a namespace that became another workspace's while it went on")
	}
	if !shown("nobodys") {
		t.Error("it does not show what is labelled in a namespace of nobody's")
	}
	c.place("nobodys", "w3")
	c.settled()
	if !b.Outdated(t.Context()) {
		t.Error("it goes on where an object that it has shown is another's")
	}
}

// wantEvent reads the next event that is no bookmark.
func wantEvent(t *testing.T, w *client, want string) {
	t.Helper()
	for {
		e, ok := w.next()
		if !ok {
			t.Fatalf("it ended before %s", want)
		}
		if e.Type == "BOOKMARK" {
			continue
		}
		if got := e.String(); got != want {
			t.Fatalf("%s, want %s: %s", got, want, e.raw)
		}
		return
	}
}
