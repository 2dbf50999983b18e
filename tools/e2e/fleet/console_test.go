package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/tools/stack"
)

const (
	consoleClusters = "/kapis/tenant.kubesphere.io/v1beta1/clusters"
	consoleCluster  = "/kapis/resources.kubesphere.io/v1alpha3/clusters/"
	consoleLabels   = "/kapis/cluster.kubesphere.io/v1alpha1/labels"
)

// clusterNames returns the names of the clusters that a page lists.
func clusterNames(ctx context.Context, u user, selector string) (string, error) {
	resp, err := u.ask(ctx, http.MethodGet, consoleClusters+"?labelSelector="+url.QueryEscape(selector)+"&limit=-1&sortBy=name&ascending=true", nil)
	if err != nil {
		return "", err
	}
	var o struct {
		Items []struct{ Metadata struct{ Name string } }
	}
	if err := json.Unmarshal(resp.Body, &o); err != nil || resp.Status != http.StatusOK {
		return "", fmt.Errorf("%d %.300s: %w", resp.Status, resp.Body, err)
	}
	var names []string
	for _, i := range o.Items {
		names = append(names, i.Metadata.Name)
	}
	return strings.Join(names, " "), nil
}

// pageLists waits until a page lists clusters.
func pageLists(t *testing.T, u user, selector, want string) {
	t.Helper()
	eventually(t, selector+" selects "+want, func(ctx context.Context) error {
		got, err := clusterNames(ctx, u, selector)
		if err == nil && got != want {
			err = fmt.Errorf("it selects %s", got)
		}
		return err
	})
}

// clusterDetail is what pages read of a Cluster before they open it.
type clusterDetail struct {
	Metadata struct{ Labels, Annotations map[string]string }
	Spec     struct {
		Connection struct{ Type, KubeSphereAPIEndpoint string }
	}
	Status struct {
		KubeSphereVersion, KubernetesVersion string
		NodeCount                            int
		Conditions                           []struct{ Type, Status, Message string }
	}
}

// pageOpens waits until a page opens a cluster, and returns what it reads.
func pageOpens(t *testing.T, u user, name string) (d clusterDetail) {
	t.Helper()
	eventually(t, "the page opens "+name, func(ctx context.Context) error {
		resp, err := u.ask(ctx, http.MethodGet, consoleCluster+name, nil)
		if err != nil {
			return err
		}
		d = clusterDetail{}
		if err := json.Unmarshal(resp.Body, &d); err != nil {
			return err
		}
		if len(resp.Body) == 0 || strings.Contains(string(resp.Body), "client-key-data") {
			return fmt.Errorf("%.300s", resp.Body)
		}
		for _, c := range d.Status.Conditions {
			if c.Type == "Ready" && c.Status == "True" && d.Status.KubeSphereVersion != "" {
				return nil
			}
		}
		return fmt.Errorf("%d %+v", resp.Status, d)
	})
	return d
}

