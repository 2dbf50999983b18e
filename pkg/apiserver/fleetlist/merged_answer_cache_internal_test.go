package fleetlist

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	authnfleet "kapis.dev/ks-apiserver/pkg/authn/fleet"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/cluster"
	"kapis.dev/ks-apiserver/pkg/cluster/link"
	"kapis.dev/ks-apiserver/pkg/cluster/linktest"
	"kapis.dev/ks-apiserver/pkg/cluster/revalidate"
	"kapis.dev/ks-apiserver/pkg/proxy"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/pkg/stream"
)

// changing is a cluster with one object, whose version changes, and callers whom it refuses.
type changing struct {
	name string
	// older says that it has no stream.
	older bool
	// serves answers lists in its place, where it is not nil. It is set before the first one.
	serves http.Handler

	mu      sync.Mutex
	version int
	refused map[string]bool
	silent  chan struct{} // closed when it speaks again, nil while it does
	// made counts the answers that were made, and confirmed those that are as before.
	made, confirmed int
	n               uint64
	wake            chan struct{}
}

// change changes the cluster, and has its caches tell so or not.
func (c *changing) change(told bool, f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
	if told {
		c.n++
		if c.wake != nil {
			close(c.wake)
			c.wake = nil
		}
	}
}

func (c *changing) changes() (uint64, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.wake == nil {
		c.wake = make(chan struct{})
	}
	return c.n, c.wake
}

func (c *changing) counts() (made, confirmed int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.made, c.confirmed
}

func (c *changing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	older := c.older
	c.mu.Unlock()
	if r.URL.Path == revalidate.Path && !older {
		(&revalidate.Member{Next: c, Changes: c.changes}).ServeHTTP(w, r)
		return
	}
	if c.serves != nil {
		c.serves.ServeHTTP(w, r)
		return
	}
	c.mu.Lock()
	version, silent, refused := c.version, c.silent, c.refused[r.Header.Get(authnfleet.HeaderUser)]
	c.mu.Unlock()
	if silent != nil {
		select {
		case <-silent:
		case <-r.Context().Done():
			return
		}
	}
	w.Header().Set("Content-Type", "application/json")
	count := func(n *int) {
		c.mu.Lock()
		defer c.mu.Unlock()
		*n++
	}
	if refused {
		w.WriteHeader(http.StatusForbidden)
		_, _ = fmt.Fprint(w, `{"kind":"Status","code":403,"message":"no"}`)
		return
	}
	tag := fmt.Sprintf(`W/"%d %d"`, version, len(r.URL.RawQuery))
	w.Header().Set("Etag", tag)
	if r.Header.Get("If-None-Match") == tag {
		count(&c.confirmed)
		w.WriteHeader(http.StatusNotModified)
		return
	}
	count(&c.made)
	key := base64.RawStdEncoding.EncodeToString([]byte("\x03o\x00\x01"))
	item := fmt.Sprintf(`{"metadata":{"name":"o","uid":"u-%s","resourceVersion":"%d"}}`, c.name, version)
	_, _ = fmt.Fprintf(w, `{"totalItems":1,"start":0,"metadata":{"resourceVersion":"%d"},"rows":[["%s","","o","u-%s","%d"]],"items":[%s]}`,
		version, key, c.name, version, item)
}

// fleetWorld is a hub with linked members.
type fleetWorld struct {
	t       testing.TB
	members *cluster.Members
	by      *linktest.Authority
	all     map[string]*changing
	ends    map[string]func()
	// ticks is the time, in nanoseconds.
	ticks  atomic.Int64
	lists  *lists
	hub    *revalidate.Hub
	linked chan struct{}
}

func (w *fleetWorld) now() time.Time { return time.Unix(1000, w.ticks.Load()) }

func newFleetWorld(t testing.TB, names ...string) *fleetWorld {
	t.Helper()
	w := &fleetWorld{t: t, by: linktest.NewAuthority(t), all: map[string]*changing{}, ends: map[string]func(){}, linked: make(chan struct{}, 64)}
	w.members = &cluster.Members{Identity: w.by.Hub(t), Host: "host", Now: w.now, Changed: func(*cluster.Member) { w.linked <- struct{}{} }}
	for _, name := range append([]string{"host"}, names...) {
		w.all[name] = &changing{name: name, version: 1, refused: map[string]bool{}}
		if name != "host" {
			w.link(name)
		}
	}
	drain, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	w.hub = revalidate.NewHub(drain, w.now)
	may := authz.Func(func(_ context.Context, _ user.Info, r *request.Info) (authz.Decision, error) {
		return authz.Allow("", ""), nil
	})
	h, _ := New(Options{Members: w.members, Host: "host", May: may, Streams: stream.New(stream.Options{}), Asked: NewAsked(),
		Known:      func() error { return nil },
		HostLabels: func(context.Context) map[string]string { return nil },
		Read:       proxy.MemberReader{Find: w.members.ByName}, Unchanged: w.hub}, w.all["host"]).(*lists)
	h.now, h.pages.now = w.now, w.now
	w.lists = h
	return w
}

