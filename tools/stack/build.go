package stack

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
)

// Build builds run and the programs of cmd, ks-apiserver, ks-controller-manager and kubectl-ks, of the checkout repo into the folder out,
// with the race detector if requested, and links dev and kubectl from repo/bin, which take minutes to build and are not changed here.
func Build(ctx context.Context, repo, out string, race bool) error {
	repo, err := filepath.Abs(repo)
	if err != nil {
		return fmt.Errorf("find the checkout: %w", err)
	}
	if out, err = filepath.Abs(out); err != nil {
		return fmt.Errorf("find the folder to build into: %w", err)
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return fmt.Errorf("make the folder to build into: %w", err)
	}
	dev := filepath.Join(repo, "bin", "dev")
	if _, err := os.Stat(dev); err != nil {
		return fmt.Errorf("find the control plane: %w; build it with `tools/dev/build.sh bin`", err)
	}
	if err := link(dev, filepath.Join(out, "dev")); err != nil {
		return err
	}
	if err := link("dev", filepath.Join(out, "kubectl")); err != nil {
		return err
	}
	return build(ctx, repo, out, race)
}

// untraced keeps the race detector out of the loop of bcrypt, which has no memory but its own: it takes 20 times as long otherwise, and each login
// and each new user waits for it. The Makefile has the same for tests, so that what imports it is compiled once.
const untraced = "-gcflags=golang.org/x/crypto/blowfish=-race=false"

func build(ctx context.Context, repo, out string, race bool) error {
	args := []string{"build", "-o", out + string(filepath.Separator)}
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

// link makes name a symbolic link to target, replacing what was there.
func link(target, name string) error {
	if target == name {
		return nil
	}
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("replace the link %s: %w", name, err)
	}
	if err := os.Symlink(target, name); err != nil {
		return fmt.Errorf("link a program: %w", err)
	}
	return nil
}
