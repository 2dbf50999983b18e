package resource

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/resource/plan"
	"kapis.dev/ks-apiserver/pkg/resource/watch"
	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/pkg/stream"
	"kapis.dev/ks-apiserver/pkg/web"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// cluster is a kube-apiserver whose objects change, and a service that reads it.
type cluster struct {
	*Service
	t     testing.TB
	host  string
	store *store.Store
	guard *stream.Guard

	mu      sync.Mutex
	version int
	objects map[string]map[string]string // path of the kind -> namespace/name -> JSON
	streams map[string][]chan string
	missing map[string]bool // kinds that are no longer served
}

func newLiveCluster(t testing.TB) *cluster {
	c := &cluster{
		t:       t,
		guard:   stream.New(stream.Options{CloseTimeout: time.Minute}),
		version: 100,
		objects: map[string]map[string]string{},
		streams: map[string][]chan string{},
		missing: map[string]bool{},
	}
	srv := httptest.NewServer(http.HandlerFunc(c.serve))
	t.Cleanup(srv.Close)
	c.host = srv.URL
	c.store, c.Service = c.replica()
	return c
}

// replica returns another service that reads the cluster.
func (c *cluster) replica() (*store.Store, *Service) {
	ctx, cancel := context.WithCancel(context.Background())
	st, err := store.New(ctx, store.Options{
		Config: &rest.Config{Host: c.host}, Discovery: (*kindsOf)(c), Schemas: Schemas(), SyncWait: 2 * time.Minute, VersionWait: 100 * time.Millisecond,
	})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		cancel()
		st.Wait()
	})
	return st, New(st, Options{})
}

const podsAt = "/api/v1/pods"

func (c *cluster) serve(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	if r.URL.Query().Get("watch") != "true" {
		c.mu.Lock()
		defer c.mu.Unlock()
		_, _ = fmt.Fprintf(w, `{"kind":"List","apiVersion":"v1","metadata":{"resourceVersion":"%d"},"items":[%s]}`, c.version, strings.Join(c.sorted(path), ","))
		return
	}
	c.mu.Lock()
	var first []string
	if r.URL.Query().Get("sendInitialEvents") == "true" {
		for _, o := range c.sorted(path) {
			first = append(first, `{"type":"ADDED","object":`+o+`}`)
		}
		first = append(
			first,
			fmt.Sprintf(`{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"%d","annotations":{"k8s.io/initial-events-end":"true"}}}}`, c.version),
		)
	}
	events := make(chan string, 1<<15)
	c.streams[path] = append(c.streams[path], events)
	c.mu.Unlock()
	w.WriteHeader(http.StatusOK)
	for _, frame := range first {
		_, _ = fmt.Fprintln(w, frame)
	}
	w.(http.Flusher).Flush()
	for {
		select {
		case frame, ok := <-events:
			if !ok {
				return
			}
			_, _ = fmt.Fprintln(w, frame)
			if len(events) == 0 {
				w.(http.Flusher).Flush()
			}
		case <-r.Context().Done():
			return
		}
	}
}

func (c *cluster) sorted(path string) []string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(c.objects[path])) {
		out = append(out, c.objects[path][key])
	}
	return out
}

// put creates or changes an object, and returns its version. told says whether the watches get an event.
func (c *cluster) put(path, namespace, name, rest string, told bool) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version++
	if c.objects[path] == nil {
		c.objects[path] = map[string]string{}
	}
	key, event := namespace+"/"+name, "ADDED"
	if _, ok := c.objects[path][key]; ok {
		event = "MODIFIED"
	}
	kind := strings.TrimSuffix(path[strings.LastIndexByte(path, '/')+1:], "s")
	kind = strings.ToUpper(kind[:1]) + kind[1:]
	object := fmt.Sprintf(`{"kind":%q,"apiVersion":"v1","metadata":{"name":%q,"namespace":%q,"uid":"u-%s-%s","resourceVersion":"%d"%s`,
		kind, name, namespace, namespace, name, c.version, rest)
	c.objects[path][key] = object
	if told {
		c.tell(path, `{"type":"`+event+`","object":`+object+`}`)
	}
	return strconv.Itoa(c.version)
}

// pod creates or changes a pod with a label app.
func (c *cluster) pod(namespace, name, app string) string {
	return c.put(podsAt, namespace, name, `,"labels":{"app":"`+app+`","resourceVersion":"5"}},"spec":{"nodeName":"n"}}`, true)
}