// link links a member, again or for the first time.
func (w *fleetWorld) link(name string) {
	w.t.Helper()
	if end := w.ends[name]; end != nil {
		end()
		<-w.linked
	}
	uid := "u-" + name
	raw := fmt.Sprintf(`{"metadata":{"name":%q,"uid":%q},"spec":{"enable":true},"status":{"conditions":[{"type":"Ready","status":"True"}]}}`, name, uid)
	w.members.Set(&store.Object{Name: name, Raw: []byte(raw)})
	hub, member := linktest.Pair(w.t)
	ctx, cancel := context.WithCancel(w.t.Context())
	w.ends[name] = func() { cancel(); _ = member.Close() }
	go func() {
		_ = (&link.Handler{Identity: w.by.Member(w.t, uid), Handler: w.all[name]}).Serve(ctx, member, 0)
	}()
	go func() { _ = w.members.Serve(w.t.Context(), hub, uid, func() {}) }()
	<-w.linked
	w.members.ByName(name).SetSynced(true, nil)
}

// seen is what an answer says: the version of each cluster's object, and why one is not there.
func (w *fleetWorld) ask(caller, parameters string) (seen map[string]string) {
	w.t.Helper()
	r := httptest.NewRequestWithContext(w.t.Context(), http.MethodGet, "/fleet/kapi/v1/nodes?sortBy=name"+parameters, nil)
	info, err := request.Parse(r)
	if err != nil {
		w.t.Fatal(err)
	}
	u := &user.DefaultInfo{Name: caller, UID: "uid-" + caller}
	out := httptest.NewRecorder()
	w.lists.ServeHTTP(out, r.WithContext(request.WithUser(request.WithInfo(w.t.Context(), info), u)))
	var got struct {
		Items []struct {
			Metadata struct {
				ResourceVersion string
				Annotations     map[string]string
			}
		}
		Clusters struct {
			Missing []struct{ Name, Reason string }
			Refused []string
		}
	}
	if err := json.Unmarshal(out.Body.Bytes(), &got); err != nil {
		w.t.Fatalf("%v: %s", err, out.Body)
	}
	seen = map[string]string{}
	for _, i := range got.Items {
		seen[i.Metadata.Annotations["kapis.dev/cluster"]] = i.Metadata.ResourceVersion
	}
	for _, m := range got.Clusters.Missing {
		seen[m.Name] = m.Reason
	}
	for _, name := range got.Clusters.Refused {
		seen[name] = "refused"
	}
	return seen
}

// want is what a list that asks everybody now would say.
func (w *fleetWorld) want(caller string) map[string]string {
	out := map[string]string{}
	for name, c := range w.all {
		c.mu.Lock()
		out[name] = fmt.Sprint(c.version)
		if c.refused[caller] && name != "host" {
			out[name] = "refused"
		}
		if c.silent != nil {
			out[name] = "Timeout"
		}
		c.mu.Unlock()
	}
	return out
}

// eventually waits until a list says what one that asks everybody would. The time of the test stands still.
func (w *fleetWorld) eventually(what, caller string) {
	w.t.Helper()
	for end := time.Now().Add(5 * time.Minute); ; {
		got, want := w.ask(caller, ""), w.want(caller)
		if fmt.Sprint(got) == fmt.Sprint(want) {
			return
		}
		if time.Now().After(end) {
			w.t.Fatalf("%s: %s sees %v, want %v", what, caller, got, want)
		}
	}
}

// F35, F36, F40: an answer that is kept is what asking all clusters again would give, for this caller, after changes of objects and of
// rights, whether members told of them or not, after members were linked anew, and while one is silent.
func TestAnAnswerThatIsKeptIsTheOneThatWouldBeGiven(t *testing.T) {
	w := newFleetWorld(t, "m1", "m2", "m3")
	w.all["m3"].change(false, func() { w.all["m3"].older = true })
	for seed := range uint64(3) {
		r := rand.New(rand.NewPCG(seed, 40))
		for range 60 {
			caller, name := []string{"ann", "bob"}[r.IntN(2)], []string{"host", "m1", "m2", "m3"}[r.IntN(4)]
			c, told := w.all[name], r.IntN(2) == 0
			what := "nothing"
			switch r.IntN(8) {
			case 0, 1:
				what = fmt.Sprintf("an object of %s, told %v", name, told)
				c.change(told, func() { c.version++ })
			case 2, 3:
				what = fmt.Sprintf("a right of %s in %s, told %v", caller, name, told)
				c.change(told, func() { c.refused[caller] = !c.refused[caller] })
			case 4:
				if what = "no link"; name != "host" && r.IntN(3) == 0 {
					what = "a link of " + name
					c.change(false, func() { c.version++ })
					w.link(name)
					told = false
				}
			case 5:
				if name != "host" && r.IntN(4) == 0 {
					what, told = name+" is silent", false
					c.change(false, func() { c.silent = make(chan struct{}) })
					w.ticks.Add(int64(revalidate.Term))
					if got, want := w.ask(caller, "&memberTimeout=300ms"), w.want(caller); fmt.Sprint(got) != fmt.Sprint(want) {
						t.Fatalf("seed %d, %s: %s sees %v, want %v", seed, what, caller, got, want)
					}
					c.change(false, func() { close(c.silent); c.silent = nil })
				}
			}
			if told {
				w.eventually(fmt.Sprintf("seed %d, %s", seed, what), caller)
				continue
			}
			w.ticks.Add(int64(revalidate.Term))
			if got, want := w.ask(caller, "&memberTimeout=10s"), w.want(caller); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("seed %d, %s: %s sees %v, want %v", seed, what, caller, got, want)
			}
		}
	}
}

