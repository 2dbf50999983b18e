package nodetest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// within bounds every wait: a busy machine takes long.
const within = 3 * time.Minute

// podYAML is a pod that runs only on the real node. It logs, serves HTTP, and has a Secret mounted.
const podYAML = `apiVersion: v1
kind: Pod
metadata:
  name: web
  labels:
    app: web
spec:
  nodeSelector:
    kubernetes.io/hostname: real-0
  tolerations:
  - key: kapis.dev/real
    operator: Exists
  terminationGracePeriodSeconds: 1
  containers:
  - name: busybox
    image: kapis.dev/busybox:dev
    command: [sh, -c, "echo hello from a real container; echo it works >/tmp/index.html; exec httpd -f -p 8080 -h /tmp"]
    volumeMounts:
    - name: secret
      mountPath: /secret
  volumes:
  - name: secret
    secret:
      secretName: web
---
apiVersion: v1
kind: Secret
metadata:
  name: web
stringData:
  word: abracadabra
---
apiVersion: v1
kind: Service
metadata:
  name: web
spec:
  selector:
    app: web
  ports:
  - port: 80
    targetPort: 8080
`

// plane is a control plane with a real node, in a folder of its own.
type plane struct {
	t        *testing.T
	bin, dir string
}

func TestRealNode(t *testing.T) {
	p := newPlane(t)
	before := machine(t)
	t.Run("PodsRun", func(t *testing.T) {
		p := p.with(t)
		p.up()
		p.nodeIsTainted()
		p.kubectlIn(podYAML, "create", "-f", "-")
		p.podsRun()
	})
	t.Run("ThePlatformIsDeployed", func(t *testing.T) { p.with(t).platform() })
	t.Run("AClusterJoinsAFleetByWhatIsApplied", func(t *testing.T) { p.with(t).joinsAFleet() })
	t.Run("ADeadProgramIsStartedAgain", func(t *testing.T) {
		p := p.with(t)
		for _, name := range []string{"kubelet", "kube-proxy", "containerd"} {
			p.kill(p.processOf(name))
			p.eventually(name+" runs again", func() error {
				_, err := p.findProcess(name)
				return err
			})
		}
		p.podsRun()
	})
	t.Run("ADeadNodeIsStartedAgain", func(t *testing.T) {
		p := p.with(t)
		p.kill(p.processOf("up"))
		p.eventually("the node runs again", func() error {
			_, err := p.findProcess("kubelet")
			return err
		})
		p.podsRun()
	})
	t.Run("AStartCleansUpAfterADeadControlPlane", func(t *testing.T) {
		p := p.with(t)
		p.kill(p.supervisor())
		p.up()
		p.podsRun()
	})
	t.Run("NothingIsLeftAfterADeadControlPlaneAndDown", func(t *testing.T) {
		t.Cleanup(func() { sameMachine(t, before) }) // says what is left after all logs
		p := p.with(t)
		p.kill(p.supervisor())
		p.down()
	})
	t.Run("NothingIsLeftAfterDown", func(t *testing.T) {
		t.Cleanup(func() { sameMachine(t, before) })
		p := p.with(t)
		p.up()
		p.podsRun()
		p.kubectl("delete", "pod", "web", "--timeout=60s")
		if out := p.kubectl("get", "pods", "-o", "name"); out != "" {
			t.Errorf("after the deletion there are %s", out)
		}
		p.down()
	})
}

func newPlane(t *testing.T) *plane {
	t.Helper()
	bin, err := filepath.Abs(cmpOr(os.Getenv("BIN"), "../../../bin"))
	if err != nil {
		t.Fatal(err)
	}
	dev := filepath.Join(bin, "dev")
	if _, err := os.Stat(dev); err != nil {
		t.Fatalf("%v; build it with tools/dev/build.sh bin", err)
	}
	if out, err := exec.Command(dev, "check-node").CombinedOutput(); err != nil {
		t.Skipf("DID NOT RUN: this machine can have no real node: %s", out)
	}
	if _, err := os.Stat(filepath.Join(bin, "node")); err != nil {
		t.Fatalf("%v; build it with tools/dev/build.sh bin node", err)
	}
	dir, err := os.MkdirTemp("", "ks-node-") // sockets in a longer path could not be bound
	if err != nil {
		t.Fatal(err)
	}
	p := &plane{t, bin, dir}
	t.Cleanup(func() {
		_ = exec.Command(dev, "down", "--dir", dir).Run()
		_ = os.RemoveAll(dir)
	})
	return p
}

