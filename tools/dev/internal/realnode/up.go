package realnode

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"kapis.dev/ks-apiserver/tools/dev/internal/process"
)

// self is this program; the link in /proc stays right when a new build replaces the file.
const self = "/proc/self/exe"

// goAheadFD is the file on which the first process of the namespaces learns that its network is connected.
const goAheadFD = 3

// Up runs the node until ctx ends, and removes everything that it has made. What an earlier run left is removed first. The caller has
// a claim to the node's number, and calls Clean if Up finally fails.
func Up(ctx context.Context, configFile string, out io.Writer) error {
	c, err := ReadConfig(configFile)
	if err != nil {
		return err
	}
	if err := Check(ctx); err != nil {
		return err
	}
	if err := c.prepare(ctx); err != nil {
		return err
	}
	first, goAhead, err := start(configFile, out)
	if err != nil {
		return err
	}
	var how error // valid after ended
	ended := make(chan struct{})
	go func() {
		how = first.Wait()
		close(ended)
	}()
	end := func() {
		_ = first.Process.Kill() // and so everything in its namespaces
		<-ended
	}
	if err := c.connect(ctx, first.Process.Pid, goAhead); err != nil {
		end()
		return err
	}
	select {
	case <-ctx.Done():
		end()
		return Clean(context.WithoutCancel(ctx), c.Dir, c.Index)
	case <-ended:
		return fmt.Errorf("the first process of the node has ended: %w", how)
	}
}

// connect gives the node its network and lets it start.
func (c Config) connect(ctx context.Context, pid int, goAhead *os.File) error {
	defer goAhead.Close()
	if err := c.addLink(ctx, pid); err != nil {
		return err
	}
	if err := c.forward(ctx); err != nil {
		return err
	}
	if _, err := goAhead.WriteString("\n"); err != nil {
		return fmt.Errorf("tell the node to start: %w", err)
	}
	return nil
}

// start starts the first process of the namespaces. It waits for a line before it does anything.
func start(configFile string, out io.Writer) (*exec.Cmd, *os.File, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, nil, fmt.Errorf("make a pipe: %w", err)
	}
	defer read.Close()
	cmd := exec.Command(self, "init", configFile) //nolint:noctx // ended by Up
	cmd.Args[0] = "node"
	cmd.Stdout, cmd.Stderr = out, out
	cmd.ExtraFiles = []*os.File{read}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC,
	}
	if err := process.NewSpawner().Start(cmd); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("make the namespaces of the node: %w", err), write.Close())
	}
	return cmd, write, nil
}

// prepare creates the node's folder and cgroups, replacing those of an earlier run.
func (c Config) prepare(ctx context.Context) error {
	earlier, err := readState(c.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// They may be those of a control plane in another folder, which had the number and died.
	if err := c.removeCgroupsAndLink(ctx); err != nil {
		return err
	}
	if err := removeFolder(c.Dir); err != nil {
		return err
	}
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return fmt.Errorf("make the folder of the real node: %w", err)
	}
	made := earlier.Made
	for _, folder := range compiledIn {
		if _, err := os.Stat(folder); errors.Is(err, fs.ErrNotExist) && !slices.Contains(made, folder) {
			made = append(made, folder)
		}
	}
	if err := writeState(c.Dir, state{Index: c.Index, Made: made}); err != nil {
		return err
	}
	if err := c.fence(ctx); err != nil {
		return err
	}
	for _, folder := range compiledIn {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return fmt.Errorf("make a mount point of the node: %w", err)
		}
	}
	if err := c.makeCgroups(); err != nil {
		return err
	}
	if err := c.writeFiles(); err != nil {
		return err
	}
	return c.writeImages()
}
