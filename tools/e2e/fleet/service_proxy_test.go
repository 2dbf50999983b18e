package fleet

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/tools/loopback"
)

// argument returns the word after another one on the command line of a process.
func argument(t *testing.T, process int, name string) string {
	t.Helper()
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", process))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(line), "\x00"+name+"\x00")
	value, _, found := strings.Cut(after, "\x00")
	if !found {
		t.Fatalf("%q has no %s", line, name)
	}
	return value
}

// serviceAt has the Service ks-apiserver of a member lead to an address. There is a pod that has it, as kube-apiserver wants, which runs nothing.
func serviceAt(t *testing.T, member, address string) (leads, leadsNowhere func()) {
	t.Helper()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	must := func(args ...string) {
		t.Helper()
		if _, err := at(t, member, append([]string{"-n", "kubesphere-system"}, args...)...); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(t.TempDir(), "service.yaml")
	text := fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: ks-apiserver, namespace: kubesphere-system}
spec: {ports: [{name: http, port: 80, targetPort: %[1]s}]}
---
apiVersion: v1
kind: Pod
metadata: {name: ks-apiserver-of-the-test, namespace: kubesphere-system}
spec: {schedulerName: nobody, automountServiceAccountToken: false, containers: [{name: c, image: example/c}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: ks-apiserver-of-the-test, namespace: kubesphere-system, labels: {kubernetes.io/service-name: ks-apiserver}}
addressType: IPv4
ports: [{name: http, port: %[1]s, protocol: TCP}]
endpoints: [{addresses: ["%[2]s"], conditions: {ready: true}, targetRef: {kind: Pod, name: ks-apiserver-of-the-test, namespace: kubesphere-system}}]
`, port, host)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	must("apply", "-f", file)
	t.Cleanup(func() {
		cmd := exec.Command(product.Program("kubectl"), "--kubeconfig", filepath.Join(product.Dir, "members", member, "kubeconfig"), //nolint:noctx // it is over
			"delete", "--ignore-not-found", "--wait=false", "-f", file)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	must("patch", "pod", "ks-apiserver-of-the-test", "--subresource=status", "--type=merge", "-p",
		fmt.Sprintf(`{"status":{"podIP":%q,"podIPs":[{"ip":%q}]}}`, host, host))
	return func() { must("apply", "-f", file) }, func() { must("delete", "endpointslice", "ks-apiserver-of-the-test") }
}

// F10, F18, F29: a member whose Cluster has no address is reached through its kube-apiserver, by services/proxy and with the credential of listed rights: a
// request, a watch and kubectl as by any link. Where the Service leads nowhere, that is said, and all is well again without a hand when it does.
func TestAMemberIsReachedThroughItsKubeAPIServer(t *testing.T) {
	a := admin(t)
	w := newWireAt(t, net.JoinHostPort(loopback.Alias(t), "0"), net.JoinHostPort("127.0.0.1", argument(t, pid(t, direct), "--insecure-port")))
	leads, leadsNowhere := serviceAt(t, direct, w.listener.Addr().String())
	own := redirect(t, "")
	defer func() {
		redirect(t, own)
		w.cut()
		a.becomes(t, patience, http.StatusOK, http.MethodGet, "/clusters/"+direct+"/api/v1/nodes", nil)
	}()
	served := func(when string) {
		t.Helper()
		eventually(t, when, func(ctx context.Context) error {
			w.mu.Lock()
			n := len(w.conns)
			w.mu.Unlock()
			resp, err := a.ask(ctx, http.MethodGet, "/clusters/"+direct+"/api/v1/nodes", nil)
			if err == nil && (resp.Status != http.StatusOK || n == 0) {
				err = fmt.Errorf("%d by %d connections: %.600s", resp.Status, n, resp.Body)
			}
			return err
		})
	}
	served("through its kube-apiserver")

	// From now on it is dialled with the credential that the hub has made itself there.
	eventually(t, "the credential is replaced", func(ctx context.Context) error {
		out, err := exec.CommandContext(ctx, product.Program("kubectl"), "--kubeconfig", filepath.Join(product.Dir, "kubeconfig"), "get",
			"clusters.cluster.kubesphere.io", direct, "-o", "jsonpath={.spec.connection.kubeconfig}").Output()
		if err != nil {
			return err
		}
		kubeconfig, err := base64.StdEncoding.DecodeString(string(out))
		if err == nil && !strings.Contains(string(kubeconfig), "current-context: ks-fleet-hub") {
			err = errors.New("it is the imported one still")
		}
		return err
	})
	w.cut()
	served("with the credential of listed rights")

	of := "/clusters/" + direct + configMaps
	lines, end := events(t, a, of+"?watch=true&fieldSelector=metadata.name=small-one")
	defer end()
	long, large := strings.Repeat("a large one ", 40<<10), configMap("large-one")
	large["data"] = obj{"key": long}
	for name, body := range map[string]obj{"small-one": configMap("small-one"), "large-one": large} {
		a.must(t, http.StatusCreated, http.MethodPost, of, body)
		defer func() { _, _ = a.ask(context.Background(), http.MethodDelete, of+"/"+name, nil) }()
	}
	until(t, lines, "small-one")
	var got struct{ Data map[string]string }
	if err := json.Unmarshal([]byte(a.must(t, http.StatusOK, http.MethodGet, of+"/large-one", nil)), &got); err != nil || got.Data["key"] != long {
		t.Errorf("it comes back with %d bytes, %v", len(got.Data["key"]), err)
	}
	if who, err := through(t, direct, "auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"); err != nil || who != "admin" {
		t.Errorf("it takes the caller for %q, %v", who, err)
	}
	resp, err := a.ask(t.Context(), http.MethodGet, "/clusters/"+direct+"/version", nil)
	if err != nil || resp.Header.Get("X-Kapis-Cluster") != direct {
		t.Errorf("the answer is of %q, %v", resp.Header.Get("X-Kapis-Cluster"), err)
	}

	leadsNowhere()
	w.cut()
	for range lines { // the watch ends
	}
	ready(t, a, direct, "False", "no pod of the Service ks-apiserver in kubesphere-system is ready")
	refused, err := a.ask(t.Context(), http.MethodGet, "/clusters/"+direct+"/api/v1/nodes", nil)
	if err != nil || refused.Status != http.StatusServiceUnavailable || strings.Contains(string(refused.Body), "Unauthorized") {
		t.Errorf("%d %.300s, %v", refused.Status, refused.Body, err)
	}
	leads()
	served("after the Service has led nowhere")
}
