package e2e

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/tools/loopback"
)

// kubectlAt is a command at kube-apiserver itself, as the administrator of the cluster.
func kubectlAt(ctx context.Context, stdin string, args ...string) (string, error) {
	args = append([]string{"--kubeconfig", filepath.Join(product.Dir, "kubeconfig"), "--cache-dir", filepath.Join(product.Dir, "cluster-cache")}, args...)
	cmd := exec.CommandContext(ctx, product.Program("kubectl"), args...)
	var stdout, stderr strings.Builder
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args[4:], " "), err, clip(stderr.String()))
	}
	return stdout.String(), nil
}

func mustKubectlAt(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	out, err := kubectlAt(t.Context(), stdin, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

const queryAPI = "/apis/query.kapis.dev/v1alpha1"

// aggregatedStack is a replica of ks-apiserver with the aggregated API, at an address that kube-apiserver reaches, and a
// ks-controller-manager that tells kube-apiserver of it.
type aggregatedStack struct {
	address string // host and port
	audit   string // the file of the replica's audit
	kill    func() // of the replica, by SIGKILL
}

func newAggregatedStack(t *testing.T) *aggregatedStack {
	t.Helper()
	own := reservedPort(t)
	address := balance(t, loopback.Alias(t), net.JoinHostPort("127.0.0.1", own))
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	config, audit := filepath.Join(t.TempDir(), "kubesphere.yaml"), filepath.Join(t.TempDir(), "audit.log")
	text, err := os.ReadFile(filepath.Join(product.Dir, "kubesphere.yaml"))
	if err == nil {
		err = os.WriteFile(config, append(text, "aggregated:\n  enabled: true\nauditing:\n  enable: true\n  auditLevel: RequestResponse\n"+
			"  logOptions:\n    path: "+audit+"\n"...), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	rbac := filepath.Join("..", "..", "config", "aggregated", "rbac.yaml")
	mustKubectlAt(t, "", "apply", "-f", rbac)
	t.Cleanup(func() { _, _ = kubectlAt(context.Background(), "", "delete", "--ignore-not-found", "-f", rbac) })
	// The Service of config/aggregated, without its selector: there are no pods here.
	service := fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: ks-apiserver-aggregated, namespace: kubesphere-system}
spec: {ports: [{name: https, port: 9443, targetPort: %[1]s}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: ks-apiserver-aggregated, namespace: kubesphere-system, labels: {kubernetes.io/service-name: ks-apiserver-aggregated}}
addressType: IPv4
ports: [{name: https, port: %[1]s, protocol: TCP}]
endpoints: [{addresses: ["%[2]s"], conditions: {ready: true}}]
`, port, host)
	mustKubectlAt(t, service, "apply", "-f", "-")
	t.Cleanup(func() { _, _ = kubectlAt(context.Background(), service, "delete", "--ignore-not-found", "-f", "-") })
	t.Cleanup(func() {
		_, _ = kubectlAt(context.Background(), "", "delete", "--ignore-not-found", "apiservice", "v1alpha1.query.kapis.dev")
	})
	replica, err := product.LoggedReplica(t.Context(), os.Stderr, "--config", config, "--secure-port", own)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = replica.Stop() })
	manager, err := product.Manager("--config", config, "--controllers", "apiservice")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = manager.Stop() })
	s := &aggregatedStack{address: address, audit: audit, kill: replica.Kill}
	eventually(t, "kube-apiserver passes the API on", func(ctx context.Context) error {
		out, err := kubectlAt(ctx, "", "get", "--raw", queryAPI+"/namespaces?limit=1")
		if err == nil && !strings.Contains(out, `"kind":"NamespaceList"`) {
			err = errors.New(clip(out))
		}
		return err
	})
	return s
}

// direct sends a request to the replica's TLS port, by a TLS name and without a certificate.
func (s *aggregatedStack) direct(t *testing.T, name, path string, headers ...string) (int, string) {
	t.Helper()
	tr := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{ServerName: name, InsecureSkipVerify: true}}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+s.address+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range headers {
		key, value, _ := strings.Cut(h, ": ")
		r.Header.Add(key, value)
	}
	res, err := tr.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

// as returns the arguments of a request that kube-apiserver passes on for another user.
func as(name, path string) []string { return []string{"get", "--as", name, "--raw", path} }

// With the kubeconfig of the cluster alone, people ask the query engine through kube-apiserver, and see what kube-apiserver lets them see.
func TestAggregatedQueriesThroughKubeAPIServer(t *testing.T) {
	before := mustKubectlAt(t, "", "get", "pods,services", "-A", "-o", "name")
	ns, other := newNamespace(t), newNamespace(t)
	pod := func(ns, name string) {
		mustKubectlAt(t, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"`+name+`","namespace":"`+ns+
			`","labels":{"app":"aggregated"}},"spec":{"containers":[{"name":"c","image":"example/c"}]}}`, "create", "-f", "-")
	}
	pod(ns, "b")
	pod(ns, "a")
	pod(other, "c")
	mustKubectlAt(t, "", "create", "secret", "generic", "-n", ns, "s", "--from-literal=k=canary-of-a-secret")
	s := newAggregatedStack(t)

	t.Run("the parameters of docs/queries.md", func(t *testing.T) { // O30
		eventually(t, "pods are listed", func(ctx context.Context) error {
			out, err := kubectlAt(ctx, "", "get", "--raw", queryAPI+"/pods?labelSelector=app%3Daggregated&sortBy=name&limit=2&facets=.metadata.namespace")
			if err != nil {
				return err
			}
			l := decode[struct {
				list
				Facets any
			}](t, out)
			if names := l.names(); !slices.Equal(names, []string{"c", "b"}) || *l.TotalItems != 3 || l.Facets == nil || l.Metadata.Continue == "" {
				return fmt.Errorf("got %v: %s", names, clip(out))
			}
			return nil
		})
		out := mustKubectlAt(t, "", "get", "--raw", queryAPI+"/namespaces/"+ns+"/pods?cel=object.metadata.name%3D%3D%27a%27")
		if l := decode[list](t, out); !slices.Equal(l.names(), []string{"a"}) {
			t.Errorf("got %s", clip(out))
		}
	})
	t.Run("kubectl get", func(t *testing.T) { // O34
		var mine string
		eventually(t, "kube-apiserver's discovery has the group", func(ctx context.Context) (err error) { // a moment after it passes requests on
			mine, err = kubectlAt(ctx, "", "get", "pods.query.kapis.dev", "-A", "-l", "app=aggregated", "-o", "name", "--chunk-size=1")
			return err
		})
		if want := "pod/a\npod/b\npod/c\n"; strings.Count(mine, "\n") != 3 || !sameLines(mine, want) {
			t.Errorf("got %q, want %q", mine, want)
		}
		table := mustKubectlAt(t, "", "get", "pods.query.kapis.dev", "-n", ns, "--field-selector", "metadata.name=b")
		if !strings.Contains(table, "NAME") || !strings.Contains(table, "AGE") || !strings.Contains(table, "b ") || strings.Contains(table, "\na ") {
			t.Errorf("got %s", table)
		}
		if out := mustKubectlAt(t, "", "get", "pods.query.kapis.dev", "-n", ns, "a", "-o", "jsonpath={.apiVersion} {.kind}"); out != "v1 Pod" {
			t.Errorf("got %s", out)
		}
	})
	t.Run("kubectl get prints our tables", func(t *testing.T) { // O33
		mustKubectlAt(t, tableObjects, "apply", "-n", ns, "-f", "-")
		t.Cleanup(func() {
			_, _ = kubectlAt(context.Background(), tableObjects, "delete", "-n", ns, "--ignore-not-found", "-f", "-")
		})
		for _, kind := range []string{"pods", "configmaps", "secrets", "services", "endpointslices", "deployments", "replicasets", "jobs", "cronjobs",
			"persistentvolumeclaims", "nodes", "namespaces", "roles", "rolebindings"} {
			theirs := kind
			if strings.HasPrefix(kind, "role") {
				theirs += ".rbac.authorization.k8s.io"
			}
			eventually(t, kind+" are shown as kube-apiserver shows them", func(ctx context.Context) error {
				mine, err := kubectlAt(ctx, "", "get", kind+".query.kapis.dev", "-n", ns, "-o", "wide")
				if err != nil {
					return err
				}
				core, err := kubectlAt(ctx, "", "get", theirs, "-n", ns, "-o", "wide")
				if err == nil && (withoutChanges(mine) != withoutChanges(core) || core == "") {
					err = fmt.Errorf("got\n%s, want\n%s", mine, core)
				}
				return err
			})
		}
	})
	t.Run("kubectl ks get, through either API", func(t *testing.T) { // O33
		for _, door := range []struct{ name, kubeconfig string }{
			{"aggregated", filepath.Join(product.Dir, "kubeconfig")}, {"kapis", filepath.Join(product.Dir, "ks.kubeconfig")},
		} {
			eventually(t, "pods are listed through "+door.name, func(ctx context.Context) error {
				cmd := exec.CommandContext(ctx, product.Program("kubectl-ks"), "get", "pods", "-n", ns, "-l", "app=aggregated", "--sort-by=name", "--desc",
					"--facets=metadata.namespace", "--limit=1", "--through="+door.name, "--kubeconfig="+door.kubeconfig)
				out, err := cmd.Output()
				text := string(out)
				if err == nil && (!strings.HasPrefix(text, "NAME   READY   STATUS") || !strings.Contains(text, "\nb ") ||
					strings.Contains(text, "\na ") || !strings.Contains(text, ns+"   2\n")) {
					err = errors.New(clip(text))
				}
				return err
			})
		}
	})
	t.Run("a Query", func(t *testing.T) { // O30
		out := mustKubectlAt(t, "apiVersion: query.kapis.dev/v1alpha1\nkind: Query\nmetadata: {generateName: q-}\nspec: {resource: pods, namespace: "+ns+
			", sortBy: [name]}\n", "create", "-f", "-", "-o", "json")
		q := decode[struct{ Status list }](t, out)
		if !slices.Equal(q.Status.names(), []string{"b", "a"}) {
			t.Errorf("got %s", clip(out))
		}
	})
	t.Run("the real kind's right decides", func(t *testing.T) { // O30, O32
		ann := unique("ann")
		for _, path := range []string{"/pods", "/namespaces/" + ns + "/pods", "/namespaces/" + ns + "/secrets", "/namespaces", "/nodes",
			"/namespaces/" + ns + "/pods?watch=true", "/namespaces/" + ns + "/secrets/s"} {
			if out, err := kubectlAt(t.Context(), "", as(ann, queryAPI+path)...); err == nil || !strings.Contains(err.Error(), "orbidden") {
				t.Errorf("%s: %v %s", path, err, clip(out))
			}
		}
		if out, err := kubectlAt(t.Context(), "apiVersion: query.kapis.dev/v1alpha1\nkind: Query\nspec: {resource: pods}\n", "create", "--as", ann, "-f", "-",
			"-o", "json"); err == nil || !strings.Contains(err.Error(), "orbidden") {
			t.Errorf("%v %s", err, clip(out))
		}
		mustKubectlAt(t, "", "create", "role", "-n", ns, ann, "--verb=list", "--resource=pods")
		mustKubectlAt(t, "", "create", "rolebinding", "-n", ns, ann, "--role="+ann, "--user="+ann)
		eventually(t, "the role counts", func(ctx context.Context) error {
			_, err := kubectlAt(ctx, "", as(ann, queryAPI+"/namespaces/"+ns+"/pods")...)
			return err
		})
		for _, path := range []string{"/pods", "/namespaces/" + other + "/pods", "/namespaces/" + ns + "/secrets", "/namespaces/" + ns + "/pods/a"} {
			if out, err := kubectlAt(t.Context(), "", as(ann, queryAPI+path)...); err == nil {
				t.Errorf("%s: %s", path, clip(out))
			}
		}
		name := unique("member")
		newUser(t, name)
		role(t, ns, "reader", rule{[]string{""}, []string{"pods"}, []string{"get", "list", "watch"}})
		bind(t, ns, "reader", map[string]any{"kind": "User", "name": name})
		eventually(t, "a member's part is listed", func(ctx context.Context) error {
			out, err := kubectlAt(ctx, "", as(name, queryAPI+"/pods?sortBy=name&ascending=true")...)
			if err != nil {
				return err
			}
			if l := decode[list](t, out); !slices.Equal(l.names(), []string{"a", "b"}) {
				return fmt.Errorf("got %v", l.names())
			}
			return nil
		})
	})
	t.Run("data of Secrets", func(t *testing.T) { // O30
		if out := mustKubectlAt(t, "", "get", "--raw", queryAPI+"/secrets"); strings.Contains(out, "Y2FuYXJ5") || !strings.Contains(out, `"name":"s"`) {
			t.Errorf("a list of the cluster has data: %s", clip(out))
		}
		if out := mustKubectlAt(t, "", "get", "--raw", queryAPI+"/namespaces/"+ns+"/secrets"); !strings.Contains(out, "Y2FuYXJ5") {
			t.Errorf("a list of the namespace has none: %s", clip(out))
		}
	})
	t.Run("nobody but the front proxy names users", func(t *testing.T) { // O29
		const own = "ks-apiserver-aggregated.kubesphere-system.svc"
		forged := []string{"X-Remote-User: root", "X-Remote-Group: system:masters", "X-Remote-Group: system:authenticated"}
		token := "Authorization: Bearer " + admin(t).token
		for _, h := range [][]string{forged, {token}, append([]string{token}, forged...), nil} {
			if code, body := s.direct(t, own, queryAPI+"/secrets", h...); code != http.StatusUnauthorized {
				t.Errorf("%q: %d %s", h, code, clip(body))
			}
		}
		if code, body := s.direct(t, "127.0.0.1", "/api/v1/secrets", forged...); code != http.StatusUnauthorized && code != http.StatusForbidden {
			t.Errorf("the ordinary chain believes it: %d %s", code, clip(body))
		}
		if code, body := s.direct(t, "127.0.0.1", "/api/v1/namespaces/"+ns+"/secrets/s", token); code != http.StatusOK {
			t.Errorf("the ordinary chain: %d %s", code, clip(body))
		}
	})
	t.Run("what comes through kube-apiserver is recorded", func(t *testing.T) { s.isAudited(t, ns) }) // O14, O20
	t.Run("kubectl is as before", func(t *testing.T) {                                                // O34, O37
		mustKubectlAt(t, "", "api-resources", "-o", "name")
		if out := mustKubectlAt(t, "", "get", "pods", "-n", ns, "-o", "jsonpath={.items[0].apiVersion}"); out != "v1" {
			t.Errorf("got %s", out)
		}
		eventually(t, "all are the two Pods", func(ctx context.Context) error { // those of the Deployment before go with their owner
			out, err := kubectlAt(ctx, "", "get", "all", "-n", ns, "-o", "name")
			if err == nil && !sameLines(out, "pod/a\npod/b\n") {
				err = fmt.Errorf("got %q", out)
			}
			return err
		})
		for line := range strings.SplitSeq(strings.TrimSpace(before), "\n") {
			if !strings.HasPrefix(line, "pod/") && !strings.HasPrefix(line, "service/") {
				t.Errorf("got %q before", line)
			}
		}
	})
	t.Run("what is dead is taken away", func(t *testing.T) { // O31
		doomed := unique("doomed")
		mustKubectlAt(t, "", "create", "namespace", doomed)
		mustKubectlAt(t, "", "create", "configmap", "-n", doomed, "c")
		s.kill()
		killed := time.Now()
		mustKubectlAt(t, "", "delete", "namespace", doomed, "--wait=false")
		eventually(t, "the APIService is gone", func(ctx context.Context) error {
			out, err := kubectlAt(ctx, "", "get", "apiservice", "v1alpha1.query.kapis.dev", "--ignore-not-found", "-o", "name")
			if err == nil && out != "" {
				err = errors.New(out)
			}
			return err
		})
		t.Logf("the APIService went %v after the replica", time.Since(killed))
		eventually(t, "the namespace is gone", func(ctx context.Context) error {
			out, err := kubectlAt(ctx, "", "get", "namespace", doomed, "--ignore-not-found", "-o", "name")
			if err == nil && out != "" {
				err = errors.New(out)
			}
			return err
		})
		eventually(t, "an event says why", func(ctx context.Context) error {
			out, err := kubectlAt(ctx, "", "get", "events", "-n", "default", "-o", "jsonpath={.items[*].reason}")
			if err == nil && !strings.Contains(out, "NoEndpointAnswers") {
				err = errors.New(clip(out))
			}
			return err
		})
		mustKubectlAt(t, "", "api-resources", "-o", "name")
	})
}

// tableObjects are objects of the kinds whose tables are compared.
const tableObjects = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: table}
spec:
  replicas: 2
  selector: {matchLabels: {app: table}}
  template: {metadata: {labels: {app: table}}, spec: {containers: [{name: c, image: example/c}, {name: d, image: example/d}]}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: table}
spec: {suspend: true, parallelism: 2, template: {spec: {restartPolicy: Never, containers: [{name: c, image: example/c}]}}}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: table}
spec: {schedule: "0 3 1 1 *", suspend: true, jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: example/c}]}}}}}
---
apiVersion: v1
kind: Service
metadata: {name: table}
spec: {type: NodePort, selector: {app: table}, ports: [{port: 80}]}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: table}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: table}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: table}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: table}
subjects: [{kind: ServiceAccount, name: default}, {kind: User, name: table-reader, apiGroup: rbac.authorization.k8s.io}]
`

// sameLines reports whether two texts have the same lines, in any order.
func sameLines(a, b string) bool {
	x, y := strings.Split(strings.TrimSpace(a), "\n"), strings.Split(strings.TrimSpace(b), "\n")
	slices.Sort(x)
	slices.Sort(y)
	return slices.Equal(x, y)
}
