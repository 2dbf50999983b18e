package fleet

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"kapis.dev/ks-apiserver/pkg/cluster"
	"kapis.dev/ks-apiserver/pkg/cluster/fleetsync"
	"kapis.dev/ks-apiserver/pkg/cluster/hub"
	"kapis.dev/ks-apiserver/pkg/resource"
	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/pkg/store/storetest"
	"kapis.dev/ks-apiserver/tools/pace"
)

// F25, F26: a replica whose kube-apiserver does not answer does not know what is to be in members, and answers requests all the same.
func TestAHubIsCurrentWhileItsWatchesGoOn(t *testing.T) {
	var down atomic.Bool
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if down.Load() {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		_, _ = fmt.Fprintln(w, `{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}}}}`)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	h := &Hub{Hub: &hub.Hub{Members: &cluster.Members{Host: "host", Now: time.Now}}, source: fleetsync.NewSource(nil)}
	served := storetest.Kinds{}
	for _, k := range h.Kinds() {
		served[k.GroupVersion()] = append(served[k.GroupVersion()], storetest.Cluster(k.Resource)...)
	}
	ctx, cancel := context.WithCancel(context.Background())
	st, err := store.New(ctx, store.Options{Config: &rest.Config{Host: srv.URL}, Discovery: served, Schemas: resource.Schemas(), SyncWait: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		srv.CloseClientConnections()
		st.Wait()
		srv.Close()
	})
	if !errors.Is(h.isCurrent(), errNotFed) {
		t.Error("it is current before it is fed")
	}
	var all []func() error
	for gvr, sink := range h.Sinks() {
		all = append(all, st.Feed(gvr, sink))
	}
	h.Fed(all, store.Complete(st, h.Kinds()...))
	o := &Options{Caches: st}
	until := func(what string, current bool) {
		t.Helper()
		if err := pace.Until(t.Context(), time.Minute, func(context.Context) error {
			one, some := h.isCurrent(), o.areCurrent(h.Kinds()...)
			if err := errors.Join(one, some); (one == nil) != current || (some == nil) != current {
				return fmt.Errorf("%s: %w", what, errors.Join(err, errors.New("not yet")))
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	until("all is read", true)
	down.Store(true)
	srv.CloseClientConnections()
	until("the watches end", false)
	if err := h.Known(); err != nil {
		t.Errorf("in an outage requests are refused: %v", err)
	}
	down.Store(false)
	until("the outage ends", true)
	for _, kind := range []string{"clusters", "users", "workspacetemplates", "globalrolebindings"} {
		if !slices.ContainsFunc(h.Kinds(), func(k schema.GroupVersionResource) bool { return k.Resource == kind }) {
			t.Errorf("%s are not among the kinds", kind)
		}
	}
}