func cmpOr(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// with is the control plane in another test, which shows its logs if it fails.
func (p *plane) with(t *testing.T) *plane {
	p = &plane{t, p.bin, p.dir}
	t.Cleanup(func() {
		if t.Failed() {
			p.showLogs()
		}
	})
	return p
}

// showLogs prints the conditions of the node, its pods, and the end of what its programs have logged.
func (p *plane) showLogs() {
	for _, args := range [][]string{
		{"get", "node", "real-0", `--output=jsonpath={range .status.conditions[*]}{.type} {.status}: {.message}{"\n"}{end}`},
		{"get", "pods", "--all-namespaces", "--output=wide"},
	} {
		out, err := p.runWith(context.WithoutCancel(p.t.Context()), "", "kubectl", args...) // the test has ended
		p.t.Logf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	for _, name := range []string{"dev", "real-node", "containerd", "real-kubelet", "kube-proxy"} {
		data, _ := os.ReadFile(filepath.Join(p.dir, "log", name+".log"))
		p.t.Logf("the end of %s.log:\n%s", name, data[max(0, len(data)-4000):])
	}
}

func (p *plane) run(in, name string, args ...string) (string, error) {
	return p.runWith(p.t.Context(), in, name, args...)
}

func (p *plane) runWith(ctx context.Context, in, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*within)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(p.bin, name), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(p.dir, "kubeconfig"))
	cmd.Stdin = strings.NewReader(in)
	var out, failure bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &failure
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s %s: %w: %s%s", name, strings.Join(args, " "), err, failure.String(), out.String())
	}
	return out.String(), nil
}

func (p *plane) kubectl(args ...string) string {
	p.t.Helper()
	return p.kubectlIn("", args...)
}

func (p *plane) kubectlIn(in string, args ...string) string {
	p.t.Helper()
	out, err := p.run(in, "kubectl", args...)
	if err != nil {
		p.t.Fatal(err)
	}
	return out
}

func (p *plane) up() {
	p.t.Helper()
	out, err := p.run("", "dev", "up", "--detach", "--node", "real", "--dir", p.dir)
	if err != nil {
		p.t.Fatal(err)
	}
	if !strings.Contains(out, "node real-0 is ready") || !strings.Contains(out, "CONTROL PLANE READY") {
		p.t.Fatalf("dev up printed\n%s", out)
	}
}

func (p *plane) down() {
	p.t.Helper()
	if _, err := p.run("", "dev", "down", "--dir", p.dir); err != nil {
		p.t.Fatal(err)
	}
}

func (p *plane) eventually(what string, ask func() error) {
	p.t.Helper()
	eventually(p.t, what, ask)
}

func eventually(t *testing.T, what string, ask func() error) {
	t.Helper()
	var err error
	for end := time.Now().Add(within); time.Now().Before(end); time.Sleep(300 * time.Millisecond) {
		if err = ask(); err == nil {
			return
		}
	}
	t.Fatalf("waiting until %s: %v", what, err)
}

func (p *plane) nodeIsTainted() {
	p.t.Helper()
	const want = "kapis.dev/real:NoSchedule"
	if got := p.kubectl("get", "node", "real-0", "-o", "jsonpath={.spec.taints[*].key}:{.spec.taints[*].effect}"); got != want {
		p.t.Errorf("the taints of the node are %s, want %s", got, want)
	}
}

// podsRun checks that the pod is there and answers in every way.
func (p *plane) podsRun() {
	t := p.t
	t.Helper()
	// A pod is Running in the API for a while after its node has died: what it says proves that it runs.
	p.eventually("a command runs in the pod", func() error {
		out, err := p.run("", "kubectl", "exec", "web", "--", "cat", "/secret/word")
		if err == nil && out != "abracadabra" {
			err = fmt.Errorf("it printed %q", out)
		}
		return err
	})
	p.eventually("the pod is Running", func() error {
		if phase := p.kubectl("get", "pod", "web", "-o", "jsonpath={.status.phase}"); phase != "Running" {
			return fmt.Errorf("it is %s", phase)
		}
		return nil
	})
	if out := p.kubectlIn("in\n", "exec", "-i", "web", "--", "sh", "-c", "cat; hostname"); out != "in\nweb\n" {
		t.Errorf("exec printed %q", out)
	}
	if out := p.kubectl("logs", "web"); !strings.HasPrefix(out, "hello from a real container\n") {
		t.Errorf("the log is %q", out)
	}
	p.eventually("the Service leads to the pod", func() error {
		out, err := p.run("", "kubectl", "exec", "web", "--", "sh", "-c", "printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc -w 5 "+
			p.kubectl("get", "service", "web", "-o", "jsonpath={.spec.clusterIP}")+" 80 | tail -n 1")
		if err == nil && out != "it works\n" {
			err = fmt.Errorf("it answers %q", out)
		}
		return err
	})
	p.eventually("pods reach kube-apiserver", func() error {
		_, err := p.run("", "kubectl", "exec", "web", "--", "sh", "-c", "nc -w 5 10.96.0.1 443 </dev/null")
		return err
	})
	if out := p.kubectl("exec", "web", "--", "sh", "-c", "nc -w 2 198.51.100.1 80 </dev/null 2>/dev/null && echo reached || echo not"); out != "not\n" {
		t.Errorf("an address outside of the machine: %s", out)
	}
	p.portForward()
}

var forwarding = regexp.MustCompile(`Forwarding from 127\.0\.0\.1:(\d+)`)

