package realnode

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
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
