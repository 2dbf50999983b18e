package realnode

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"kapis.dev/ks-apiserver/tools/dev/internal/pki"
)

// compiledIn are the folders whose paths are compiled into programs of the node, which has a mount of its own at each: where the CNI library
// keeps its results, and where the kubelet's socket for device plugins is, whatever its --root-dir.
var compiledIn = []string{"/var/lib/cni", "/var/lib/kubelet"}

// state is what the node made outside its namespaces and its folder. It is written before they are made.
type state struct {
	// Index is the number of the node.
	Index int
	// Made are those of compiledIn that did not exist before.
	Made []string
}

func writeState(dir string, s state) error {
	data, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("encode the state of the real node: %w", err)
	}
	return pki.WriteFile(stateFile(dir), data, 0o600)
}

func readState(dir string) (state, error) {
	data, err := os.ReadFile(stateFile(dir))
	if err != nil {
		return state{}, fmt.Errorf("read what the real node has made: %w", err)
	}
	var s state
	if err := json.Unmarshal(data, &s); err != nil {
		return state{}, fmt.Errorf("read what the real node has made (%s): %w", stateFile(dir), err)
	}
	return s, nil
}

// None is the number of a caller of Clean that has no claim.
const None = -1

// Clean removes what is left of a node whose processes have been ended: cgroups, the interface, the route, mounts, and the folder dir.
// claimed is the number that the caller has a claim to, or None. It does nothing where there is no such folder.
func Clean(ctx context.Context, dir string, claimed int) error {
	s, err := readState(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return removeFolder(dir) // nothing outside it was made
	}
	if err != nil {
		return err
	}
	if err := cleanIndex(ctx, s.Index, claimed); err != nil {
		return err
	}
	if err := removeFolder(dir); err != nil {
		return err
	}
	for _, folder := range s.Made {
		if slices.Contains(compiledIn, folder) {
			_ = os.Remove(folder) // another node may use it now: then it is not empty, or busy
		}
	}
	return nil
}

// cleanIndex removes what has the number of a node in its name. If another control plane has that number by now, it has removed these
// when it started, and what exists is its own.
func cleanIndex(ctx context.Context, index, claimed int) error {
	if index != claimed {
		held, err := claim(index)
		if errors.Is(err, syscall.EADDRINUSE) {
			return nil
		}
		if err != nil {
			return err
		}
		defer held.Release()
	}
	c := Config{Index: index}
	c.removeFence(ctx)
	return c.removeCgroupsAndLink(ctx)
}

func (c Config) removeCgroupsAndLink(ctx context.Context) error {
	if err := c.removeCgroups(ctx); err != nil {
		return err
	}
	return c.removeLink(ctx)
}

// removeFolder removes a folder, after everything that is mounted in it.
func removeFolder(dir string) error {
	points, err := mountsUnder(dir)
	if err != nil {
		return err
	}
	for _, point := range slices.Backward(points) {
		if err := unix.Unmount(point, unix.MNT_DETACH); err != nil {
			return fmt.Errorf("unmount %s: %w", point, err)
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove the files of the real node: %w", err)
	}
	return nil
}

// mountsUnder lists the mount points in a folder, in the order in which they were mounted.
func mountsUnder(dir string) ([]string, error) {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("list the mounts: %w", err)
	}
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	var points []string
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line) // proc(5): the fifth is the mount point
		if len(fields) > 4 {
			if point := unescape.Replace(fields[4]); strings.HasPrefix(point, dir+"/") {
				points = append(points, point)
			}
		}
	}
	return points, nil
}

// makeCgroups makes the cgroup of all pods.
func (c Config) makeCgroups() error {
	folders, err := hierarchies()
	if err != nil {
		return err
	}
	for _, folder := range folders {
		if err := os.Mkdir(filepath.Join(folder, c.cgroup()), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("make the cgroup of the pods: %w", err)
		}
	}
	return nil
}

// removeCgroups kills what still runs in the cgroup of the pods, and removes it.
func (c Config) removeCgroups(ctx context.Context) error {
	folders, err := hierarchies()
	if err != nil {
		return err
	}
	for _, folder := range folders {
		root := filepath.Join(folder, c.cgroup())
		err := retry(ctx, func() error { return removeCgroup(root) })
		if err != nil {
			return fmt.Errorf("remove the cgroup %s: %w", root, err)
		}
	}
	return nil
}

// retry tries for some seconds: killed processes take a moment to die.
func retry(ctx context.Context, try func() error) error {
	const tries, pause = 100, 100 * time.Millisecond
	var err error
	for range tries {
		if err = try(); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(pause):
		}
	}
	return err
}

func removeCgroup(root string) error {
	var folders []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			folders = append(folders, path)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, folder := range slices.Backward(folders) {
		data, err := os.ReadFile(filepath.Join(folder, "cgroup.procs"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENODEV) {
			return err
		}
		for _, field := range strings.Fields(string(data)) {
			if pid, err := strconv.Atoi(field); err == nil && pid > 0 {
				_ = syscall.Kill(pid, syscall.SIGKILL) // it may just have ended
			}
		}
		if err := os.Remove(folder); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
