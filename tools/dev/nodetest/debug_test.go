package nodetest

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// debugged is what the debugger is told: to stop where the handler of lists begins, once, and to say what it was asked for.
const debugged = `break kapis.dev/ks-apiserver/pkg/kapis/resources.(*V1alpha3).list
continue
print r.Request.URL.Path
clearall
continue
`

// exchanged leads the Services of ks-apiserver to a process on this machine that runs in a debugger, by hack/local-debug.sh alone, and back to
// the pods, while clients ask all the time (O42).
func (d *deployment) exchanged() {
	t := d.t
	for _, program := range []string{"dlv", filepath.Join("debug", apiserver)} {
		if _, err := os.Stat(filepath.Join(d.bin, program)); err != nil {
			t.Fatalf("%v; make test-node builds it", err)
		}
	}
	made := d.kubectlIn(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"load"},"data":{"number":"0"}}`,
		"create", "--filename=-", "--output=jsonpath={.metadata.resourceVersion}")
	defer d.kubectl("delete", "configmap", "load")
	folder, address := t.TempDir(), d.ownAddress()
	ports := [2]string{freePort(t, address), freePort(t, address)}
	if out := d.script("fetch", "--output", folder); !strings.Contains(out, "fetched "+filepath.Join(folder, "kubesphere.yaml")) {
		t.Fatalf("fetch printed\n%s", out)
	}
	here := d.debug(folder, address, ports)
	l := startLoad(t, d.service, d.token, made, d.login)
	defer l.stop()

	l.during(t, 0, func() {
		// Both ports, without the address of this machine, which the script finds out.
		out := d.script("exchange", "--port", ports[0], "--tls-port", ports[1])
		for _, service := range []string{apiserver, apiserver + "-aggregated"} {
			if want := "Service " + system + "/" + service + " leads to " + address; !strings.Contains(out, want) {
				t.Errorf("exchange printed\n%s\nwant %q", out, want)
			}
		}
		d.eventually("a request through the Service stops at a breakpoint here", func() error {
			said := here.log.String()
			if !strings.Contains(said, "resources.(*V1alpha3).list()") || !strings.Contains(said, `"/kapis/resources.kubesphere.io/v1alpha3/`) {
				return fmt.Errorf("the debugger said\n%s", said)
			}
			return nil
		})
	})
	l.during(t, 0, func() {
		d.eventually("a query through kube-apiserver is answered here", func() error {
			const path = "/apis/query.kapis.dev/v1alpha1/namespaces/" + system + "/pods"
			if code, text := d.kube.do(t, http.MethodGet, path, ""); code != http.StatusOK {
				return fmt.Errorf("%d %s", code, text)
			}
			metrics := d.ask(http.StatusOK, "http://"+net.JoinHostPort(address, ports[0]), http.MethodGet, "/metrics", "")
			for line := range strings.Lines(metrics) {
				if strings.HasPrefix(line, "ks_server_request_total{") && strings.Contains(line, `group="query.kapis.dev"`) && strings.Contains(line, `resource="pods"`) {
					return nil
				}
			}
			return fmt.Errorf("none was counted at %s", address)
		})
	})
	l.during(t, 0, func() {
		if out := d.script("recover"); strings.Count(out, "recovered: Service") != 2 {
			t.Errorf("recover printed\n%s", out)
		}
		here.stop()
	})
	l.checkWatches(t)
}

