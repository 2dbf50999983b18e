package e2e

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"kapis.dev/ks-apiserver/pkg/terminal/kubectlshell"
	"kapis.dev/ks-apiserver/pkg/terminal/shellpod"
)

// kubectlImage is the variable that switches kubectl shells on.
const kubectlImage = "KUBESPHERE_TERMINAL_KUBECTL_IMAGE=example/kubectl"

func kubectlShellOf(user string) string {
	return terminalRoutes + "/users/" + user + "/kubectl?shell=sh"
}

var accessToken = regexp.MustCompile(`eyJ[\w-]+\.[\w-]+\.[\w-]+`)

// token makes the shell show its token, and returns it.
func (p *shellPage) token(t *testing.T) (found string) {
	t.Helper()
	p.types(t, "cat token; echo\r")
	eventually(t, "the shell shows its token", func(context.Context) error {
		if found = accessToken.FindString(p.shown.String()); found == "" {
			return fmt.Errorf("it shows %q", p.shown.String())
		}
		return nil
	})
	return found
}

func TestAKubectlShellIsItsUsersOwn(t *testing.T) { // O8, O9
	r, err := product.ReplicaWithEnv(t.Context(), []string{kubectlImage})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Stop() })
	name, other := unique("operator"), unique("podmaster")
	bob, master := newUser(t, name), newUser(t, other)
	bob.base, master.base = r.URL, r.URL
	grantGlobally(t, name, rule{[]string{""}, []string{"namespaces"}, []string{"get", "list"}})
	grantGlobally(t, other, rule{[]string{""}, []string{"*"}, []string{"*"}})
	eventually(t, "the right counts", bob.is(http.StatusOK, http.MethodGet, "/api/v1/namespaces"))
	eventually(t, "the other's counts", master.is(http.StatusOK, http.MethodGet, "/api/v1/pods"))

	p := openPage(t, bob, kubectlShellOf(name))
	kubectl := product.Program("kubectl")
	p.types(t, kubectl+" get namespaces -o name\r")
	p.shows(t, "namespace/kube-system")
	p.types(t, kubectl+" get secrets -n kube-system\r")
	p.shows(t, "(Forbidden)")
	p.types(t, "ls -l token config | cut -c1-10; ls -A /var/run/secrets/kubernetes.io\r")
	p.shows(t, "-rw-------")
	access := p.token(t)
	eventually(t, "the token is its user's", caller{product.URL, access}.is(http.StatusOK, http.MethodGet, "/api/v1/namespaces"))
	found, err := shellsOf(t.Context(), podsAs(t, kubectlshell.Namespace, rest.ImpersonationConfig{}), name)
	if err != nil || len(found) != 1 {
		t.Fatalf("%d pods: %v", len(found), err)
	}
	pod := found[0]
	if text := encode(t, pod); pod.Name != kubectlshell.Name(pod.Labels[shellpod.LabelUser]) || pod.Spec.Containers[0].Image != "example/kubectl" ||
		accessToken.MatchString(text) {
		t.Errorf("the pod is %s", text)
	}

	t.Run("NobodyElseOpensIt", func(t *testing.T) {
		at := "/api/v1/namespaces/" + kubectlshell.Namespace + "/pods/" + pod.Name
		for who, c := range map[string]caller{"who may do all with pods": master, "the admin": {r.URL, admin(t).token}, "a stranger": {base: r.URL}} {
			for _, path := range []string{kubectlShellOf(name), strings.Replace(kubectlShellOf(name), "terminal.kubesphere.io", "resources.kubesphere.io", 1)} {
				if conn, code, err := dialPage(t.Context(), c, path); conn != nil || code != http.StatusForbidden {
					t.Errorf("%s: %s: %d %v", who, path, code, err)
				}
			}
			for _, connection := range []string{"/exec?command=id&stdout=true", "/attach?stdin=true", "/portforward"} {
				if a, err := c.do(t.Context(), http.MethodPost, at+connection, nil, "Impersonate-Group: "+kubectlshell.Group); err != nil ||
					a.code != http.StatusForbidden {
					t.Errorf("%s: %s: %d %s %v", who, connection, a.code, clip(a.body), err)
				}
			}
		}
		if code := openPage(t, master, terminalRoutes+strings.TrimPrefix(at, "/api/v1")+"/exec").ends(t); code != 4403 {
			t.Errorf("the terminal of who may do all with pods ends with %d", code)
		}
		// The token of a shell opens no other, and bob's own right is to this pod through this server alone.
		if conn, code, err := dialPage(t.Context(), caller{r.URL, access}, kubectlShellOf(name)); conn != nil || code != http.StatusForbidden {
			t.Errorf("by the token of a shell: %d %v", code, err)
		}
		bob.must(t, http.StatusForbidden, http.MethodPost, at+"/exec?command=id&stdout=true", nil)
		bob.must(t, http.StatusForbidden, http.MethodGet, at, nil)
	})
	t.Run("NobodyChangesOrUsesItAtKubeAPIServer", func(t *testing.T) { // as the administrator of the cluster
		at := []string{"-n", kubectlshell.Namespace}
		for what, args := range map[string][]string{
			"another image":     {"set", "image", "pod/" + pod.Name, "kubectl=example/evil"},
			"another user":      {"label", "--overwrite", "pod/" + pod.Name, shellpod.LabelUser + "=x"},
			"another name":      {"annotate", "--overwrite", "pod/" + pod.Name, shellpod.AnnotationUser + "=x"},
			"one more label":    {"label", "pod/" + pod.Name, "app=web"},
			"another container": {"debug", pod.Name, "--image=example/evil", "--profile=restricted"},
			"a command":         {"exec", pod.Name, "--", "id"},
			"attach":            {"attach", pod.Name},
		} {
			out, err := kubectlAt(t.Context(), "", slices.Concat(at, args)...)
			if err == nil || !strings.Contains(err.Error(), "kubectl-shells.kapis.dev") {
				t.Errorf("%s is not refused by a policy: %s %v", what, out, err)
			}
		}
		mustKubectlAt(t, "", slices.Concat(at, []string{"annotate", "pod/" + pod.Name, "example.com/seen=yes"})...)
	})
	t.Run("OlderClientsOpenIt", func(t *testing.T) {
		a := bob.must(t, http.StatusOK, http.MethodGet, "/kapis/resources.kubesphere.io/v1alpha2/users/"+name+"/kubectl", nil)
		answer := decode[struct{ Namespace, Pod, Container string }](t, a.body)
		if answer.Pod != pod.Name || answer.Namespace != kubectlshell.Namespace || answer.Container != "kubectl" {
			t.Fatalf("%s", a.body)
		}
		older := openPage(t, bob, "/clusters/host"+terminalRoutes+"/namespaces/"+answer.Namespace+"/pods/"+answer.Pod+"?container=kubectl&shell=sh")
		second := older.token(t)
		older.types(t, "exit\r")
		if code := older.ends(t); code != websocket.StatusNormalClosure {
			t.Errorf("it ends with %d", code)
		}
		within(t, revocation, "the token ends with the shell", caller{product.URL, second}.is(http.StatusUnauthorized, http.MethodGet, "/api/v1/namespaces"))
		openPage(t, bob, kubectlShellOf(name))
		openPage(t, bob, kubectlShellOf(name))
		if conn, code, err := dialPage(t.Context(), bob, kubectlShellOf(name)); conn != nil || code != http.StatusTooManyRequests { // O6
			t.Errorf("the fourth one: %d %v", code, err)
		}
	})
	p.types(t, "echo still he''re\r")
	p.shows(t, "still here")
	bob.must(t, http.StatusOK, http.MethodGet, "/oauth/logout", nil)
	if code := p.ends(t); code != 4401 {
		t.Errorf("after the logout it ends with %d", code)
	}
	within(t, revocation, "the token ends with the login", caller{product.URL, access}.is(http.StatusUnauthorized, http.MethodGet, "/api/v1/namespaces"))
}