// F8, F10, F11, F31, F32: what the pages about clusters send, in their order: a cluster that the hub dials and one that dials are added, with labels; the
// kubeconfig is edited, labels are put on and taken off, a cluster is opened to everybody, and to one workspace; both are removed and added again.
func TestTheFormsOfClusters(t *testing.T) {
	a := admin(t)
	stranger := newUser(t, "forms-stranger")
	kubeconfig, err := os.ReadFile(filepath.Join(product.Dir, "members", direct, "kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	pageLists(t, a, "cluster-role.kubesphere.io/host=,!cluster-role.kubesphere.io/edge", "host")
	pageLists(t, a, "!cluster-role.kubesphere.io/host", direct+" "+dialer)
	before := pageOpens(t, a, direct)

	// Labels are made on a page of their own.
	var made []struct{ Metadata struct{ Name string } }
	text := a.must(t, http.StatusOK, http.MethodPost, consoleLabels, []obj{{"key": "forms-env", "value": "live"}, {"key": "forms-env", "value": "test"}})
	if err := json.Unmarshal([]byte(text), &made); err != nil || len(made) != 2 {
		t.Fatalf("%s, %v", text, err)
	}
	live, test := made[0].Metadata.Name, made[1].Metadata.Name
	marked := func(id string) string { return "label.cluster.kubesphere.io/" + id }
	eventually(t, "the page of labels shows them", func(ctx context.Context) error {
		resp, err := a.ask(ctx, http.MethodGet, consoleLabels, nil)
		var all map[string][]struct{ Value, ID string }
		if err == nil {
			err = json.Unmarshal(resp.Body, &all)
		}
		if err == nil && len(all["forms-env"]) != 2 {
			err = fmt.Errorf("%s", resp.Body)
		}
		return err
	})

	// Remove, and add by a kubeconfig: the name is checked, then the kubeconfig, then the Cluster is created.
	removed := func(name string) {
		t.Helper()
		a.must(t, http.StatusOK, http.MethodDelete, clusters+"/"+name, nil)
		a.becomes(t, patience, http.StatusNotFound, http.MethodGet, clusters+"/"+name, nil)
		a.becomes(t, patience, http.StatusNotFound, http.MethodGet, consoleCluster+name, nil) // what pages show comes from a cache
	}
	removed(direct)
	body := obj{"apiVersion": "cluster.kubesphere.io/v1alpha1", "kind": "Cluster", "metadata": obj{"name": direct,
		"labels":      obj{"cluster.kubesphere.io/group": "production"},
		"annotations": obj{"kubesphere.io/creator": "admin", "cluster.kubesphere.io/label-ids": live}}, "spec": obj{"provider": "", "enable": true,
		"connection": obj{"type": "direct", "kubeconfig": kubeconfig, "kubesphereAPIEndpoint": before.Spec.Connection.KubeSphereAPIEndpoint}}}
	a.must(t, http.StatusOK, http.MethodPost, kapis+"/validation", body)
	a.must(t, http.StatusCreated, http.MethodPost, clusters, body)
	a.must(t, http.StatusConflict, http.MethodPost, clusters, body)
	pageOpens(t, a, direct)
	pageLists(t, a, marked(live), direct)
	eventually(t, "its nodes are counted, and its labels are no annotation any more", func(context.Context) error {
		d := pageOpens(t, a, direct)
		if d.Status.NodeCount != 3 || d.Metadata.Annotations["cluster.kubesphere.io/label-ids"] != "" {
			return fmt.Errorf("it has %d nodes, and the annotations %v", d.Status.NodeCount, d.Metadata.Annotations)
		}
		return nil
	})

	// Edit the kubeconfig.
	a.must(t, http.StatusOK, http.MethodPut, kapis+"/"+direct+"/kubeconfig", obj{"kubeconfig": kubeconfig})
	a.must(t, http.StatusBadRequest, http.MethodPut, kapis+"/"+dialer+"/kubeconfig", obj{"kubeconfig": kubeconfig})

	// Labels of several clusters at once, and one taken off.
	a.must(t, http.StatusOK, http.MethodPost, "/kapis/cluster.kubesphere.io/v1alpha1/labelbindings", obj{
		"labels": []string{test}, "clusters": []string{direct, dialer}})
	pageLists(t, a, marked(test), direct+" "+dialer)
	a.must(t, http.StatusOK, http.MethodPut, consoleLabels+"/"+test+"?action=unbind", obj{"clusters": []string{direct}})
	pageLists(t, a, marked(test), dialer)

	// Visibility: to everybody, and back, and to one workspace.
	nodes := "/clusters/" + direct + "/api/v1/namespaces/default/pods"
	stranger.must(t, http.StatusForbidden, http.MethodGet, nodes, nil)
	pageLists(t, stranger, "!cluster-role.kubesphere.io/host", "")
	a.patch(t, clusters+"/"+direct, `{"metadata":{"labels":{"cluster.kubesphere.io/visibility":"public"}}}`)
	pageLists(t, a, "cluster.kubesphere.io/visibility=public", direct)
	stranger.becomes(t, patience, http.StatusOK, http.MethodGet, "/clusters/"+direct+"/version", nil)
	a.patch(t, clusters+"/"+direct, `{"metadata":{"labels":{"cluster.kubesphere.io/visibility":null}}}`)
	stranger.becomes(t, patience, http.StatusForbidden, http.MethodGet, "/clusters/"+direct+"/version", nil)
	a.must(t, http.StatusOK, http.MethodPost, workspace, obj{"apiVersion": "iam.kubesphere.io/v1beta1", "kind": "WorkspaceTemplate",
		"metadata": obj{"name": "forms"},
		"spec":     obj{"template": obj{"spec": obj{"manager": stranger.name}}, "placement": obj{"clusters": []obj{}}}})
	a.becomes(t, patience, http.StatusOK, http.MethodPost, kapis+"/"+direct+"/grantrequests", []obj{{"op": "add", "workspace": "forms"}})
	stranger.becomes(t, patience, http.StatusOK, http.MethodGet, "/clusters/"+direct+workspace+"/forms", nil)
	a.must(t, http.StatusOK, http.MethodDelete, workspace+"/forms", nil)

	// Remove, and add one that dials: its page waits for Initialized, fetches the file, more than once, and shows it.
	removed(dialer)
	a.must(t, http.StatusCreated, http.MethodPost, clusters, obj{"apiVersion": "cluster.kubesphere.io/v1alpha1", "kind": "Cluster", "metadata": obj{"name": dialer,
		"annotations": obj{"kubesphere.io/creator": "admin"}}, "spec": obj{"provider": "", "enable": true, "connection": obj{"type": "proxy"}}})
	var file, shown string
	changes := 0
	for range 3 {
		eventually(t, "the file is shown", func(ctx context.Context) error {
			resp, err := a.ask(ctx, http.MethodGet, "/kapis/tower.kubesphere.io/v1alpha1/deployment?cluster="+dialer, nil)
			if err == nil && resp.Status != http.StatusOK {
				err = fmt.Errorf("%d %.300s", resp.Status, resp.Body)
			}
			file = string(resp.Body)
			return err
		})
		if shown != "" && file != shown {
			changes++
		}
		shown = file
	}
	if changes > 1 { // with each quarter of an hour there is another token, and so there may be one in between
		t.Error("it is another one each time, and what was shown first may have been applied")
	}
	if err := os.WriteFile(filepath.Join(product.Dir, "members", dialer, "join-token"), []byte(joinToken.FindString(file)), 0o600); err != nil {
		t.Fatal(err)
	}
	pageOpens(t, a, dialer)
	a.becomes(t, patience, http.StatusOK, http.MethodGet, "/clusters/"+dialer+"/api/v1/nodes", nil)
	a.must(t, http.StatusOK, http.MethodDelete, consoleLabels, []string{live, test})
	pageLists(t, a, marked(live), "")
}

// patch changes an object by a merge patch, as pages do.
func (u user) patch(t *testing.T, path, patch string) {
	t.Helper()
	resp, err := product.Do(t.Context(), stack.Request{Method: http.MethodPatch, Path: path, Token: u.token, Body: []byte(patch),
		Header: http.Header{"Content-Type": {"application/merge-patch+json"}}})
	if err != nil || resp.Status != http.StatusOK {
		t.Fatalf("PATCH %s: %d %.300s, %v", path, resp.Status, resp.Body, err)
	}
}