// script runs hack/local-debug.sh against this control plane.
func (d *deployment) script(args ...string) string {
	d.t.Helper()
	cmd := exec.CommandContext(d.t.Context(), filepath.Join("..", "..", "..", "hack", "local-debug.sh"),
		append(args, "--kubeconfig", filepath.Join(d.dir, "kubeconfig"))...)
	cmd.Env = append(os.Environ(), "KUBECTL="+filepath.Join(d.bin, "kubectl"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		d.t.Fatalf("hack/local-debug.sh %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// ownAddress is that of this machine, as the node reaches it.
func (d *deployment) ownAddress() string {
	d.t.Helper()
	u, err := url.Parse(d.service)
	if err != nil {
		d.t.Fatal(err)
	}
	conn, err := net.Dial("udp", u.Host) //nolint:noctx // nothing is sent
	if err != nil {
		d.t.Fatal(err)
	}
	defer conn.Close()
	host, _, err := net.SplitHostPort(conn.LocalAddr().String())
	if err != nil {
		d.t.Fatal(err)
	}
	return host
}

// freePort returns a port on which nothing listens.
func freePort(t *testing.T, address string) string {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(address, "0")) //nolint:noctx // returns at once
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// debugger is ks-apiserver on this machine, in a debugger.
type debugger struct {
	t   *testing.T
	cmd *exec.Cmd
	pid int    // of ks-apiserver
	log output // of both
}

// debug starts ks-apiserver as hack/local-debug.sh fetch says, in the debugger, and waits until it is ready.
func (d *deployment) debug(folder, address string, ports [2]string) *debugger {
	t := d.t
	t.Helper()
	commands := filepath.Join(folder, "commands")
	if err := os.WriteFile(commands, []byte(debugged), 0o600); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(d.bin, "debug", apiserver)
	b := &debugger{t: t, cmd: exec.Command(filepath.Join(d.bin, "dlv"), "exec", "--allow-non-terminal-interactive=true", "--init", commands,
		program, "--", "--config", folder, "--kubeconfig", filepath.Join(d.dir, "kubeconfig"),
		"--bind-address", address, "--insecure-port", ports[0], "--secure-port", ports[1])}
	b.cmd.Env = append(os.Environ(), "HOME="+folder, "XDG_CONFIG_HOME="+folder) // the debugger remembers commands
	b.cmd.Stdout, b.cmd.Stderr = &b.log, &b.log
	in, err := b.cmd.StdinPipe() // the debugger ends where its input does
	if err != nil {
		t.Fatal(err)
	}
	if err := b.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		b.kill(in)
		if t.Failed() {
			said := b.log.String()
			t.Logf("the end of what ks-apiserver in the debugger said:\n%s", said[max(0, len(said)-4000):])
		}
	})
	d.eventually("ks-apiserver on this machine is ready", func() error {
		resp, err := http.Get("http://" + net.JoinHostPort(address, ports[0]) + "/readyz")
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("it says %s", resp.Status)
		}
		return nil
	})
	b.pid = childOf(t, b.cmd.Process.Pid, program)
	return b
}

// stop asks ks-apiserver to end, and waits until it has.
func (b *debugger) stop() {
	b.t.Helper()
	if err := syscall.Kill(b.pid, syscall.SIGTERM); err != nil {
		b.t.Fatal(err)
	}
	eventually(b.t, "ks-apiserver on this machine has ended", func() error {
		if said := b.log.String(); !strings.Contains(said, "has exited with status 0") {
			return fmt.Errorf("the debugger said\n%s", said[max(0, len(said)-1000):])
		}
		return nil
	})
}

// kill ends the debugger, and with it what it runs.
func (b *debugger) kill(in io.Closer) {
	if b.pid > 0 && !strings.Contains(b.log.String(), "has exited with status") {
		_ = syscall.Kill(b.pid, syscall.SIGKILL)
	}
	_ = in.Close()
	_ = b.cmd.Process.Kill()
	_ = b.cmd.Wait()
}

// childOf finds the process of a program that another one has started.
func childOf(t *testing.T, parent int, program string) int {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		stat, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "stat"))
		cmdline, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		var pid, ppid int
		_, rest, _ := bytes.Cut(stat, []byte(") "))
		if _, err := fmt.Sscanf(string(rest), "%1s %d", new(string), &ppid); err != nil || ppid != parent {
			continue
		}
		if _, err := fmt.Sscan(e.Name(), &pid); err == nil && bytes.HasPrefix(cmdline, []byte(program+"\x00")) {
			return pid
		}
	}
	t.Fatalf("%d has not started %s", parent, program)
	return 0
}
