package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var joinToken = regexp.MustCompile(`ksj_[A-Za-z0-9_.-]+`)

// F24, F32: a member leaves with its Cluster, whether it is there or not, keeps what it has, and joins again by what agent/deployment answers for the next
// one, with nothing done at the hub but that. The requests are those of pages, of kubectl and of curl.
func TestAMemberLeavesAndJoinsAgain(t *testing.T) {
	a := admin(t)
	a.must(t, http.StatusCreated, http.MethodPost, "/clusters/"+dialer+configMaps, configMap("stays"))
	var before struct {
		Metadata struct{ UID string }
		Status   struct{ UID string }
	}
	if err := json.Unmarshal([]byte(a.must(t, http.StatusOK, http.MethodGet, clusters+"/"+dialer, nil)), &before); err != nil {
		t.Fatal(err)
	}
	lines, end := events(t, a, "/clusters/"+dialer+"/kapis/resources.kubesphere.io/v1alpha3/namespaces/default/configmaps?watch=true")
	defer end()
	a.must(t, http.StatusOK, http.MethodDelete, clusters+"/"+dialer, nil)
	a.becomes(t, patience, http.StatusBadRequest, http.MethodGet, "/clusters/"+dialer+"/api/v1/nodes", nil)
	for range lines { // what ran there ends
	}
	if _, err := at(t, dialer, "-n", "default", "get", "configmap", "stays"); err != nil {
		t.Errorf("it lost something: %v", err)
	}
	a.must(t, http.StatusOK, http.MethodGet, "/clusters/"+direct+"/api/v1/nodes", nil)

	// The Cluster of before had a token that was used; the name is free. Pages name who makes it.
	maker := newUser(t, "story-maker")
	a.must(t, http.StatusCreated, http.MethodPost, clusters, obj{"apiVersion": "cluster.kubesphere.io/v1alpha1", "kind": "Cluster",
		"metadata": obj{"name": dialer, "annotations": obj{"kubesphere.io/creator": maker.name}}, "spec": obj{"enable": true, "connection": obj{"type": "proxy"}}})
	var token string
	eventually(t, "the agent's deployment is there", func(ctx context.Context) error {
		resp, err := a.ask(ctx, http.MethodGet, kapis+"/"+dialer+"/agent/deployment", nil)
		if token = string(joinToken.Find(resp.Body)); err == nil && token == "" {
			err = fmt.Errorf("%d %.300s", resp.Status, resp.Body)
		}
		return err
	})
	// What applying the file does: the Secret gets the next token.
	if err := os.WriteFile(filepath.Join(product.Dir, "members", dialer, "join-token"), []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	a.becomes(t, patience, http.StatusOK, http.MethodGet, "/clusters/"+dialer+configMaps+"/stays", nil)
	after := before
	if err := json.Unmarshal([]byte(a.must(t, http.StatusOK, http.MethodGet, clusters+"/"+dialer, nil)), &after); err != nil ||
		after.Metadata.UID == before.Metadata.UID || after.Status.UID != before.Status.UID {
		t.Errorf("the cluster was %+v, and is %+v, %v", before, after, err)
	}
	if out, err := through(t, dialer, "get", "nodes", "-o", "name"); err != nil || strings.Count(out, "node/") != 3 {
		t.Errorf("kubectl: %s, %v", out, err)
	}
	eventually(t, "it is ready", func(context.Context) error {
		text := a.must(t, http.StatusOK, http.MethodGet, clusters+"/"+dialer, nil)
		if !strings.Contains(text, `"Linked"`) || !strings.Contains(text, `"Synced"`) {
			return fmt.Errorf("%.2000s", text)
		}
		return nil
	})
	isAdministeredByItsCreator(t, a, maker)
}

// isAdministeredByItsCreator checks that who made the Cluster of a member administers it (F45), that nobody names somebody else who does, and that the role
// goes with the user.
func isAdministeredByItsCreator(t *testing.T, a, maker user) {
	t.Helper()
	maker.becomes(t, patience, http.StatusOK, http.MethodGet, "/clusters/"+dialer+"/api/v1/namespaces/kube-system/configmaps", nil)
	maker.must(t, http.StatusForbidden, http.MethodGet, "/clusters/"+direct+"/api/v1/nodes", nil)
	// What the hub keeps there is changed on the hub alone.
	maker.becomes(t, patience, http.StatusForbidden, http.MethodDelete, "/clusters/"+dialer+iam+"/clusterrolebindings/fleet-creator", nil)
	onHub := func(args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), product.Program("kubectl"), append([]string{"--kubeconfig", filepath.Join(product.Dir, "kubeconfig")}, args...)...)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	for _, args := range [][]string{{"create", "clusterrole", "story-clusters", "--verb=get,update,patch", "--resource=clusters.cluster.kubesphere.io"},
		{"create", "clusterrolebinding", "story-clusters", "--clusterrole=story-clusters", "--user=story-other"}} {
		if out, err := onHub(args...); err != nil {
			t.Fatal(out)
		}
		t.Cleanup(func() { _, _ = onHub("delete", args[1], args[2]) })
	}
	annotate := func(value string) (string, error) {
		return onHub("--as", "story-other", "annotate", "--overwrite", "--dry-run=server", "clusters.cluster.kubesphere.io", dialer, "kubesphere.io/"+value)
	}
	eventually(t, "who may update Clusters takes the annotation off", func(context.Context) error {
		out, err := annotate("creator-")
		if err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
		return err
	})
	for _, name := range []string{"story-other", "admin"} {
		if out, err := annotate("creator=" + name); err == nil || !strings.Contains(out, "may name nobody but who creates the Cluster") {
			t.Errorf("who may update Clusters makes %s an administrator: %s", name, out)
		}
	}
	a.must(t, http.StatusOK, http.MethodDelete, iam+"/users/"+maker.name, nil)
	eventually(t, "the role goes with the user", func(context.Context) error {
		out, err := at(t, dialer, "get", "clusterrolebindings.iam.kubesphere.io", "-o", "name")
		if err == nil && strings.Contains(out, "fleet-creator") {
			err = fmt.Errorf("there is %s", out)
		}
		return err
	})
}