func (p *plane) portForward() {
	t := p.t
	t.Helper()
	cmd := exec.Command(filepath.Join(p.bin, "kubectl"), "port-forward", "--address", "127.0.0.1", "pod/web", ":8080")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(p.dir, "kubeconfig"))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	line := make([]byte, 200)
	n, _ := out.Read(line)
	match := forwarding.FindSubmatch(line[:n])
	if match == nil {
		t.Fatalf("port-forward printed %q", line[:n])
	}
	resp, err := http.Get("http://127.0.0.1:" + string(match[1]) + "/")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "it works\n" {
		t.Errorf("port-forward gives %q, %v", body, err)
	}
}

func (p *plane) supervisor() int {
	p.t.Helper()
	data, err := os.ReadFile(filepath.Join(p.dir, "run", "supervisor.json"))
	if err != nil {
		p.t.Fatal(err)
	}
	var id struct{ PID int }
	if err := json.Unmarshal(data, &id); err != nil || id.PID <= 1 {
		p.t.Fatalf("%s: %v", data, err)
	}
	return id.PID
}

// kill ends a process without a chance to clean up, and waits until it is gone.
func (p *plane) kill(pid int) {
	p.t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		p.t.Fatal(err)
	}
	p.eventually("a killed process is gone", func() error {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || bytes.Contains(stat, []byte(") Z ")) {
			return nil //nolint:nilerr // it is gone
		}
		return fmt.Errorf("process %d is there", pid)
	})
}

func (p *plane) processOf(role string) int {
	p.t.Helper()
	pid, err := p.findProcess(role)
	if err != nil {
		p.t.Fatal(err)
	}
	return pid
}

// findProcess finds a program of this control plane, or of its node: by its mark in the environment, and its arguments.
func (p *plane) findProcess(role string) (int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0, err
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		environ, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "environ"))
		if !slices.Contains(strings.Split(string(environ), "\x00"), "KS_DEV_INSTANCE="+p.dir) {
			continue
		}
		cmdline, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		args := strings.Split(string(cmdline), "\x00")
		if len(args) < 2 {
			continue
		}
		// The components of the control plane are roles of one program.
		program := filepath.Base(args[0])
		if args[0] == role || (program == "node" && args[1] == role) || (program == "dev" && args[1] == role && role != "up") {
			return pid, nil
		}
	}
	return 0, fmt.Errorf("no %s of the control plane in %s runs", role, p.dir)
}

// state is what a node changes of a machine while it runs: the outputs of commands.
type state map[string]string

// interfaces is the command that names the machine's interfaces.
const interfaces = "ip -o link | cut -d: -f2"

// machine describes this machine: interfaces, routes, packet filters, mounts, cgroups, kernel settings and folders.
func machine(t *testing.T) state {
	t.Helper()
	s := state{}
	for _, command := range []string{
		interfaces, "ip -o address | awk '{print $2, $3, $4}'", "ip route", "nft list ruleset | sed 's/packets.*bytes [0-9]*//'", "iptables-save | sed '/^#/d; s/\\[.*\\]//'",
		"cut -d' ' -f 4- /proc/self/mountinfo | grep -E 'kapis|ks-node|containerd|kubelet|cni'",
		"ls -d /sys/fs/cgroup/kapis* /sys/fs/cgroup/*/kapis* /sys/fs/cgroup/*/kubepods*",
		"sysctl -n net.ipv4.ip_forward net.bridge.bridge-nf-call-iptables vm.overcommit_memory vm.panic_on_oom kernel.panic kernel.panic_on_oops",
		"hostname", "ls -d /var/lib/cni /var/lib/kubelet /var/lib/containerd /run/containerd /run/netns /opt/containerd /var/log/pods /var/log/containers /opt/cni",
		"ls -l /etc/cni",
	} {
		out, _ := exec.Command("sh", "-c", command+" 2>/dev/null || true").Output()
		s[command] = string(out)
	}
	return s
}

// sameMachine checks that the machine is as it was. What a node that died earlier had left may be gone: a start cleans up after it.
// The addresses and routes of interfaces that were there before are left out: those are of others, and may change at any time.
func sameMachine(t *testing.T, before state) {
	t.Helper()
	after := machine(t)
	for what, was := range before {
		lines := strings.Split(was, "\n")
		now := strings.Split(after[what], "\n")
		for _, line := range lines {
			if !slices.Contains(now, line) && !ofANode.MatchString(line) && !before.ofOthers(line) {
				t.Errorf("%s: %q is gone", what, line)
			}
		}
		for _, line := range now {
			if !slices.Contains(lines, line) && !before.ofOthers(line) {
				t.Errorf("%s: %q is left", what, line)
			}
		}
	}
}

// ofOthers tells whether a line of ip is about an interface that was there before.
func (s state) ofOthers(line string) bool {
	words := strings.Fields(line)
	return slices.ContainsFunc(strings.Fields(s[interfaces]), func(name string) bool { return slices.Contains(words, name) })
}

// ofANode matches what has the name or the network of a real node.
var ofANode = regexp.MustCompile(`kapis-node-|^unreachable 10\.245\.`)
