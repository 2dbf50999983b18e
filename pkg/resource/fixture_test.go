package resource

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/resource/page"
	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/pkg/store/storetest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// world is a store whose kube-apiserver holds exactly the objects of a test.
type world struct {
	*Service

	store   *store.Store
	mu      sync.Mutex
	objects map[string][]string // path -> JSON
	streams map[string]chan string
	version int
}

// itemOf returns the JSON of one object of a page: of the fields that the query asks for.
func itemOf(p *page.Page, i int) string {
	json := p.Object(i).String()
	if p.Projection == nil {
		return json
	}
	return string(p.Projection.Append(nil, json))
}

// verbs are those of a kind that can be cached.
var verbs = metav1.Verbs{"get", "list", "watch"}

func newWorld(t testing.TB, objects map[string][]string, o Options) *world {
	return openWorld(t, objects, o, store.Options{Discovery: kinds, VersionWait: 2 * time.Minute})
}

// openWorld returns a world whose store has these options and those that all have.
func openWorld(t testing.TB, objects map[string][]string, o Options, options store.Options) *world {
	w := &world{objects: objects, streams: map[string]chan string{}, version: 1000}
	srv := httptest.NewServer(http.HandlerFunc(w.serve))
	ctx, cancel := context.WithCancel(context.Background())
	options.Config, options.Schemas, options.SyncWait = &rest.Config{Host: srv.URL}, Schemas(), 2*time.Minute
	st, err := store.New(ctx, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		srv.CloseClientConnections()
		st.Wait()
		srv.Close()
	})
	w.store, w.Service = st, New(st, o)
	return w
}

// serve streams the initial events of a kind, and then what change sends.
func (w *world) serve(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	objects, events := w.objects[r.URL.Path], w.stream(r.URL.Path)
	w.mu.Unlock()
	rw.WriteHeader(http.StatusOK)
	for _, o := range objects {
		_, _ = fmt.Fprintf(rw, "{\"type\":\"ADDED\",\"object\":%s}\n", o)
	}
	_, _ = fmt.Fprintf(rw, `{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"1000","annotations":{"k8s.io/initial-events-end":"true"}}}}`+"\n")
	rw.(http.Flusher).Flush()
	for {
		select {
		case frame := <-events:
			_, _ = fmt.Fprintln(rw, frame)
			if len(events) == 0 {
				rw.(http.Flusher).Flush()
			}
		case <-r.Context().Done():
			return
		}
	}
}

func (w *world) stream(path string) chan string {
	if w.streams[path] == nil {
		w.streams[path] = make(chan string, 4096)
	}
	return w.streams[path]
}

func (w *world) send(path, event, object string) {
	w.mu.Lock()
	events := w.stream(path)
	w.mu.Unlock()
	events <- `{"type":"` + event + `","object":` + object + `}`
}

// kinds are those that tests use.
var kinds = storetest.Kinds{
	{Version: "v1"}: append(storetest.Namespaced("pods Pod", "services Service", "secrets Secret", "configmaps ConfigMap"),
		storetest.Cluster("nodes Node", "namespaces Namespace")...),
	{Group: "apps", Version: "v1"}:                      storetest.Namespaced("deployments Deployment", "replicasets ReplicaSet"),
	{Group: "iam.kubesphere.io", Version: "v1beta1"}:    storetest.Cluster("users User"),
	{Group: "tenant.kubesphere.io", Version: "v1beta1"}: storetest.Cluster("workspaces Workspace"),
	{Group: "example.com", Version: "v1"}:               storetest.Cluster("widgets Widget"),
}

func (w *world) resolve(t testing.TB, group, resource string) *store.Kind {
	t.Helper()
	for _, version := range []string{"v1", "v1beta1", "v1alpha1", "v2"} {
		if k, err := w.Catalog().Resolve(context.Background(), schema.GroupVersionResource{Group: group, Version: version, Resource: resource}); err == nil {
			return k
		}
	}
	t.Fatalf("no version of %s has %s", group, resource)
	return nil
}
