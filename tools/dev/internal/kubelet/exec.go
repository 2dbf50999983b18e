package kubelet

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"
)

// drain is how long output may still arrive after a command has ended, from children that it left in the background.
const drain = 2 * time.Second

// ExecInContainer implements remotecommand.Executor: it runs a command on this machine.
func (p *pods) ExecInContainer(ctx context.Context, pod, _, _ string, argv []string, in io.Reader, out, errOut io.WriteCloser,
	tty bool, resize <-chan remotecommand.TerminalSize, _ time.Duration) error {
	if len(argv) == 0 {
		return errors.New("no command is given")
	}
	argv, err := p.withMemory(pod, argv)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...) //nolint:gosec // running what the client asks for is the purpose
	cmd.Dir = p.Dir
	cmd.Env = append(os.Environ(), "HOSTNAME="+pod)
	cmd.WaitDelay = drain
	// The whole group, which the command leads.
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	if tty {
		return exitCode(p.runOnTerminal(cmd, in, out, resize))
	}
	return exitCode(p.run(cmd, in, out, errOut))
}

// memory is where a pod of kubectl shells has a folder in memory.
const memory = "/run/ks/"

// withMemory returns a command whose arguments name a folder of this machine, the pod's own, where they begin with that of the pod.
func (p *pods) withMemory(pod string, argv []string) ([]string, error) {
	if !slices.ContainsFunc(argv, func(a string) bool { return strings.HasPrefix(a, memory) }) {
		return argv, nil
	}
	dir := filepath.Join(p.Dir, "memory", filepath.Base(pod))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	argv = slices.Clone(argv)
	for i, a := range argv {
		if below, ok := strings.CutPrefix(a, memory); ok {
			argv[i] = filepath.Join(dir, below)
		}
	}
	return argv, nil
}

func (p *pods) run(cmd *exec.Cmd, in io.Reader, out, errOut io.Writer) error {
	if out != nil { // an interface holding nothing is not the same as no writer
		cmd.Stdout = out
	}
	if errOut != nil {
		cmd.Stderr = errOut
	}
	if in != nil {
		// Through a pipe of our own: the command's end must not wait for the client to end its input.
		stdin, err := cmd.StdinPipe()
		if err != nil {
			return err
		}
		go func() {
			_, _ = io.Copy(stdin, in) // ends with the command or with the client
			_ = stdin.Close()
		}()
	}
	if err := p.spawner.Start(cmd); err != nil {
		return err
	}
	return cmd.Wait()
}

func (p *pods) runOnTerminal(cmd *exec.Cmd, in io.Reader, out io.Writer, resize <-chan remotecommand.TerminalSize) error {
	terminal, tty, err := pty.Open()
	if err != nil {
		return err
	}
	defer terminal.Close()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.Env = append(cmd.Env, "TERM=xterm")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	err = p.spawner.Start(cmd)
	tty.Close()
	if err != nil {
		return err
	}
	go func() {
		for size := range resize {
			setSize(terminal, size)
		}
	}()
	if in != nil {
		go func() { _, _ = io.Copy(terminal, in) }()
	}
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		if out != nil {
			_, _ = io.Copy(out, terminal) // ends with an error once no process has the terminal open
		}
	}()
	err = cmd.Wait()
	select {
	case <-copied:
	case <-time.After(drain):
	}
	return err
}

// setSize sets the size of a terminal. It uses SyscallConn, since the terminal may be closed at the same moment.
func setSize(terminal *os.File, size remotecommand.TerminalSize) {
	conn, err := terminal.SyscallConn()
	if err != nil {
		return // closed
	}
	_ = conn.Control(func(fd uintptr) { // fails when it is closed
		_ = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: size.Height, Col: size.Width})
	})
}

// exitCode returns a command's exit status in a form that reaches the client; a shell's 128+n for a signal.
func exitCode(err error) error {
	if errors.Is(err, exec.ErrWaitDelay) { // it has ended well and left a child that holds its output
		return nil
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return err
	}
	code := exit.ExitCode()
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		code = 128 + int(status.Signal())
	}
	return utilexec.CodeExitError{Err: err, Code: code}
}
