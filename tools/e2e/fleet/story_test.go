package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
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

	// The Cluster of before had a token that was used; the name is free.
	a.must(t, http.StatusCreated, http.MethodPost, clusters, obj{"apiVersion": "cluster.kubesphere.io/v1alpha1", "kind": "Cluster",
		"metadata": obj{"name": dialer}, "spec": obj{"enable": true, "connection": obj{"type": "proxy"}}})
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
}
