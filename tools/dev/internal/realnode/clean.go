package realnode

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// compiledIn are the folders whose paths are compiled into programs of the node, which has a mount of its own at each: where the CNI library
// keeps its results, and where the kubelet's socket for device plugins is, whatever its --root-dir.
var compiledIn = []string{"/var/lib/cni", "/var/lib/kubelet"}

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
