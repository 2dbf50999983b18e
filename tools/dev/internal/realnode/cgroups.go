package realnode

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

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
