package nodetest

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	system    = "kubesphere-system"
	apiserver = "ks-apiserver"
	manager   = "ks-controller-manager"
	usersPath = "/apis/iam.kubesphere.io/v1beta1/users"
	// makeTimeout bounds a target of make: a busy machine links the programs in minutes.
	makeTimeout = 15 * time.Minute
)

// platform deploys ks-apiserver and ks-controller-manager to the real node as people do, by make, uses them, and takes them away.
func (p *plane) platform() {
	address := p.kubectl("get", "node", "real-0", "--output", `jsonpath={.status.addresses[?(@.type=="InternalIP")].address}`)
	d := &deployment{plane: p, kube: p.kubeClient(), service: "http://" + address + ":30880"}
	before, err := d.objects()
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Run("MakeDeployRollsOut", d.with((*deployment).rollsOut))
	if d.t.Failed() {
		return
	}
	d.t.Run("PodsRunWithFewRights", d.with((*deployment).fewRights))
	d.t.Run("ServicesLeadToPodsAndTheFirstUserIsThere", d.with((*deployment).isThere))
	works := d.t.Run("LoginsListsAndWebhooksWork", d.with((*deployment).works))
	if works { // else nobody is logged in
		d.t.Run("ALoginOnOneReplicaCountsOnTheOther", d.with((*deployment).sessions))
		d.t.Run("UnderLoad", d.with((*deployment).underLoad))
	}
	d.t.Run("QueriesGoThroughKubeAPIServer", d.with((*deployment).aggregated))
	if works {
		d.t.Run("TheServicesLeadToADebuggerOnThisMachineAndBack", d.with((*deployment).exchanged))
	}
	d.t.Run("NothingIsLeftAfterUninstall", d.with(func(d *deployment) {
		d.uninstalled()
		d.left(before)
	}))
}

// deployment is the platform on the real node.
type deployment struct {
	*plane
	kube *kube
	// service is the address of the Service ks-apiserver, at the port of the node that config/overlays/node gives it.
	service string
	login   url.Values
	token   string
}

// with returns a subtest.
func (d *deployment) with(f func(*deployment)) func(*testing.T) {
	return func(t *testing.T) {
		inner := *d
		inner.plane = d.plane.with(t)
		f(&inner)
		d.login, d.token = inner.login, inner.token
	}
}

