package fleet

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/tools/stack"
)

// plain is a control plane in which no program of ours runs, and never did.
type plain struct{ dir string }

func newPlain(t *testing.T) plain {
	t.Helper()
	dir := filepath.Join(product.Dir, "plain")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	if out, err := exec.CommandContext(ctx, product.Program("dev"), "up", "--dir", dir, "--detach").CombinedOutput(); err != nil {
		t.Fatalf("start a control plane: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command(product.Program("dev"), "down", "--dir", dir).CombinedOutput(); err != nil { //nolint:noctx // the test is over
			t.Errorf("stop a control plane: %v: %s", err, out)
		}
	})
	return plain{dir}
}

// kubectl runs kubectl there, as its administrator.
func (p plain) kubectl(ctx context.Context, input string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, product.Program("kubectl"), append([]string{"--kubeconfig", filepath.Join(p.dir, "kubeconfig")}, args...)...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &errs
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, errs.String())
	}
	return out.String(), nil
}

func (p plain) must(t *testing.T, input string, args ...string) string {
	t.Helper()
	out, err := p.kubectl(t.Context(), input, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// F4, F41, F42: a cluster without a program of ours is served by its kube-apiserver, while its administrator says yes, and within what they listed; users have
// the rights of its own RBAC there; and when its Cluster is deleted, nothing of it is left.
func TestAClusterWithoutOurProgramsIsServed(t *testing.T) {
	const lite = "lite"
	a, ann, bob := admin(t), newUser(t, "lite-ann"), newUser(t, "lite-bob")
	p := newPlain(t)
	kubeconfig, err := os.ReadFile(filepath.Join(p.dir, "kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	c := obj{"apiVersion": "cluster.kubesphere.io/v1alpha1", "kind": "Cluster", "metadata": obj{"name": lite, "annotations": obj{"kapis.dev/lite": "true"}},
		"spec": obj{"enable": true, "connection": obj{"type": "direct", "kubeconfig": kubeconfig}}}
	if text := a.must(t, http.StatusBadRequest, http.MethodPost, kapis+"/validation", c); !strings.Contains(text, "has not said yes") {
		t.Errorf("the check says %s", text)
	}
	a.must(t, http.StatusCreated, http.MethodPost, clusters, c)
	deleted := false
	t.Cleanup(func() {
		if !deleted {
			_, _ = a.ask(context.Background(), http.MethodDelete, clusters+"/"+lite, nil)
		}
	})
	pods := "/clusters/" + lite + "/kapis/resources.kubesphere.io/v1alpha3/namespaces/default/configmaps"
	maps := "/clusters/" + lite + configMaps

	// The administrator has not been asked yet, and nothing is served.
	ready(t, a, lite, "False", "has not said yes")
	a.becomes(t, patience, http.StatusServiceUnavailable, http.MethodGet, maps, nil)
	var file string
	eventually(t, "what the administrator applies is there", func(ctx context.Context) error {
		resp, err := a.ask(ctx, http.MethodGet, kapis+"/"+lite+"/agent/deployment", nil)
		if file = string(resp.Body); err == nil && resp.Status != http.StatusOK {
			err = fmt.Errorf("%d %.300s", resp.Status, file)
		}
		return err
	})
	p.must(t, file, "apply", "-f", "-")
	ready(t, a, lite, "True", "")
	a.must(t, http.StatusOK, http.MethodPost, kapis+"/validation", c)
	a.must(t, http.StatusNotImplemented, http.MethodPost, storeRoutes+"/applications",
		releaseIn(lite, "of-lite", "system-workspace", "default", "none", "none-1", ""))

	// The credential of all rights is gone.
	encoded, err := exec.CommandContext(t.Context(), product.Program("kubectl"), "--kubeconfig", filepath.Join(product.Dir, "kubeconfig"), "get",
		"clusters.cluster.kubesphere.io", lite, "-o", "jsonpath={.spec.connection.kubeconfig}").Output()
	if err != nil {
		t.Fatal(err)
	}
	stored, err := base64.StdEncoding.DecodeString(string(encoded))
	if err != nil || !bytes.Contains(stored, []byte("current-context: ks-fleet-lite")) || bytes.Contains(stored, []byte("client-key-data")) {
		t.Errorf("the kubeconfig is not one of the account alone, %v", err)
	}

	// Nobody holds anything there but by the cluster's own RBAC: not even who administers the hub.
	a.becomes(t, patience, http.StatusForbidden, http.MethodGet, maps, nil)
	ann.must(t, http.StatusForbidden, http.MethodGet, maps, nil)
	p.must(t, "", "create", "rolebinding", "ann", "--clusterrole=edit", "--user=lite-ann", "-n", "default")
	ann.becomes(t, patience, http.StatusOK, http.MethodGet, maps, nil)
	ann.must(t, http.StatusCreated, http.MethodPost, maps, configMap("of-ann"))
	ann.becomes(t, patience, http.StatusOK, http.MethodGet, pods+"/of-ann", nil)
	if text := ann.must(t, http.StatusOK, http.MethodGet, pods+"?sortBy=name&fields=.metadata.name&limit=1&name=of-", nil); !strings.Contains(text, `"of-ann"`) ||
		!strings.Contains(text, `"totalItems":1`) {
		t.Errorf("the list is %s", text)
	}
	ann.must(t, http.StatusForbidden, http.MethodGet, "/clusters/"+lite+"/api/v1/namespaces/kube-system/configmaps", nil)
	ann.must(t, http.StatusForbidden, http.MethodGet, "/clusters/"+lite+"/kapis/resources.kubesphere.io/v1alpha3/configmaps", nil)
	bob.must(t, http.StatusForbidden, http.MethodGet, maps, nil)

	// What the administrator did not list is refused, whatever the user may do there: no Secret, and no role.
	ann.must(t, http.StatusForbidden, http.MethodGet, "/clusters/"+lite+"/api/v1/namespaces/default/secrets", nil)
	p.must(t, "", "create", "clusterrolebinding", "ann", "--clusterrole=cluster-admin", "--user=lite-ann")
	ann.becomes(t, patience, http.StatusOK, http.MethodGet, "/clusters/"+lite+"/api/v1/namespaces/kube-system/configmaps", nil)
	ann.must(t, http.StatusForbidden, http.MethodGet, "/clusters/"+lite+"/api/v1/namespaces/default/secrets", nil)
	ann.must(t, http.StatusForbidden, http.MethodPost, "/clusters/"+lite+"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", obj{
		"metadata": obj{"name": "more"},
		"roleRef":  obj{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}})
	if text := ann.must(t, http.StatusNotImplemented, http.MethodGet, "/clusters/"+lite+"/kapis/iam.kubesphere.io/v1beta1/users", nil); !strings.Contains(text,
		"no program of ours runs there") {
		t.Errorf("it says %s", text)
	}
	list := "/fleet/kapis/resources.kubesphere.io/v1alpha3/namespaces/default/configmaps?memberTimeout=10s&clusters=" + lite + "&name=of-"
	eventually(t, "the list over all clusters has it", func(ctx context.Context) error {
		resp, err := ann.ask(ctx, http.MethodGet, list, nil)
		if err == nil && (resp.Status != http.StatusOK || !strings.Contains(string(resp.Body), `"kapis.dev/cluster":"lite"`)) {
			err = fmt.Errorf("%d %.600s", resp.Status, resp.Body)
		}
		return err
	})

	// The yes is taken back.
	p.must(t, "", "-n", "kubesphere-system", "delete", "configmap", "ks-fleet-lite")
	ann.becomes(t, patience, http.StatusServiceUnavailable, http.MethodGet, maps, nil)
	ready(t, a, lite, "False", "has not said yes")
	p.must(t, file, "apply", "-f", "-")
	ready(t, a, lite, "True", "")
	ann.becomes(t, patience, http.StatusOK, http.MethodGet, maps, nil)
	end := twoReplicasServe(t, a, ann, lite, pods, maps)

	a.must(t, http.StatusOK, http.MethodDelete, clusters+"/"+lite, nil)
	deleted = true
	eventually(t, "nothing of it is left", func(ctx context.Context) error {
		left, err := p.kubectl(ctx, "", "get", "configmap,serviceaccount,role,rolebinding,clusterrole,clusterrolebinding", "-A", "-o", "name")
		if err == nil && strings.Contains(left, "ks-fleet-lite") {
			err = fmt.Errorf("there is %s", left)
		}
		return err
	})
	end()
	if out := p.must(t, "", "-n", "default", "get", "configmap", "of-ann", "-o", "name"); !strings.Contains(out, "of-ann") {
		t.Errorf("what a user made there is gone: %s", out)
	}
	installs(t, a, p, kubeconfig)
}

// twoReplicasServe starts another replica of the hub, which serves a lite member by itself: nothing is written for that, and each change comes once. What it
// returns ends the replica.
func twoReplicasServe(t *testing.T, a, ann user, name, list, maps string) (end func()) {
	t.Helper()
	// stored is what the Cluster is reached by, and what its conditions say.
	stored := func() string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), product.Program("kubectl"), "--kubeconfig", filepath.Join(product.Dir, "kubeconfig"), "get",
			"clusters.cluster.kubesphere.io", name, "-o", "jsonpath={.spec.connection.kubeconfig} {.status.conditions[*].lastTransitionTime}").Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	before := stored()
	other, err := product.Replica(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the other replica has a link of its own", func(ctx context.Context) error {
		resp, err := other.Do(ctx, stack.Request{Path: "/metrics", Token: a.token})
		if err == nil && !strings.Contains(string(resp.Body), `ks_member_links{cluster="`+name+`"} 1`) {
			err = fmt.Errorf("%d, and no link", resp.Status)
		}
		return err
	})
	eventually(t, "the other replica serves it", func(ctx context.Context) error {
		resp, err := other.Do(ctx, stack.Request{Path: list, Token: ann.token})
		if err == nil && resp.Status != http.StatusOK {
			err = fmt.Errorf("%d %.300s", resp.Status, resp.Body)
		}
		return err
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	lines, err := streamOf(ctx, other.URL+list+"?watch=true", ann.token)
	if err != nil {
		t.Fatal(err)
	}
	ann.must(t, http.StatusCreated, http.MethodPost, maps, configMap("seen-once"))
	ann.must(t, http.StatusCreated, http.MethodPost, maps, configMap("seen-after"))
	seen := 0
	for line := range lines {
		if strings.Contains(line, `"seen-once"`) {
			seen++
		}
		if strings.Contains(line, `"seen-after"`) {
			break
		}
	}
	if seen != 1 {
		t.Errorf("a change comes %d times", seen)
	}
	if after := stored(); after != before {
		t.Errorf("a replica that has come has changed the Cluster: it was\n%s, and is\n%s", before, after)
	}
	return other.Kill
}

// installs has the hub install our programs in a cluster, as the annotation of its Cluster says, and says so once that is done.
func installs(t *testing.T, a user, p plain, kubeconfig []byte) {
	t.Helper()
	const name = "installed"
	a.must(t, http.StatusCreated, http.MethodPost, clusters, obj{"apiVersion": "cluster.kubesphere.io/v1alpha1", "kind": "Cluster",
		"metadata": obj{"name": name, "annotations": obj{"kubesphere.io/ks-core-action": "install"}},
		"spec":     obj{"enable": true, "connection": obj{"type": "direct", "kubeconfig": kubeconfig}}})
	t.Cleanup(func() { _, _ = a.ask(context.Background(), http.MethodDelete, clusters+"/"+name, nil) })
	within(t, 5*time.Minute, "what is to be done is done", func(ctx context.Context) error {
		resp, err := a.ask(ctx, http.MethodGet, clusters+"/"+name, nil)
		if err == nil && strings.Contains(string(resp.Body), "ks-core-action") {
			err = fmt.Errorf("%.2000s", resp.Body)
		}
		return err
	})
	ready(t, a, name, "False", "has been invited")
	out := p.must(t, "", "-n", "kubesphere-system", "get", "deployment,service,secret", "-o", "name")
	for _, want := range []string{"deployment.apps/ks-apiserver", "deployment.apps/ks-controller-manager", "service/ks-apiserver", "secret/kubesphere-config"} {
		if !strings.Contains(out, want) {
			t.Errorf("there is no %s: %s", want, out)
		}
	}
	config := p.must(t, "", "-n", "kubesphere-system", "get", "secret", "kubesphere-config", "-o", `go-template={{index .data "kubesphere.yaml" | base64decode}}`)
	if !strings.Contains(config, "clusterRole: member") || strings.Contains(config, "token") {
		t.Errorf("the configuration is %s", config)
	}
	// What is there is not installed over.
	p.must(t, "", "-n", "kubesphere-system", "label", "deployment", "ks-apiserver", "by=hand")
	a.patch(t, clusters+"/"+name, `{"metadata":{"annotations":{"kubesphere.io/ks-core-action":"install"}}}`)
	eventually(t, "there is nothing to do", func(ctx context.Context) error {
		resp, err := a.ask(ctx, http.MethodGet, clusters+"/"+name, nil)
		if err == nil && strings.Contains(string(resp.Body), "ks-core-action") {
			err = fmt.Errorf("%.2000s", resp.Body)
		}
		return err
	})
	a.patch(t, clusters+"/"+name, `{"metadata":{"annotations":{"kubesphere.io/ks-core-action":"remove"}}}`)
	ready(t, a, name, "False", "not install, upgrade or reinstall")
}

// ready waits until the condition Ready of a Cluster has a status and a message.
func ready(t *testing.T, a user, name, status, message string) {
	t.Helper()
	eventually(t, name+" is ready: "+status, func(ctx context.Context) error {
		resp, err := a.ask(ctx, http.MethodGet, clusters+"/"+name, nil)
		if err != nil {
			return err
		}
		var o struct {
			Status struct {
				Conditions []struct{ Type, Status, Message string }
			}
		}
		if err := json.Unmarshal(resp.Body, &o); err != nil {
			return err
		}
		for _, c := range o.Status.Conditions {
			if c.Type == "Ready" && c.Status == status && strings.Contains(c.Message, message) {
				return nil
			}
		}
		return fmt.Errorf("%+v", o.Status.Conditions)
	})
}