// Nobody but ks-apiserver, for the user whose shell it is, makes a pod there, none of another shape, and no Lease that keeps one.
func TestNoOtherPodHasKubectlShells(t *testing.T) { // O8, O11
	const uid, other = "0b0b0b0b-1111-4222-8333-444444444444", "1b0b0b0b-1111-4222-8333-444444444444"
	group := []string{"system:authenticated", kubectlshell.Group}
	bob := rest.ImpersonationConfig{UserName: "bob", UID: uid, Groups: group}
	try := func(as rest.ImpersonationConfig, change func(*corev1.Pod)) error {
		p := kubectlshell.Shell{Image: "example/kubectl", User: "bob", UID: uid, Max: time.Hour}.Pod()
		change(p)
		_, err := podsAs(t, kubectlshell.Namespace, as).Create(t.Context(), p, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	refused := func(t *testing.T, err error) {
		t.Helper()
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "shells.kapis.dev") {
			t.Errorf("not refused by the policy: %v", err)
		}
	}
	if err := try(bob, func(*corev1.Pod) {}); err != nil {
		t.Fatal(err)
	}
	everybody := map[string]rest.ImpersonationConfig{
		"the admin of the cluster": {},
		"of the masters":           {UserName: "root", UID: uid, Groups: []string{"system:masters"}},
		"this server's own name":   {UserName: "system:serviceaccount:kubesphere-system:ks-apiserver", Groups: []string{"system:masters"}},
		"bob with another UID":     {UserName: "bob", UID: other, Groups: group},
		"bob without a UID":        {UserName: "bob", Groups: group},
	}
	for who, as := range everybody {
		t.Run(who, func(t *testing.T) { refused(t, try(as, func(*corev1.Pod) {})) })
	}
	refused(t, try(rest.ImpersonationConfig{UserName: "ann", UID: uid, Groups: group}, func(*corev1.Pod) {}))
	shell := func(change func(*corev1.Container)) func(*corev1.Pod) {
		return func(p *corev1.Pod) { change(&p.Spec.Containers[0]) }
	}
	for what, change := range map[string]func(*corev1.Pod){
		"another user's label": func(p *corev1.Pod) { p.Labels[shellpod.LabelUser] = other },
		"another user's name":  func(p *corev1.Pod) { p.Annotations[shellpod.AnnotationUser] = "ann" },
		"another name":         func(p *corev1.Pod) { p.Name = kubectlshell.Name(other) },
		"a node":               func(p *corev1.Pod) { p.Spec.NodeName = "n" },
		"a restart":            func(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyAlways },
		"a token":              func(p *corev1.Pod) { p.Spec.AutomountServiceAccountToken = nil },
		"root":                 func(p *corev1.Pod) { p.Spec.SecurityContext.RunAsUser = new(int64(1000)) },
		"a Secret": func(p *corev1.Pod) {
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "s", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s"}}})
		},
		"two containers": func(p *corev1.Pod) {
			p.Spec.Containers = append(p.Spec.Containers, *p.Spec.Containers[0].DeepCopy())
			p.Spec.Containers[1].Name = "x"
		},
		"one before": func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{*p.Spec.Containers[0].DeepCopy()}
			p.Spec.InitContainers[0].Name = "x"
		},
		"another command": shell(func(c *corev1.Container) { c.Command = []string{"sh", "-c", "cat /run/ks/*/token"} }),
		"arguments":       shell(func(c *corev1.Container) { c.Args = []string{"x"} }),
		"variables":       shell(func(c *corev1.Container) { c.Env = []corev1.EnvVar{{Name: "LD_PRELOAD", Value: "x"}} }),
		"a hook": shell(func(c *corev1.Container) {
			c.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 1}}}
		}),
		"a writable root":   shell(func(c *corev1.Container) { c.SecurityContext.ReadOnlyRootFilesystem = nil }),
		"no limit":          shell(func(c *corev1.Container) { c.Resources.Limits = nil }),
		"another folder":    shell(func(c *corev1.Container) { c.VolumeMounts[0].MountPath = "/bin" }),
		"another container": shell(func(c *corev1.Container) { c.Name = "x" }),
	} {
		t.Run(what, func(t *testing.T) { refused(t, try(bob, change)) })
	}
	t.Run("ALease", func(t *testing.T) {
		renew := func(as rest.ImpersonationConfig, namespace, name string) error {
			c, err := product.RESTConfig()
			if err != nil {
				t.Fatal(err)
			}
			c.Impersonate = as
			client, err := kubernetes.NewForConfig(c)
			if err != nil {
				t.Fatal(err)
			}
			l := shellpod.Lease(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, UID: "u"}}, time.Now())
			_, err = client.CoordinationV1().Leases(namespace).Create(t.Context(), l, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		}
		if err := renew(bob, kubectlshell.Namespace, kubectlshell.Name(uid)); err != nil {
			t.Error(err)
		}
		refused(t, renew(bob, kubectlshell.Namespace, kubectlshell.Name(other)))
		for _, as := range everybody {
			refused(t, renew(as, kubectlshell.Namespace, kubectlshell.Name(uid)))
			if err := renew(as, "kubesphere-node-shells", "node-shell-"+uid+"-abcde"); !apierrors.IsForbidden(err) { // by a policy, or without any right
				t.Errorf("a Lease of a shell on a node: %v", err)
			}
		}
	})
}
