package fleet

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// onHub runs kubectl at the hub's kube-apiserver, as its administrator.
func onHub(ctx context.Context, args ...string) (string, error) {
	return kubectlWith(ctx, filepath.Join(product.Dir, "kubeconfig"), args...)
}

func kubectlWith(ctx context.Context, kubeconfig string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, product.Program("kubectl"), append([]string{"--kubeconfig", kubeconfig}, args...)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, errs.String())
	}
	return out.String(), nil
}

var clusterToken = regexp.MustCompile(`ksc_[A-Za-z0-9_.-]+`)

// F47: a program that reads the kubeconfig in the Cluster of a member that dials reaches the member by it, through the hub, and does there what an
// administrator has bound its user to; before that, at the hub, and in other members it may do nothing. Nobody else reads it.
func TestAMemberThatDialsHasAKubeconfig(t *testing.T) {
	a := admin(t)
	var text []byte
	read := func(other string) {
		t.Helper()
		eventually(t, "the Cluster has a kubeconfig", func(ctx context.Context) error {
			out, err := onHub(ctx, "get", "clusters.cluster.kubesphere.io", dialer, "-o", "jsonpath={.spec.connection.kubeconfig}")
			if err != nil {
				return err
			}
			if text, err = base64.StdEncoding.DecodeString(out); err == nil && (!clusterToken.Match(text) || other != "" && bytes.Contains(text, []byte(other))) {
				err = errors.New("it has none, or the one before")
			}
			return err
		})
	}
	read("")
	token := clusterToken.FindString(string(text))
	if token == "" || !strings.Contains(string(text), "/clusters/"+dialer+"\n") {
		t.Fatal("the kubeconfig does not lead through the hub")
	}
	for _, path := range []string{clusters + "/" + dialer, clusters, "/kapis/resources.kubesphere.io/v1alpha3/clusters",
		"/kapis/tenant.kubesphere.io/v1beta1/clusters", clusters + "?watch=true&timeoutSeconds=1"} {
		if shown := a.must(t, http.StatusOK, http.MethodGet, path, nil); strings.Contains(shown, token) || strings.Contains(shown, `"kubeconfig"`) {
			t.Errorf("%s shows the kubeconfig", path)
		}
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	write := func() {
		t.Helper()
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write()
	u, nodes := user{"kubeconfig:" + dialer, token}, "/clusters/"+dialer+"/kapis/resources.kubesphere.io/v1alpha3/nodes"
	for _, path := range []string{nodes, "/api/v1/nodes", "/version", "/clusters/" + direct + "/api/v1/nodes", "/clusters/nowhere/api/v1/nodes",
		"/fleet/kapis/resources.kubesphere.io/v1alpha3/nodes", clusters, iam + "/users"} {
		u.must(t, http.StatusForbidden, http.MethodGet, path, nil)
	}
	bindings := "/clusters/" + dialer + iam + "/clusterrolebindings"
	a.becomes(t, patience, http.StatusCreated, http.MethodPost, bindings, named("ClusterRoleBinding", "kubeconfig", obj{
		"roleRef":  obj{"apiGroup": "iam.kubesphere.io", "kind": "ClusterRole", "name": "cluster-viewer"},
		"subjects": []obj{{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": u.name}}}))
	u.becomes(t, patience, http.StatusOK, http.MethodGet, nodes, nil) // the hub asks members every ten seconds whom they bind
	kubectl := func(when string) {
		t.Helper()
		eventually(t, when, func(ctx context.Context) error { // a right counts at the member's kube-apiserver a moment later
			out, err := kubectlWith(ctx, file, "get", "nodes", "-o", "name")
			if err == nil && strings.Count(out, "node/") != 3 {
				err = fmt.Errorf("it has %s", out)
			}
			return err
		})
	}
	kubectl("kubectl reaches the member")
	for _, path := range []string{"/api/v1/nodes", "/clusters/" + direct + "/api/v1/nodes", "/fleet/kapis/resources.kubesphere.io/v1alpha3/nodes", clusters} {
		u.must(t, http.StatusForbidden, http.MethodGet, path, nil)
	}
	u.must(t, http.StatusForbidden, http.MethodDelete, "/clusters/"+dialer+"/api/v1/nodes/none", nil)

	// An update that does not name it keeps it; who empties it ends the token, and gets the next one.
	patch := func(body string) {
		t.Helper()
		if _, err := onHub(t.Context(), "patch", "clusters.cluster.kubesphere.io", dialer, "--type=merge", "--patch", body); err != nil {
			t.Fatal(err)
		}
	}
	patch(`{"spec":{"provider":"somebody","connection":{"externalKubernetesAPIEndpoint":"https://192.0.2.1"}}}`)
	u.must(t, http.StatusOK, http.MethodGet, nodes, nil)
	patch(`{"spec":{"provider":"","connection":{"externalKubernetesAPIEndpoint":"","kubeconfig":"Cg=="}}}`)
	read(token)
	u.becomes(t, patience, http.StatusUnauthorized, http.MethodGet, nodes, nil)
	write()
	kubectl("the next one counts")
	a.must(t, http.StatusOK, http.MethodDelete, bindings+"/kubeconfig", nil)
	u.token = clusterToken.FindString(string(text))
	u.becomes(t, patience, http.StatusForbidden, http.MethodGet, nodes, nil)
}