func (c *cluster) remove(path, namespace, name string, told bool) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := namespace + "/" + name
	object, ok := c.objects[path][key]
	if !ok {
		return strconv.Itoa(c.version)
	}
	delete(c.objects[path], key)
	c.version++
	start, end, _ := strings.Cut(object, `"resourceVersion":"`)
	_, end, _ = strings.Cut(end, `"`)
	if told {
		c.tell(path, fmt.Sprintf(`{"type":"DELETED","object":%s"resourceVersion":"%d"%s}`, start, c.version, end))
	}
	return strconv.Itoa(c.version)
}

// forget makes the reflector of a kind list again, as after a restart of kube-apiserver.
func (c *cluster) forget(path string) { c.expire(c.apart(path)) }

// apart returns the watches of a kind, which are told nothing from then on.
func (c *cluster) apart(path string) []chan string {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.streams[path]
	c.streams[path] = nil
	return all
}

// expire ends watches with the error after which reflectors list again.
func (c *cluster) expire(watches []chan string) {
	for _, s := range watches {
		s <- `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","code":410,"reason":"Expired","message":"too old"}}`
		close(s)
	}
}

func (c *cluster) tell(path, frame string) {
	for _, s := range c.streams[path] {
		s <- frame
	}
}

func (c *cluster) current() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.version
}

// kindsOf is a cluster's discovery.
type kindsOf cluster

func (c *kindsOf) GroupsAndMaybeResourcesWithContext(context.Context) (*metav1.APIGroupList,
	map[schema.GroupVersion]*metav1.APIResourceList, map[schema.GroupVersion]error, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := &metav1.APIResourceList{GroupVersion: "v1"}
	for name, namespaced := range map[string]bool{"Pod": true, "Service": true, "Widget": true, "PersistentVolumeClaim": true, "Namespace": false} {
		if plural := strings.ToLower(name) + "s"; !c.missing[plural] {
			list.APIResources = append(list.APIResources, metav1.APIResource{Name: plural, Kind: name, Namespaced: namespaced, Verbs: verbs})
		}
	}
	v := metav1.GroupVersionForDiscovery{GroupVersion: "v1", Version: "v1"}
	return &metav1.APIGroupList{Groups: []metav1.APIGroup{{PreferredVersion: v, Versions: []metav1.GroupVersionForDiscovery{v}}}},
		map[schema.GroupVersion]*metav1.APIResourceList{{Version: "v1"}: list}, nil, nil
}

func (c *kindsOf) ServerResourcesForGroupVersionWithContext(context.Context, string) (*metav1.APIResourceList, error) {
	return nil, nil
}

// settle waits until the cache of a kind has seen everything.
func (c *cluster) settle(plural string) {
	c.t.Helper()
	w, err := c.store.Watch(context.Background(), c.kind(plural).GVR)
	if err != nil {
		c.t.Fatal(err)
	}
	defer w.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for snap := w.Snapshot(); !snap.Reaches(strconv.Itoa(c.current())); {
		if snap, err = w.Next(ctx); err != nil {
			c.t.Fatal(err)
		}
	}
}

func (c *cluster) kind(plural string) *store.Kind {
	c.t.Helper()
	k, err := c.Catalog().ByName(context.Background(), plural)
	if err != nil {
		c.t.Fatal(err)
	}
	return k
}

// paced makes the pauses of a stream short, so that a test need not wait for them.
func paced(src stream.Source) stream.Source {
	const short = 5 * time.Millisecond
	switch x := src.(type) {
	case *watch.Watching:
		x.Wake, x.Beat, x.Check = time.Millisecond, short, short
	case *watch.Live:
		x.Wake, x.Page, x.Beat = time.Millisecond, time.Millisecond, short
		x.Check = min(x.Check, short)
	}
	return src
}

// listen answers requests for lists of a kind in a scope: the query says which.
func (c *cluster) listen(plural string, scope plan.Scope) *httptest.Server {
	c.t.Helper()
	k := c.kind(plural)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q, err := query.Parse(r.URL.Query())
		if err != nil {
			web.WriteError(w, r, err)
			return
		}
		src, err := c.Streams.Open(r.Context(), r.Header, k, scope, q, r.URL.Query().Get("watch") == "true", "")
		if err != nil {
			web.WriteError(w, r, err)
			return
		}
		if src == nil {
			p, err := c.List(r.Context(), k, scope, q)
			if err != nil {
				web.WriteError(w, r, err)
				return
			}
			p.Items().Respond(w, r)
			return
		}
		c.guard.Answer(paced(src)).Respond(w, r)
	}))
	c.t.Cleanup(srv.Close)
	return srv
}

// serveSource answers every request with one source.
func serveSource(t testing.TB, src stream.Source) *httptest.Server {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		stream.New(stream.Options{}).Answer(paced(src)).Respond(w, r)
	}))
	t.Cleanup(srv.Close)
	return srv
}