// make runs a target of the Makefile against this control plane.
func (d *deployment) make(args ...string) string {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), makeTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "make", append([]string{"--no-print-directory", "-C", filepath.Join("..", "..", ".."),
		"KUBECONFIG=" + filepath.Join(d.dir, "kubeconfig"), "KUBECTL=" + filepath.Join(d.bin, "kubectl")}, args...)...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "MAKE") || strings.HasPrefix(v, "MFLAGS") })
	out, err := cmd.CombinedOutput()
	if err != nil {
		d.t.Fatalf("make %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// ctr runs containerd's client on the real node.
func (d *deployment) ctr(args ...string) {
	d.t.Helper()
	out, err := exec.Command("ctr", append([]string{"--address", filepath.Join(d.dir, "node", "containerd.sock"), "--namespace", "k8s.io", "images"},
		args...)...).CombinedOutput()
	if err != nil {
		d.t.Fatalf("ctr %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func (d *deployment) rollsOut() {
	for _, name := range []string{apiserver, manager} {
		d.ctr("import", filepath.Join(d.bin, "images", name+".tar"))
		// The other version, of the rolling update.
		d.ctr("tag", "kapis.dev/"+name+":dev", "kapis.dev/"+name+":next")
	}
	d.make("deploy", "OVERLAY=config/overlays/node")
	for _, name := range []string{apiserver, manager} {
		d.rolledOut(name)
		if n := len(d.pods(name)); n != 2 {
			d.t.Errorf("%s has %d pods, want 2", name, n)
		}
	}
}

// rolledOut waits until a Deployment runs as it is described, and nothing of an earlier description.
func (d *deployment) rolledOut(name string) {
	d.t.Helper()
	d.kubectl("--namespace", system, "rollout", "status", "deployment/"+name, "--timeout=180s")
	d.eventually("two pods of "+name+" are there", func() error {
		pods := d.pods(name)
		if len(pods) != 2 || !pods[0].ready() || !pods[1].ready() {
			return fmt.Errorf("there are %+v", pods)
		}
		return nil
	})
}

// fewRights reads from the kernel what the processes in the pods may do.
func (d *deployment) fewRights() {
	for _, name := range []string{apiserver, manager} {
		for _, pod := range d.pods(name) {
			pid := strconv.Itoa(d.pidIn(pod, name))
			status, err := os.ReadFile(filepath.Join("/proc", pid, "status"))
			if err != nil {
				d.t.Fatal(err)
			}
			for _, want := range []string{"\nUid:\t65532\t65532\t65532\t65532\n", "\nGid:\t65532\t65532\t65532\t65532\n", "\nNoNewPrivs:\t1\n",
				"\nCapEff:\t0000000000000000\n", "\nCapBnd:\t0000000000000000\n", "\nSeccomp:\t2\n"} {
				if !strings.Contains(string(status), want) {
					d.t.Errorf("%s is not %q:\n%s", pod.Metadata.Name, want, status)
				}
			}
			mounts, err := os.ReadFile(filepath.Join("/proc", pid, "mountinfo"))
			if err != nil {
				d.t.Fatal(err)
			}
			for line := range strings.Lines(string(mounts)) {
				if f := strings.Fields(line); len(f) > 5 && f[4] == "/" && !slices.Contains(strings.Split(f[5], ","), "ro") {
					d.t.Errorf("%s can write its root folder: %s", pod.Metadata.Name, line)
				}
			}
		}
	}
}

// isThere waits for what follows the readiness of pods: kube-proxy leads the Services to them, and the leader makes the first user and
// the ClusterRoleBinding by which kube-apiserver knows its rights.
func (d *deployment) isThere() {
	d.eventually("the Service leads to a pod", func() error {
		conn, err := net.Dial("tcp", strings.TrimPrefix(d.service, "http://"))
		if err == nil {
			err = conn.Close()
		}
		return err
	})
	d.eventually("kube-apiserver asks the webhooks", func() error {
		code, text := d.kube.do(d.t, http.MethodPost, usersPath+"?dryRun=All", userJSON("weakling", "weak"))
		if code != http.StatusUnprocessableEntity || !strings.Contains(text, "admission webhook") {
			return fmt.Errorf("a weak password: %d %s", code, text)
		}
		return nil
	})
	d.eventually("the leader has made the first user", func() error {
		phase := d.kubectl("--namespace", system, "get", "secret", "ks-admin-password", "--ignore-not-found",
			`--output=jsonpath={.metadata.annotations.kapis\.dev/first-start}`)
		if phase != "done" {
			return fmt.Errorf("the Secret ks-admin-password says %q", phase)
		}
		return nil
	})
	d.eventually("kube-apiserver knows what the first user may", func() error {
		code, text := d.kube.do(d.t, http.MethodPost, "/apis/authorization.k8s.io/v1/subjectaccessreviews",
			`{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","spec":{"user":"admin","resourceAttributes":
			{"group":"iam.kubesphere.io","resource":"users","verb":"create"}}}`)
		if code != http.StatusCreated || !strings.Contains(text, `"allowed":true`) {
			return fmt.Errorf("a review whether it may create users: %d %s", code, text)
		}
		return nil
	})
}

// works logs in through the Service, lists, and writes what is refused.
func (d *deployment) works() {
	secret := d.kubectl("--namespace", system, "get", "secret", "oauthclient-kubesphere", "--output",
		`go-template={{index .data "configuration.yaml" | base64decode}}`)
	_, secret, _ = strings.Cut(secret, `secret: "`)
	secret, _, _ = strings.Cut(secret, `"`)
	password := d.kubectl("--namespace", system, "get", "secret", "ks-admin-password", "--output", "go-template={{.data.password | base64decode}}")
	d.login = url.Values{"grant_type": {"password"}, "client_id": {"kubesphere"}, "client_secret": {secret}, "username": {"admin"}, "password": {password}}
	l := &load{base: d.service, login: d.login}
	d.eventually("the replicas have met the first user", func() (err error) {
		d.token, err = l.logIn(l.client(false))
		return err
	})
	pods := d.ask(http.StatusOK, d.service, http.MethodGet, "/kapis/resources.kubesphere.io/v1alpha3/namespaces/"+system+"/pods", "")
	if !strings.Contains(pods, `"totalItems":4`) {
		d.t.Errorf("the pods of the platform are %s", pods)
	}
	refused := d.ask(http.StatusUnprocessableEntity, d.service, http.MethodPost, usersPath, userJSON("weakling", "weak"))
	if !strings.Contains(refused, `admission webhook \"defaulter.users.kapis.dev\" denied the request`) {
		d.t.Errorf("a weak password: %s", refused)
	}
	d.ask(http.StatusCreated, d.service, http.MethodPost, usersPath, userJSON("loads", "Str0ng-enough"))
	d.eventually("the leader has met the user", func() error {
		if text := d.ask(http.StatusOK, d.service, http.MethodGet, usersPath+"/loads", ""); !strings.Contains(text, `"state": "Active"`) &&
			!strings.Contains(text, `"state":"Active"`) {
			return fmt.Errorf("it is %s", text)
		}
		return nil
	})
	d.leader()
}

func userJSON(name, password string) string {
	return fmt.Sprintf(`{"apiVersion":"iam.kubesphere.io/v1beta1","kind":"User","metadata":{"name":%q},"spec":{"email":"%s@example.com","password":%q}}`,
		name, name, password)
}

// leader returns the one pod of ks-controller-manager that holds the lease.
func (d *deployment) leader() string {
	d.t.Helper()
	var name string
	d.eventually("a replica of ks-controller-manager leads", func() error {
		holder := d.kubectl("--namespace", system, "get", "lease", "ks-controller-manager-leader-election", "--output=jsonpath={.spec.holderIdentity}")
		for _, pod := range d.pods(manager) {
			if strings.HasPrefix(holder, pod.Metadata.Name+"_") {
				name = pod.Metadata.Name
				return nil
			}
		}
		return fmt.Errorf("the lease is held by %q", holder)
	})
	return name
}

// sessions asks each replica at the address of its pod.
func (d *deployment) sessions() {
	pods := d.pods(apiserver)
	one, other := "http://"+pods[0].Status.PodIP+":9090", "http://"+pods[1].Status.PodIP+":9090"
	l := &load{base: one, login: d.login}
	token, err := l.logIn(l.client(false))
	if err != nil {
		d.t.Fatal(err)
	}
	d.token, token = token, d.token
	defer func() { d.token = token }()
	for _, base := range []string{other, one} {
		d.ask(http.StatusOK, base, http.MethodGet, loadLists[0], "")
	}
	d.ask(http.StatusOK, one, http.MethodGet, "/oauth/logout", "")
	d.eventually("a logout counts on the other replica", func() error {
		if code, text := d.try(other, http.MethodGet, loadLists[0], ""); code != http.StatusUnauthorized {
			return fmt.Errorf("%d %s", code, text)
		}
		return nil
	})
}

// underLoad changes everything that changes in a cluster's life, while clients ask all the time.
func (d *deployment) underLoad() {
	made := d.kubectlIn(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"load"},"data":{"number":"0"}}`,
		"create", "--filename=-", "--output=jsonpath={.metadata.resourceVersion}")
	l := startLoad(d.t, d.service, d.token, made, d.login)
	defer d.kubectl("delete", "configmap", "load")
	defer l.stop()
	step := func(name string, allowed int, f func(*deployment)) {
		d.t.Run(name, d.with(func(d *deployment) { l.during(d.t, allowed, func() { f(d) }) }))
	}
	step("ARollingUpdateFailsNothing", 0, func(d *deployment) {
		for _, name := range []string{apiserver, manager} {
			d.kubectl("--namespace", system, "set", "image", "deployment/"+name, name+"=kapis.dev/"+name+":next")
		}
		for _, name := range []string{apiserver, manager} {
			d.rolledOut(name)
			for _, pod := range d.pods(name) {
				if image := pod.Spec.Containers[0].Image; image != "kapis.dev/"+name+":next" {
					d.t.Errorf("%s runs %s", pod.Metadata.Name, image)
				}
			}
		}
	})
	step("EvictionsFailNothing", 0, func(d *deployment) {
		for _, name := range []string{apiserver, manager} {
			for _, pod := range d.pods(name) {
				d.evicted(pod)
				d.rolledOut(name)
			}
		}
	})
	step("ADeletedLeaderIsReplaced", 0, func(d *deployment) {
		was := d.leader()
		d.kubectl("--namespace", system, "delete", "pod", was, "--wait=false")
		d.eventually("another replica leads", func() error {
			if now := d.leader(); now == was {
				return fmt.Errorf("%s does", now)
			}
			return nil
		})
		d.rolledOut(manager)
	})
	// Each client waits for one answer at a time, so that many may be in flight; and once more, on a connection that the socket of the killed
	// process took before the kernel had closed it.
	step("AKilledReplicaFailsWhatIsInFlightAlone", 2*(len(loadLists)+len(loadWrites)+len(loadWatches)+1), func(d *deployment) {
		pod := d.pods(apiserver)[0]
		if err := syscall.Kill(d.pidIn(pod, apiserver), syscall.SIGKILL); err != nil {
			d.t.Fatal(err)
		}
		d.eventually("it is started again", func() error {
			for _, now := range d.pods(apiserver) {
				if now.Metadata.Name == pod.Metadata.Name && now.Status.ContainerStatuses[0].RestartCount > 0 {
					return nil
				}
			}
			return fmt.Errorf("%s has not been", pod.Metadata.Name)
		})
		d.rolledOut(apiserver)
	})
	d.controlPlaneUnderLoad(l)
	l.checkWatches(d.t)
}

// evicted evicts a pod, as draining a node does: again while the disruption budget refuses.
func (d *deployment) evicted(pod pod) {
	d.t.Helper()
	eviction := fmt.Sprintf(`{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":%q,"namespace":%q}}`, pod.Metadata.Name, system)
	d.eventually("the disruption budget lets "+pod.Metadata.Name+" be evicted", func() error {
		code, text := d.kube.do(d.t, http.MethodPost, "/api/v1/namespaces/"+system+"/pods/"+pod.Metadata.Name+"/eviction", eviction)
		switch code {
		case http.StatusCreated:
			return nil
		case http.StatusTooManyRequests:
			return fmt.Errorf("it says %s", text)
		}
		d.t.Fatalf("evict %s: %d %s", pod.Metadata.Name, code, text)
		return nil
	})
}

// aggregated switches on what docs/aggregated.md describes, and asks kube-apiserver, which passes the request on to the pods.
func (d *deployment) aggregated() {
	t := d.t
	folder := t.TempDir()
	config, err := filepath.Abs(filepath.Join("..", "..", "..", "config"))
	if err != nil {
		t.Fatal(err)
	}
	relative, err := filepath.Rel(folder, config)
	if err != nil {
		t.Fatal(err)
	}
	overlay := fmt.Sprintf("resources: [%[1]s/overlays/node]\ncomponents: [%[1]s/aggregated]\n", relative)
	if err := os.WriteFile(filepath.Join(folder, "kustomization.yaml"), []byte(overlay), 0o600); err != nil {
		t.Fatal(err)
	}
	file := d.kubectl("--namespace", system, "get", "secret", "kubesphere-config", "--output", `go-template={{index .data "kubesphere.yaml" | base64decode}}`)
	patch, err := json.Marshal(map[string]any{"stringData": map[string]string{"kubesphere.yaml": file + "aggregated:\n  enabled: true\n"}})
	if err != nil {
		t.Fatal(err)
	}
	d.kubectl("--namespace", system, "patch", "secret", "kubesphere-config", "--type=merge", "--patch", string(patch))
	d.make("deploy", "OVERLAY="+folder)
	for _, name := range []string{apiserver, manager} {
		d.kubectl("--namespace", system, "rollout", "restart", "deployment/"+name)
		d.rolledOut(name)
	}
	d.eventually("kube-apiserver passes a query on to the pods", func() error {
		code, text := d.kube.do(t, http.MethodGet, "/apis/query.kapis.dev/v1alpha1/namespaces/"+system+"/pods?sortBy=name&ascending=true&limit=3", "")
		var list struct{ Items []pod }
		if err := json.Unmarshal([]byte(text), &list); err != nil || code != http.StatusOK || len(list.Items) != 3 {
			return fmt.Errorf("%d %s", code, text)
		}
		if !slices.IsSortedFunc(list.Items, func(a, b pod) int { return strings.Compare(a.Metadata.Name, b.Metadata.Name) }) {
			return fmt.Errorf("they are not sorted: %s", text)
		}
		return nil
	})
}

// uninstalled takes away what was deployed, as people do.
func (d *deployment) uninstalled() {
	d.make("undeploy")
	left := d.kubectl("get", "apiservices", "--ignore-not-found", "--output=name", "--selector=app.kubernetes.io/managed-by=ks-controller-manager")
	if left != "" {
		d.t.Errorf("%s leads nowhere: no namespace can be deleted", left)
	}
	d.eventually("the pods end", func() error {
		if left := slices.Concat(d.allPods(apiserver), d.allPods(manager)); len(left) > 0 {
			return fmt.Errorf("there are %+v", left)
		}
		return nil
	})
	d.make("uninstall", "PURGE=yes")
}

// left checks that the cluster has no object that it did not have before.
func (d *deployment) left(before []string) {
	d.t.Helper()
	d.eventually("nothing is left", func() error {
		objects, err := d.objects()
		if err != nil {
			return err
		}
		var left []string
		for _, o := range objects {
			if !slices.Contains(before, o) {
				left = append(left, o)
			}
		}
		if len(left) > 0 {
			return fmt.Errorf("there are\n%s", strings.Join(left, "\n"))
		}
		return nil
	})
}

// objects lists all objects of the cluster, except what tells of others and goes by itself. It fails where a kind goes
// between kubectl's two questions: kube-apiserver names a deleted CustomResourceDefinition for a while.
func (d *deployment) objects() ([]string, error) {
	names, err := d.run("", "kubectl", "api-resources", "--verbs=list", "--output=name", "--cached=false")
	if err != nil {
		return nil, err
	}
	kinds := strings.Fields(names)
	kinds = slices.DeleteFunc(kinds, func(k string) bool {
		return slices.Contains([]string{"events", "events.events.k8s.io", "leases.coordination.k8s.io", "componentstatuses"}, k)
	})
	out, err := d.run("", "kubectl", "get", strings.Join(kinds, ","), "--all-namespaces", "--ignore-not-found", "--output",
		`go-template={{range .items}}{{.kind}} {{with .metadata.namespace}}{{.}}/{{end}}{{.metadata.name}}{{"\n"}}{{end}}`)
	return strings.Split(strings.TrimSpace(out), "\n"), err
}

// pod is what is read of a Pod.
type pod struct {
	Metadata struct {
		Name, UID         string
		DeletionTimestamp string
	}
	Spec   struct{ Containers []struct{ Image string } }
	Status struct {
		PodIP             string
		Conditions        []struct{ Type, Status string }
		ContainerStatuses []struct{ RestartCount int }
	}
}

func (p pod) ready() bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c struct{ Type, Status string }) bool { return c.Type == "Ready" && c.Status == "True" })
}

// pods lists the pods of a Deployment that are not being deleted.
func (d *deployment) pods(name string) []pod {
	d.t.Helper()
	return slices.DeleteFunc(d.allPods(name), func(p pod) bool { return p.Metadata.DeletionTimestamp != "" })
}

func (d *deployment) allPods(name string) []pod {
	d.t.Helper()
	code, text := d.kube.do(d.t, http.MethodGet, "/api/v1/namespaces/"+system+"/pods?labelSelector=app%3D"+name, "")
	var list struct{ Items []pod }
	if err := json.Unmarshal([]byte(text), &list); err != nil || code != http.StatusOK {
		d.t.Fatalf("list the pods of %s: %d %v %s", name, code, err, text)
	}
	return list.Items
}

// pidIn finds the process of a program in a pod, as this machine sees it: by the cgroup.
func (d *deployment) pidIn(in pod, program string) int {
	d.t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		d.t.Fatal(err)
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		cgroup, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cgroup"))
		cmdline, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		name, _, _ := bytes.Cut(cmdline, []byte{0})
		if bytes.Contains(cgroup, []byte("pod"+in.Metadata.UID)) && filepath.Base(string(name)) == program {
			return pid
		}
	}
	d.t.Fatalf("no process of %s is in the pod %s", program, in.Metadata.Name)
	return 0
}

