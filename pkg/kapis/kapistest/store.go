package kapistest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/resource"
	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/pkg/store/storetest"

	"k8s.io/client-go/rest"
)

// workloads are the built-in kinds that overviews count.
var workloads = storetest.Kinds{
	{Version: "v1"}:                 storetest.Namespaced("pods", "persistentvolumeclaims"),
	{Group: "apps", Version: "v1"}:  storetest.Namespaced("deployments", "statefulsets", "daemonsets"),
	{Group: "batch", Version: "v1"}: storetest.Namespaced("jobs"),
}

// accounts are users and their rights, and the labels of clusters.
var accounts = storetest.Kinds{
	{Version: "v1"}: storetest.Cluster("namespaces Namespace"),
	{Group: "cluster.kubesphere.io", Version: "v1alpha1"}: storetest.Cluster("clusters Cluster", "labels Label"),
	{Group: "tenant.kubesphere.io", Version: "v1beta1"}:   storetest.Cluster("workspaces Workspace", "workspacetemplates WorkspaceTemplate"),
	{Group: "iam.kubesphere.io", Version: "v1beta1"}: append(storetest.Namespaced("roles Role", "rolebindings RoleBinding"),
		storetest.Cluster("users User", "roletemplates RoleTemplate", "globalroles GlobalRole", "globalrolebindings GlobalRoleBinding",
			"workspaceroles WorkspaceRole", "workspacerolebindings WorkspaceRoleBinding", "clusterroles ClusterRole",
			"clusterrolebindings ClusterRoleBinding", "groups Group", "groupbindings GroupBinding", "loginrecords LoginRecord")...),
}

// NewStore returns the store of a cluster with objects, by the path of their kind, such as /apis/apps/v1/deployments; strings are
// JSON, anything else is marshalled. The kinds that broken names answer with 500, until the test ends.
func NewStore(t testing.TB, objects map[string][]any, broken ...string) *store.Store {
	t.Helper()
	return newStore(t, workloads, objects, broken...)
}

// NewAccounts is NewStore for a cluster that serves users and their rights (roles, bindings, templates, workspaces, namespaces) and
// the labels of clusters.
func NewAccounts(t testing.TB, objects map[string][]any) *store.Store {
	t.Helper()
	return newStore(t, accounts, objects)
}

func newStore(t testing.TB, kinds store.Discovery, objects map[string][]any, broken ...string) *store.Store {
	t.Helper()
	frames := map[string][]string{}
	for path, all := range objects {
		for _, o := range all {
			text, ok := o.(string)
			if !ok {
				raw, err := json.Marshal(o)
				if err != nil {
					t.Fatal(err)
				}
				text = string(raw)
			}
			frames[path] = append(frames[path], text)
		}
	}
	return NewStoreOf(t, kinds, frames, broken...)
}

// NewStoreOf is NewStore for a cluster that serves these kinds. The objects are JSON.
func NewStoreOf(t testing.TB, kinds store.Discovery, objects map[string][]string, broken ...string) *store.Store {
	t.Helper()
	down := map[string]bool{}
	for _, path := range broken {
		down[path] = true
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if down[r.URL.Path] {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		for _, o := range objects[r.URL.Path] {
			_, _ = fmt.Fprintf(w, "{\"type\":\"ADDED\",\"object\":%s}\n", o)
		}
		_, _ = fmt.Fprintln(w, `{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}}}}`)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	wait := time.Minute
	if len(broken) > 0 {
		wait = 200 * time.Millisecond // broken kinds stay broken
	}
	ctx, cancel := context.WithCancel(context.Background())
	st, err := store.New(ctx, store.Options{Config: &rest.Config{Host: srv.URL}, Discovery: kinds, Schemas: resource.Schemas(),
		SyncWait: wait})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		srv.CloseClientConnections()
		st.Wait()
		srv.Close()
	})
	return st
}