// F36, F39, F40: while nothing changes, members make no answer again; they are asked in their streams, and not more often than a confirmation
// counts. One of an older release is asked as before.
func TestMembersAreNotAskedWhileNothingChanges(t *testing.T) {
	w := newFleetWorld(t, "m1", "m2")
	w.all["m2"].change(false, func() { w.all["m2"].older = true })
	ann := func() map[string]string { return w.ask("ann", "&clusters=m1&limit=10&memberTimeout=10s") }
	ann()
	ann()
	made, confirmed := w.all["m1"].counts()
	for range 20 {
		if got := ann(); got["m1"] != "1" {
			t.Fatalf("%v", got)
		}
	}
	if m, c := w.all["m1"].counts(); m != made || c != confirmed || made != 1 {
		t.Errorf("%d answers were made and %d confirmed, before %d and %d", m, c, made, confirmed)
	}
	w.ticks.Add(int64(revalidate.Term))
	ann()
	if m, c := w.all["m1"].counts(); m != made || c == confirmed {
		t.Errorf("after the term %d answers were made and %d confirmed, before %d and %d", m, c, made, confirmed)
	}
	// Another caller, another question and another path are asked for themselves.
	for i, ask := range []func(){
		func() { w.ask("bob", "&clusters=m1&limit=10&memberTimeout=10s") },
		func() { w.ask("ann", "&clusters=m1&limit=3&memberTimeout=10s") },
	} {
		before, _ := w.all["m1"].counts()
		if ask(); first(w.all["m1"].counts()) != before+1 {
			t.Errorf("%d: what another one got was used", i)
		}
	}
	older := func() { w.ask("ann", "&clusters=m2&limit=10&memberTimeout=10s") }
	older()
	older()
	before := first(w.all["m2"].counts())
	if older(); first(w.all["m2"].counts()) != before {
		t.Error("a page of a member of an older release travelled again")
	}
	w.ticks.Add(int64(2 * pageAge))
	before, _ = w.all["m1"].counts()
	if ann(); first(w.all["m1"].counts()) == before {
		t.Error("an answer is used whose resource version may be too old to be watched from")
	}
}

func first(n, _ int) int { return n }

// F14, F36: what is kept is used for nobody who may not enter a cluster any more, and for no other clusters.
func TestAnAnswerThatIsKeptIsOfTheClustersThatTheCallerMayEnter(t *testing.T) {
	w := newFleetWorld(t, "m1", "m2")
	var closed atomic.Bool
	w.lists.May = authz.Func(func(_ context.Context, _ user.Info, r *request.Info) (authz.Decision, error) {
		if r.Cluster == "m2" && closed.Load() {
			return authz.Decision{}, nil
		}
		return authz.Allow("", ""), nil
	})
	for range 2 {
		if got := w.ask("ann", ""); len(got) != 3 {
			t.Fatalf("%v", got)
		}
	}
	closed.Store(true)
	if got := w.ask("ann", ""); fmt.Sprint(got) != "map[host:1 m1:1]" {
		t.Errorf("without the right to enter m2: %v", got)
	}
	w.members.Delete("", "m1")
	if got := w.ask("ann", ""); fmt.Sprint(got) != "map[host:1]" {
		t.Errorf("without m1: %v", got)
	}
}

// F39: answers that are kept have a bound, and it is measured.
func TestAnswersThatAreKeptHaveABound(t *testing.T) {
	w := newFleetWorld(t, "m1")
	w.lists.answers.Bytes = 64 << 10
	for i := range 200 {
		w.ask("ann", "&clusters=m1&x="+url.QueryEscape(strings.Repeat("é", i)))
	}
	if n := w.lists.answers.Size(); n == 0 || n > 64<<10 || (*w.lists.Asked.kept.Load())() != n {
		t.Errorf("%d bytes are kept", n)
	}
}
