package realnode

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"kapis.dev/ks-apiserver/tools/dev/internal/process"
)

// Init is the first process of the namespaces: it sets up mounts and network, starts Supervise, and waits for every orphan. When
// it ends, the kernel ends everything else in the namespaces.
func Init(ctx context.Context, configFile string) error {
	c, err := ReadConfig(configFile)
	if err != nil {
		return err
	}
	goAhead := os.NewFile(goAheadFD, "go ahead")
	if _, err := bufio.NewReader(goAhead).ReadString('\n'); err != nil {
		return fmt.Errorf("wait for the network: %w", err)
	}
	goAhead.Close()
	if err := c.setUpMounts(); err != nil {
		return err
	}
	if err := unix.Sethostname([]byte(Name)); err != nil {
		return fmt.Errorf("set the host name of the node: %w", err)
	}
	if err := c.setUpNetwork(ctx); err != nil {
		return err
	}
	child, err := syscall.ForkExec(self, []string{"node", "supervise", configFile}, &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{0, 1, 2},
	})
	if err != nil {
		return fmt.Errorf("start the supervisor of the node: %w", err)
	}
	return reap(child)
}

// reap waits for all processes that the kernel hands to the first one, until child ends.
func reap(child int) error {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return fmt.Errorf("wait for processes of the node: %w", err)
		case pid == child:
			return fmt.Errorf("the supervisor of the node has ended with status %#x", int(status))
		}
	}
}

// kernelSettings are the values of these settings that the kubelet wants. It would change those of the machine, which have no
// namespace: so it sees files in their place.
var kernelSettings = map[string]string{
	"vm/overcommit_memory": "1", "vm/panic_on_oom": "0",
	"kernel/panic": "10", "kernel/panic_on_oops": "1",
	"kernel/keys/root_maxkeys": "1000000", "kernel/keys/root_maxbytes": "25000000",
}

// setUpMounts gives the node its own folders below /run and /var for its programs to write to. No mount made here is seen outside.
func (c Config) setUpMounts() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keep the node's mounts to itself: %w", err)
	}
	type mount struct {
		source, target, kind string
		flags                uintptr
	}
	mounts := []mount{
		{"proc", "/proc", "proc", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC},
		{"tmpfs", "/run", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV},
		{"tmpfs", "/var/log", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV},
	}
	for _, folder := range compiledIn {
		mounts = append(mounts, mount{"tmpfs", folder, "tmpfs", unix.MS_NOSUID | unix.MS_NODEV})
	}
	for name, value := range kernelSettings {
		target := filepath.Join("/proc/sys", name)
		if _, err := os.Stat(target); err != nil {
			continue
		}
		source := c.path("sysctl", filepath.Base(name))
		if err := os.WriteFile(source, []byte(value+"\n"), 0o600); err != nil {
			return fmt.Errorf("write a kernel setting for the kubelet: %w", err)
		}
		mounts = append(mounts, mount{source, target, "", unix.MS_BIND})
	}
	for _, m := range mounts {
		if err := unix.Mount(m.source, m.target, m.kind, m.flags, ""); err != nil {
			return fmt.Errorf("mount %s: %w", m.target, err)
		}
	}
	// Kubernetes wants mounts of pods to spread (mountPropagation); they do within this namespace.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("share mounts within the node: %w", err)
	}
	return nil
}

// Supervise starts containerd, imports the images, starts kubelet and kube-proxy, and keeps all three running until ctx ends.
func Supervise(ctx context.Context, configFile string, out io.Writer) error {
	c, err := ReadConfig(configFile)
	if err != nil {
		return err
	}
	s := &process.Supervisor{
		Spawner: process.NewSpawner(),
		Logf:    func(format string, args ...any) { fmt.Fprintf(out, format+"\n", args...) },
		Backoff: 500 * time.Millisecond, MaxBackoff: 10 * time.Second, Tries: 3,
		Poll: 100 * time.Millisecond, Grace: 5 * time.Second,
	}
	defer s.Stop()
	if err := s.Start(ctx, c.component("containerd", c.containerdReady, "containerd", "--config", c.path("containerd.toml"))); err != nil {
		return err
	}
	for _, image := range []string{pauseImage, BusyboxImage} {
		if err := run(ctx, "ctr", "--address", c.socket(), "--namespace", "k8s.io", "images", "import", c.imageFile(image)); err != nil {
			return fmt.Errorf("import %s: %w", image, err)
		}
	}
	if err := s.Start(ctx, c.component("real-kubelet", healthy("http://127.0.0.1:10248/healthz"), self, c.kubeletFlags()...)); err != nil {
		return err
	}
	if err := s.Start(ctx, c.component("kube-proxy", healthy("http://127.0.0.1:10249/healthz"), self, c.proxyFlags()...)); err != nil {
		return err
	}
	if err := os.WriteFile(ReadyFile(c.Dir), nil, 0o600); err != nil {
		return fmt.Errorf("say that the node is ready: %w", err)
	}
	<-ctx.Done()
	return nil
}

func (c Config) component(name string, ready func(context.Context) error, file string, args ...string) process.Component {
	return process.Component{
		Name: name,
		Command: func() *exec.Cmd {
			cmd := exec.Command(file, args...) //nolint:noctx // the supervisor ends it, in order
			cmd.Args[0] = filepath.Base(file)
			if file == self {
				cmd.Args[0] = "node"
			}
			cmd.Dir = c.Dir
			return cmd
		},
		Log:   c.log(name),
		Ready: ready,
	}
}

func (c Config) containerdReady(ctx context.Context) error {
	return run(ctx, "ctr", "--address", c.socket(), "--connect-timeout", "2s", "version")
}

// healthy returns a question that is answered with nil once a GET of url succeeds.
func healthy(url string) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s answers %s", url, resp.Status)
		}
		return nil
	}
}
