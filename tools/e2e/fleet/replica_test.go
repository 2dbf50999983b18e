package fleet

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/tools/stack"
)

// askReplica asks another replica of the hub.
func askReplica(t *testing.T, r *stack.Replica, u user, method, path string, body []byte) stack.Response {
	t.Helper()
	resp, err := r.Do(t.Context(), stack.Request{Method: method, Path: path, Token: u.token, Body: body})
	if err != nil {
		t.Fatalf("%s %s at another replica: %v", method, path, err)
	}
	return resp
}

// F4, F5: a replica of the hub that a member is not linked to serves the member all the same, by one that it is, and its death costs the others nothing.
// The members dial, or are dialled at, the first replica's address.
func TestEveryReplicaServesEveryMember(t *testing.T) {
	a := admin(t)
	for end, stop := range map[string]func(*stack.Replica){
		"Killed": (*stack.Replica).Kill,
		"Stopped": func(r *stack.Replica) {
			if err := r.Stop(); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(end, func(t *testing.T) {
			other, err := product.Replica(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			stopped := false
			defer func() {
				if !stopped {
					other.Kill()
				}
			}()
			for _, member := range members {
				eventually(t, "the other replica serves "+member, func(ctx context.Context) error {
					resp, err := other.Do(ctx, stack.Request{Path: "/clusters/" + member + "/api/v1/nodes", Token: a.token})
					if err == nil && resp.Status != http.StatusOK {
						err = fmt.Errorf("%d %.600s", resp.Status, resp.Body)
					}
					return err
				})
				name := strings.ToLower("replica-" + end + "-" + member)
				raw, err := json.Marshal(configMap(name))
				if err != nil {
					t.Fatal(err)
				}
				if resp := askReplica(t, other, a, http.MethodPost, "/clusters/"+member+configMaps, raw); resp.Status != http.StatusCreated ||
					resp.Header.Get("X-Kapis-Cluster") != member {
					t.Errorf("a write at %s: %d %s", member, resp.Status, resp.Body)
				}
				if _, err := at(t, member, "-n", "default", "get", "configmap", name); err != nil {
					t.Error(err)
				}
				list := "/clusters/" + member + "/kapis/resources.kubesphere.io/v1alpha3/namespaces/default/configmaps"
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				lines, err := streamOf(ctx, other.URL+list+"?watch=true", a.token)
				if err != nil {
					t.Fatal(err)
				}
				a.must(t, http.StatusCreated, http.MethodPost, "/clusters/"+member+configMaps, configMap(name+"-2"))
				until(t, lines, name+"-2")
				cancel()
			}
			stop(other)
			stopped = true
			for _, member := range members {
				a.must(t, http.StatusOK, http.MethodGet, "/clusters/"+member+"/api/v1/nodes", nil)
				if text := a.must(t, http.StatusOK, http.MethodGet, clusters+"/"+member, nil); strings.Contains(text, `"NoLink"`) {
					t.Errorf("a replica that it was not linked to has recorded that %s is gone: %s", member, text)
				}
			}
		})
	}
}

// F10, F29: the credential that a direct member was imported with is replaced by one of listed rights, by which everything goes on; when it ends is said.
func TestAnImportedCredentialIsReplaced(t *testing.T) {
	a := admin(t)
	eventually(t, "the credential is replaced", func(ctx context.Context) error {
		out, err := exec.CommandContext(ctx, product.Program("kubectl"), "--kubeconfig", filepath.Join(product.Dir, "kubeconfig"), "get",
			"clusters.cluster.kubesphere.io", direct, "-o", "jsonpath={.spec.connection.kubeconfig}").Output()
		if err != nil {
			return err
		}
		kubeconfig, err := base64.StdEncoding.DecodeString(string(out))
		if err == nil && (!strings.Contains(string(kubeconfig), "current-context: ks-fleet-hub") || strings.Contains(string(kubeconfig), "client-key")) {
			err = errors.New("it is the imported one still")
		}
		return err
	})
	eventually(t, "when it ends is said", func(context.Context) error {
		var c struct {
			Status struct {
				Conditions []struct{ Type, Status, Message string }
			}
		}
		if err := json.Unmarshal([]byte(a.must(t, http.StatusOK, http.MethodGet, clusters+"/"+direct, nil)), &c); err != nil {
			return err
		}
		for _, o := range c.Status.Conditions {
			if ends, err := time.Parse(time.RFC3339, o.Message); o.Type == "KubeConfigCertExpiresInSevenDays" && err == nil && time.Until(ends) < 31*24*time.Hour {
				return nil
			}
		}
		return fmt.Errorf("the conditions are %v", c.Status.Conditions)
	})
	who := "system:serviceaccount:kubesphere-system:ks-fleet-hub"
	for right, want := range map[string]string{"get secrets": "no", "create clusterrolebindings.rbac.authorization.k8s.io": "no", "impersonate users": "no",
		"get pods": "no", "update configmaps/ks-fleet-invitation": "yes"} {
		out, _ := at(t, direct, append([]string{"-n", "kubesphere-system", "--as", who, "auth", "can-i"}, strings.Fields(right)...)...)
		if strings.TrimSpace(out) != want {
			t.Errorf("%s: %s, want %s", right, out, want)
		}
	}
	a.must(t, http.StatusOK, http.MethodGet, "/clusters/"+direct+"/version", nil)
}

// F30: nothing that is written into a Cluster waits for the cluster: one that is not there is made, changed, said to be so with the cause, and deleted.
func TestAClusterThatIsNotThereIsWrittenAndDeleted(t *testing.T) {
	a := admin(t)
	kubeconfig := `{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{"name":"c","context":{"cluster":"c","user":"c"}}],` +
		`"clusters":[{"name":"c","cluster":{"server":"https://127.0.0.1:1"}}],"users":[{"name":"c","user":{"token":"canary"}}]}`
	a.must(t, http.StatusCreated, http.MethodPost, clusters, obj{"apiVersion": "cluster.kubesphere.io/v1alpha1", "kind": "Cluster",
		"metadata": obj{"name": "vanished"}, "spec": obj{"enable": true, "connection": obj{"type": "direct", "kubeconfig": []byte(kubeconfig)}}})
	eventually(t, "its condition names the cause", func(context.Context) error {
		text := a.must(t, http.StatusOK, http.MethodGet, clusters+"/vanished", nil)
		if strings.Contains(text, "canary") {
			t.Fatalf("the credential is shown: %s", text)
		}
		if !strings.Contains(text, "is not reached from here") {
			return fmt.Errorf("%.2000s", text)
		}
		return nil
	})
	a.must(t, http.StatusServiceUnavailable, http.MethodGet, "/clusters/vanished/api/v1/nodes", nil)
	resp, err := product.Do(t.Context(), stack.Request{Method: http.MethodPatch, Path: clusters + "/vanished", Token: a.token,
		Body: []byte(`{"metadata":{"labels":{"cluster.kubesphere.io/group":"x"}}}`), Header: http.Header{"Content-Type": {"application/merge-patch+json"}}})
	if err != nil || resp.Status != http.StatusOK {
		t.Errorf("a change: %d %s, %v", resp.Status, resp.Body, err)
	}
	a.must(t, http.StatusOK, http.MethodDelete, clusters+"/vanished", nil)
	a.becomes(t, patience, http.StatusNotFound, http.MethodGet, clusters+"/vanished", nil)
	a.becomes(t, patience, http.StatusBadRequest, http.MethodGet, "/clusters/vanished/api/v1/nodes", nil)
}

// F33: what runs in a member, and whether the hub works with it, is said.
func TestTheReleaseOfAMemberIsSaid(t *testing.T) {
	a := admin(t)
	for _, member := range members {
		eventually(t, "the conditions of "+member, func(context.Context) error {
			text := a.must(t, http.StatusOK, http.MethodGet, clusters+"/"+member, nil)
			for _, want := range []string{`"VersionSupported"`, `"Supported"`, `"Synced"`, `"kubernetesVersion":"v`, `"nodeCount":3`, `"configz":{"auditing":`} {
				if !strings.Contains(text, want) {
					return fmt.Errorf("no %s in %.3000s", want, text)
				}
			}
			return nil
		})
	}
}
