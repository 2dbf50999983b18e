package stack

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// Build builds run and the programs of cmd, ks-apiserver, ks-controller-manager and kubectl-ks, of the checkout repo, with the race detector if
// requested, and returns the folder in repo/bin that has them. It links dev and kubectl there, which take minutes to build and are not
// changed here. All test suites share the folder: linking takes 26 s of processor time, and what is up to date stays.
func Build(ctx context.Context, repo string, race bool) (string, error) {
	repo, err := filepath.Abs(repo)
	if err != nil {
		return "", fmt.Errorf("find the checkout: %w", err)
	}
	out := filepath.Join(repo, "bin", "plain")
	if race {
		out = filepath.Join(repo, "bin", "race")
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return "", fmt.Errorf("make the folder to build into: %w", err)
	}
	unlock, err := lock(filepath.Join(out, ".lock"))
	if err != nil {
		return "", fmt.Errorf("wait for others that build into %s: %w", out, err)
	}
	defer unlock()
	for _, name := range []string{"dev", "kubectl"} {
		program := filepath.Join(repo, "bin", name)
		if _, err := os.Stat(program); err != nil {
			return "", fmt.Errorf("find the control plane: %w; build it with `tools/dev/build.sh bin`", err)
		}
		if err := link(program, filepath.Join(out, name)); err != nil {
			return "", err
		}
	}
	return out, build(ctx, repo, out, race)
}

// lock waits until no other process holds the file. The end of this one releases it, too.
func lock(name string) (unlock func(), err error) {
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.EINTR
	for errors.Is(err, syscall.EINTR) { // a signal ends the wait
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX)
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return func() { _ = file.Close() }, nil
}

// untraced keeps the race detector out of the loop of bcrypt, which has no memory but its own: it takes 20 times as long otherwise, and each login
// and each new user waits for it. The Makefile has the same for tests, so that what imports it is compiled once.
const untraced = "-gcflags=golang.org/x/crypto/blowfish=-race=false"

func build(ctx context.Context, repo, out string, race bool) error {
	args := []string{"build", "-ldflags=-s", "-o", out + string(filepath.Separator)} // nothing debugs these programs
	cgo := "0"
	if race {
		args, cgo = append(args, "-race", untraced), "1" // the detector is a C library
	}
	cmd := exec.CommandContext(ctx, "go", append(args, "./tools/run", "./cmd/...")...)
	cmd.Dir = repo
	cmd.Env = append(os.Environ(), "CGO_ENABLED="+cgo)
	if printed, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the product: %w\n%s", err, printed)
	}
	return nil
}

// link makes name a symbolic link to target, replacing what was there: at once, since programs may be started through it right now.
func link(target, name string) error {
	if now, err := os.Readlink(name); err == nil && now == target {
		return nil
	}
	fresh := name + ".new"
	if err := os.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove an unfinished link: %w", err)
	}
	if err := os.Symlink(target, fresh); err != nil {
		return fmt.Errorf("link a program: %w", err)
	}
	if err := os.Rename(fresh, name); err != nil {
		return fmt.Errorf("replace the link %s: %w", name, err)
	}
	return nil
}
