package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// managerReplica is one of several ks-controller-managers.
type managerReplica struct {
	*program
	hook   string // where its webhooks listen
	health string
}

// newManager finds ports for one.
func newManager(t *testing.T) *managerReplica {
	t.Helper()
	address := func() string {
		return net.JoinHostPort("127.0.0.1", reservedPort(t))
	}
	return &managerReplica{hook: address(), health: address()}
}

// start starts the program file on the control plane of dir, where webhooks are found at url. The lease has the times of an installation: on a
// busy machine a leader of a few seconds loses it unkilled.
func (m *managerReplica) start(t *testing.T, file, dir, url string, args ...string) {
	t.Helper()
	_, hook, _ := net.SplitHostPort(m.hook)
	m.program = launch(t, filepath.Join(dir, "manager-"+hook+".log"), file, append([]string{
		"--kubeconfig", filepath.Join(dir, "manager.kubeconfig"), "--leader-elect",
		"--metrics-bind-address=0", "--health-probe-bind-address=" + m.health, "--webhook-port=" + hook, "--webhook-url=" + url}, args...)...)
}

// ready returns a condition: the replica is ready.
func (m *managerReplica) ready() func(context.Context) error {
	return caller{base: "http://" + m.health}.is(http.StatusOK, http.MethodGet, "/readyz")
}

// clientAt returns a client of kube-apiserver with a certificate of the control plane of dir.
func clientAt(t *testing.T, dir, user string, groups ...string) dynamic.Interface {
	t.Helper()
	file := filepath.Join(dir, user+".kubeconfig")
	config := configAt(t, dir, file, user, groups...)
	c, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func configAt(t *testing.T, dir, file, user string, groups ...string) *rest.Config {
	t.Helper()
	args := []string{"kubeconfig", "--dir", dir, "--out", file, "--user", user}
	for _, g := range groups {
		args = append(args, "--group", g)
	}
	if out, err := exec.CommandContext(t.Context(), product.Program("dev"), args...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	config, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	return config
}

func iamResource(plural string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "iam.kubesphere.io", Version: "v1beta1", Resource: plural}
}

// leaderOf returns who holds the lease of the ks-controller-managers.
func leaderOf(ctx context.Context, root dynamic.Interface) (string, error) {
	lease, err := root.Resource(schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}).
		Namespace("kubesphere-system").Get(ctx, "ks-controller-manager-leader-election", metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	holder, _, _ := unstructured.NestedString(lease.Object, "spec", "holderIdentity")
	return holder, nil
}

// put creates an object of iam.kubesphere.io.
func put(ctx context.Context, c dynamic.Interface, plural string, o obj) error {
	_, err := c.Resource(iamResource(plural)).Create(ctx, &unstructured.Unstructured{Object: o}, metav1.CreateOptions{})
	return err
}

func nodeLister(name string) obj {
	return obj{"apiVersion": "iam.kubesphere.io/v1beta1", "kind": "GlobalRole", "metadata": obj{"name": name},
		"rules": []any{obj{"apiGroups": []any{""}, "resources": []any{"nodes"}, "verbs": []any{"list"}}}}
}

// putBoundRole creates a role and a binding of it: a role is mirrored once it is somebody's.
func putBoundRole(ctx context.Context, c dynamic.Interface, name string) error {
	return errors.Join(put(ctx, c, "globalroles", nodeLister(name)), put(ctx, c, "globalrolebindings", obj{
		"apiVersion": "iam.kubesphere.io/v1beta1", "kind": "GlobalRoleBinding", "metadata": obj{"name": name},
		"roleRef":  obj{"apiGroup": "iam.kubesphere.io", "kind": "GlobalRole", "name": name},
		"subjects": []any{obj{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "somebodys"}},
	}))
}

// mirrored returns a condition: the role is known to native RBAC.
func mirrored(root dynamic.Interface, name string) func(context.Context) error {
	return func(ctx context.Context) error {
		l, err := root.Resource(schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}).
			List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/managed-by=ks-controller-manager"})
		if err != nil {
			return err
		}
		for _, o := range l.Items {
			if o.GetAnnotations()["kapis.dev/mirror-of"] == "GlobalRole/"+name {
				return nil
			}
		}
		return errors.New("no native role")
	}
}