// ask sends a request to ks-apiserver as the user who is logged in, and wants that answer.
func (d *deployment) ask(want int, base, method, path, body string) string {
	d.t.Helper()
	code, text := d.try(base, method, path, body)
	if code != want {
		d.t.Fatalf("%s %s: %d, want %d: %s", method, path, code, want, text)
	}
	return text
}

func (d *deployment) try(base, method, path, body string) (int, string) {
	d.t.Helper()
	return (&kube{client: &http.Client{Timeout: within}, server: base, token: d.token}).do(d.t, method, path, body)
}

// kube sends requests with somebody's credentials.
type kube struct {
	client        *http.Client
	server, token string
}

// kubeClient returns the administrator of the control plane.
func (p *plane) kubeClient() *kube {
	p.t.Helper()
	field := func(path string) []byte {
		value := p.kubectl("config", "view", "--raw", "--minify", "--output=jsonpath={"+path+"}")
		if !strings.HasSuffix(path, "-data") {
			return []byte(value)
		}
		decoded, err := base64.StdEncoding.DecodeString(value)
		if err != nil {
			p.t.Fatal(err)
		}
		return decoded
	}
	pair, err := tls.X509KeyPair(field(".users[0].user.client-certificate-data"), field(".users[0].user.client-key-data"))
	if err != nil {
		p.t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(field(".clusters[0].cluster.certificate-authority-data"))
	return &kube{server: string(field(".clusters[0].cluster.server")), client: &http.Client{Timeout: within, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}},
	}}}
}

func (k *kube) do(t *testing.T, method, path, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, k.server+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if k.token != "" {
		req.Header.Set("Authorization", "Bearer "+k.token)
	}
	resp, err := k.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}
