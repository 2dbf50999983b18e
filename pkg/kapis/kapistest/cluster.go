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

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// workloads is a cluster that serves the built-in kinds that overviews count.
type workloads struct{}

func (workloads) GroupsAndMaybeResourcesWithContext(context.Context) (*metav1.APIGroupList,
	map[schema.GroupVersion]*metav1.APIResourceList, map[schema.GroupVersion]error, error) {
	groups, lists := &metav1.APIGroupList{}, map[schema.GroupVersion]*metav1.APIResourceList{}
	for group, plurals := range map[string][]string{
		"":     {"pods", "persistentvolumeclaims"},
		"apps": {"deployments", "statefulsets", "daemonsets"}, "batch": {"jobs"},
	} {
		gv := schema.GroupVersion{Group: group, Version: "v1"}
		v := metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: gv.Version}
		groups.Groups = append(groups.Groups, metav1.APIGroup{Name: group, PreferredVersion: v, Versions: []metav1.GroupVersionForDiscovery{v}})
		lists[gv] = &metav1.APIResourceList{}
		for _, p := range plurals {
			lists[gv].APIResources = append(lists[gv].APIResources, metav1.APIResource{Name: p, Kind: p, Namespaced: true,
				Verbs: metav1.Verbs{"get", "list", "watch"}})
		}
	}
	return groups, lists, nil, nil
}

func (workloads) ServerResourcesForGroupVersionWithContext(context.Context, string) (*metav1.APIResourceList, error) {
	return nil, nil
}

// NewStore returns the store of a cluster with objects, by the path of their kind, such as /apis/apps/v1/deployments; strings are
// JSON, anything else is marshalled. The kinds that broken names answer with 500, until the test ends.
func NewStore(t testing.TB, objects map[string][]any, broken ...string) *store.Store {
	t.Helper()
	return newStore(t, workloads{}, objects, broken...)
}

// NewAccounts is NewStore for a cluster that serves users and their rights (roles, bindings, templates, workspaces, namespaces) and
// the labels of clusters.
func NewAccounts(t testing.TB, objects map[string][]any) *store.Store {
	t.Helper()
	return newStore(t, people{}, objects)
}

// people is a cluster that serves the kinds of NewAccounts.
type people struct{ workloads }

func (people) GroupsAndMaybeResourcesWithContext(context.Context) (*metav1.APIGroupList,
	map[schema.GroupVersion]*metav1.APIResourceList, map[schema.GroupVersion]error, error) {
	groups, lists := &metav1.APIGroupList{}, map[schema.GroupVersion]*metav1.APIResourceList{}
	verbs := metav1.Verbs{"get", "list", "watch", "create", "update", "patch", "delete"}
	for gv, kinds := range map[schema.GroupVersion]map[string]string{
		{Version: "v1"}: {"namespaces": "Namespace"},
		{Group: "cluster.kubesphere.io", Version: "v1alpha1"}: {"clusters": "Cluster", "labels": "Label"},
		{Group: "tenant.kubesphere.io", Version: "v1beta1"}:   {"workspaces": "Workspace", "workspacetemplates": "WorkspaceTemplate"},
		{Group: "iam.kubesphere.io", Version: "v1beta1"}: {
			"users": "User", "roletemplates": "RoleTemplate", "globalroles": "GlobalRole", "globalrolebindings": "GlobalRoleBinding",
			"workspaceroles": "WorkspaceRole", "workspacerolebindings": "WorkspaceRoleBinding", "clusterroles": "ClusterRole",
			"clusterrolebindings": "ClusterRoleBinding", "roles": "Role", "rolebindings": "RoleBinding", "groups": "Group",
			"groupbindings": "GroupBinding",
		},
	} {
		v := metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: gv.Version}
		groups.Groups = append(groups.Groups, metav1.APIGroup{Name: gv.Group, PreferredVersion: v,
			Versions: []metav1.GroupVersionForDiscovery{v}})
		lists[gv] = &metav1.APIResourceList{}
		for plural, kind := range kinds {
			lists[gv].APIResources = append(lists[gv].APIResources,
				metav1.APIResource{Name: plural, Kind: kind, Namespaced: plural == "roles" || plural == "rolebindings", Verbs: verbs})
		}
	}
	return groups, lists, nil, nil
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
