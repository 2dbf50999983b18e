package e2e

import (
	"context"
	"errors"
	"net/http"
	"path"
	"strings"
	"testing"

	"github.com/coder/websocket"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kapis.dev/ks-apiserver/tools/pace"
)

// A shell in a container that is added to a pod takes the right to each step, by our roles and at kube-apiserver, which both admit what is
// added. The nodes are simulated, so the test says in kubelet's place that the container runs.
func TestAShellInAContainerThatIsAdded(t *testing.T) { // O1
	r, err := product.ReplicaWithEnv(t.Context(), []string{`KUBESPHERE_TERMINAL_DEBUGIMAGES=["example/tools:1"]`})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Stop() })
	ns := newNamespace(t)
	pod := newPod(t, ns)
	pods, name := kubeClient(t).CoreV1().Pods(ns), path.Base(pod)
	most := []rule{{[]string{""}, []string{"pods"}, []string{"get"}}, {[]string{""}, []string{"pods/exec"}, []string{"create", "get"}},
		{[]string{""}, []string{"pods/attach"}, []string{"create", "get"}}}
	as := func(role, user string) caller {
		c := newUser(t, user)
		bind(t, ns, role, obj{"kind": "User", "name": user})
		c.base = r.URL
		return c
	}
	role(t, ns, "most", most...)
	role(t, ns, "all", append(most, rule{[]string{""}, []string{"pods/ephemeralcontainers"}, []string{"patch"}})...)
	ann, bob := as("all", unique("ann")), as("most", unique("bob"))
	const patch = `{"spec":{"ephemeralContainers":[{"name":"x","image":"example/x"}]}}`
	eventually(t, "the right counts at kube-apiserver", ann.is(http.StatusBadRequest, http.MethodGet, terminalOf(pod)+"/exec"))
	eventually(t, "that to add a container too", func(ctx context.Context) error {
		a, err := ann.do(ctx, http.MethodPatch, pod+"/ephemeralcontainers?dryRun=All", patch, "Content-Type: application/strategic-merge-patch+json")
		if err == nil && a.code != http.StatusOK {
			err = errors.New(clip(a.body))
		}
		return err
	})
	eventually(t, "the other's counts", bob.is(http.StatusBadRequest, http.MethodGet, terminalOf(pod)+"/exec"))

	shell := terminalOf(pod) + "/exec?container=web&shell=sh&debug="
	for what, try := range map[string]struct {
		who   caller
		image string
	}{"without the right to add one": {bob, "example/tools:1"}, "of another image": {ann, "example/tools:2"}} {
		if conn, code, err := dialPage(t.Context(), try.who, shell+try.image); conn != nil || code != http.StatusForbidden {
			t.Errorf("%s: %d %v", what, code, err)
		}
	}
	if p, err := pods.Get(t.Context(), name, metav1.GetOptions{}); err != nil || len(p.Spec.EphemeralContainers) != 0 {
		t.Fatalf("what was refused has added %+v %v", p.Spec.EphemeralContainers, err)
	}

	var added corev1.EphemeralContainer
	runs := make(chan error, 1)
	go func() {
		runs <- pace.Until(t.Context(), patience, func(ctx context.Context) error {
			p, err := pods.Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if len(p.Spec.EphemeralContainers) != 1 {
				return errors.New("no container is added")
			}
			added = p.Spec.EphemeralContainers[0]
			p.Status.EphemeralContainerStatuses = []corev1.ContainerStatus{{Name: added.Name, Image: added.Image,
				State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}}}
			_, err = pods.UpdateStatus(ctx, p, metav1.UpdateOptions{})
			return err
		})
	}()
	page := openPage(t, ann, shell+"example/tools:1")
	if err := <-runs; err != nil {
		t.Fatal(err)
	}
	page.types(t, "echo from the add''ed one\r")
	page.shows(t, "from the added one")
	page.types(t, "exit\r")
	if code := page.ends(t); code != websocket.StatusNormalClosure {
		t.Errorf("it ends with %d", code)
	}
	if s := added.SecurityContext; added.TargetContainerName != "web" || added.Image != "example/tools:1" || !strings.HasPrefix(added.Name, "debug-") ||
		s == nil || s.RunAsNonRoot == nil || !*s.RunAsNonRoot || s.Capabilities == nil || len(s.Capabilities.Drop) != 1 {
		t.Errorf("%+v", added)
	}
}