// U53: where the leader of two is killed, the webhooks of the other go on at once, and it takes over the work.
func TestU53TheOtherManagerGoesOn(t *testing.T) {
	t.Parallel() // it has a control plane of its own
	dir := newPlane(t)
	run := func(t *testing.T, name string) {
		t.Helper()
		if out, err := script(t.Context(), product, name, "KUBECONFIG="+filepath.Join(dir, "kubeconfig")); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
	}
	run(t, "install.sh")
	if err := os.WriteFile(filepath.Join(dir, "kubesphere.yaml"), []byte("multicluster: {clusterRole: host}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	configAt(t, dir, filepath.Join(dir, "manager.kubeconfig"), "system:serviceaccount:kubesphere-system:ks-controller-manager",
		"system:serviceaccounts", "system:serviceaccounts:kubesphere-system")
	climber := clientAt(t, dir, "climber", "system:authenticated")
	// An administrator as most clusters have them: with all rights, and not of system:masters, whom no webhook of ours is asked about.
	configAt(t, dir, filepath.Join(dir, "oncall.kubeconfig"), "oncall", "system:authenticated")
	oncall := []string{"KUBECONFIG=" + filepath.Join(dir, "oncall.kubeconfig")}
	replicas := []*managerReplica{newManager(t), newManager(t)}
	url := "https://" + balance(t, "127.0.0.1", replicas[0].hook, replicas[1].hook)
	start := func(t *testing.T, m *managerReplica) {
		t.Helper()
		m.start(t, product.Program("ks-controller-manager"), dir, url, "--config", filepath.Join(dir, "kubesphere.yaml"))
	}
	for _, m := range replicas {
		start(t, m)
	}
	for i, m := range replicas {
		eventually(t, "replica "+strconv.Itoa(i)+" is ready", m.ready())
	}
	root := clientAt(t, dir, "root", "system:masters")
	refused := func(name string) func(context.Context) error {
		return func(ctx context.Context) error {
			if err := put(ctx, climber, "globalroles", nodeLister(name)); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "can't grant") {
				return fmt.Errorf("a role that he may not give away: %w", err)
			}
			return nil
		}
	}

	step(t, "a role that is bound is mirrored", func(t *testing.T) {
		if err := putBoundRole(t.Context(), root, "before"); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the mirror works", mirrored(root, "before"))
	})
	step(t, "the webhook refuses a role that its writer may not give away", func(t *testing.T) {
		roles := schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}
		bindings := schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"}
		for gvr, o := range map[schema.GroupVersionResource]obj{
			roles: {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": obj{"name": "climber"},
				"rules": []any{obj{"apiGroups": []any{"iam.kubesphere.io"}, "resources": []any{"globalroles", "users"}, "verbs": []any{"create", "get", "list"}}}},
			bindings: {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": obj{"name": "climber"},
				"roleRef":  obj{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "climber"},
				"subjects": []any{obj{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "climber"}}},
		} {
			if _, err := root.Resource(gvr).Create(t.Context(), &unstructured.Unstructured{Object: o}, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		eventually(t, "the webhook refuses", refused("climbed"))
	})
	step(t, "an extension is being installed", func(t *testing.T) { beginInstallation(t, root) })
	var was string
	var killed time.Time
	step(t, "the leader is killed", func(t *testing.T) {
		var err error
		if was, err = leaderOf(t.Context(), root); err != nil {
			t.Fatal(err)
		}
		lead := replicas[0]
		for _, m := range replicas {
			// The lease has no process number; who writes nothing is not the leader, so both logs are asked.
			if text, err := os.ReadFile(m.log); err == nil && strings.Contains(string(text), "uccessfully acquired lease") {
				lead = m
			}
		}
		lead.kill()
		killed = time.Now()
	})
	step(t, "the webhooks of the other go on", func(t *testing.T) {
		// A call is lost that kube-apiserver sends on a connection to the dead one before it has seen that closed.
		eventually(t, "with the leader just killed, roles are refused", refused("climbed-after"))
		eventually(t, "and users are made", func(ctx context.Context) error {
			return put(ctx, climber, "users", obj{"apiVersion": "iam.kubesphere.io/v1beta1", "kind": "User", "metadata": obj{"name": "newcomer"},
				"spec": obj{"email": "newcomer@example.com", "password": password}})
		})
		u, err := root.Resource(iamResource("users")).Get(t.Context(), "newcomer", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if hash, _, _ := unstructured.NestedString(u.Object, "spec", "password"); !strings.HasPrefix(hash, "$2") {
			t.Error("the password was stored as it is")
		}
	})
	step(t, "the other takes over the work", func(t *testing.T) {
		if err := putBoundRole(t.Context(), root, "after"); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the mirror works again", mirrored(root, "after"))
		if now, err := leaderOf(t.Context(), root); err != nil || now == was {
			t.Errorf("the leader is still %q (%v)", now, err)
		}
		t.Logf("the controllers were back %v after the leader was killed", time.Since(killed).Round(100*time.Millisecond))
	})
	step(t, "the other finishes the installation", func(t *testing.T) { finishedInstallation(t, root) })
	step(t, "where none is left, an installation says what to do", func(t *testing.T) {
		for _, m := range replicas {
			m.kill()
		}
		kubectl := func(args ...string) {
			t.Helper()
			cmd := exec.CommandContext(t.Context(), product.Program("kubectl"), args...)
			cmd.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(dir, "kubeconfig"))
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("kubectl %q: %v\n%s", args, err, out)
			}
		}
		kubectl("create", "clusterrolebinding", "oncall", "--clusterrole=cluster-admin", "--user=oncall")
		const remedy = "delete validatingwebhookconfigurations,mutatingwebhookconfigurations ks-controller-manager.kapis.dev"
		if out, err := script(t.Context(), product, "install.sh", oncall...); err == nil || !strings.Contains(string(out), "kubectl "+remedy) {
			t.Errorf("got %v, want a refusal that names the remedy:\n%s", err, out)
		}
		kubectl(append([]string{"--kubeconfig", filepath.Join(dir, "oncall.kubeconfig")}, strings.Fields(remedy)...)...)
		if out, err := script(t.Context(), product, "install.sh", oncall...); err != nil {
			t.Fatalf("without the webhooks: %v\n%s", err, out)
		}
		start(t, replicas[0])
		eventually(t, "a replica is ready again", replicas[0].ready())
		eventually(t, "with its webhooks", refused("climbed-later"))
	})
	step(t, "uninstalled under way, nothing of it is in the way", func(t *testing.T) {
		run(t, "uninstall.sh")
		for _, plural := range []string{"roles", "rolebindings"} { // of several namespaces, some with the same name
			l, err := root.Resource(schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: plural}).
				List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/part-of=ks-apiserver"})
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range l.Items {
				if o.GetDeletionTimestamp() == nil && !strings.HasPrefix(o.GetNamespace(), "kubesphere-") || o.GetNamespace() == "kubesphere-system" {
					t.Errorf("%s %s/%s is left", plural, o.GetNamespace(), o.GetName())
				}
			}
		}
		for _, m := range replicas {
			m.kill() // one of them was before
		}
		if err := put(t.Context(), climber, "globalroles", nodeLister("later")); err != nil {
			t.Errorf("a role, after all: %v", err)
		}
		for _, plural := range []string{"validatingwebhookconfigurations", "mutatingwebhookconfigurations", "validatingadmissionpolicies",
			"validatingadmissionpolicybindings"} {
			l, err := root.Resource(schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: plural}).
				List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range l.Items {
				if strings.HasSuffix(o.GetName(), "kapis.dev") {
					t.Errorf("%s %s is left", plural, o.GetName())
				}
			}
		}
	})
}
