package plane

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// progressFD is the file on which a detached supervisor reports progress to its starter: the first after the standard ones.
	progressFD = 3
	failedWord = "FAILED "
)

// detach starts `dev up` in a session of its own and returns when it is ready. If it already runs, it says so.
func detach(ctx context.Context, l layout, o upOptions, out io.Writer) error {
	if err := l.create(); err != nil {
		return err
	}
	if id, running := l.running(); running {
		return awaitRunning(ctx, l, id.PID, o, out)
	}
	logFile := l.log("dev")
	if _, err := truncateOver(logFile, maxLog); err != nil {
		return fmt.Errorf("bound the log: %w", err)
	}
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open the log: %w", err)
	}
	defer log.Close()
	progress, theirs, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("make a pipe for progress: %w", err)
	}
	defer progress.Close()

	//nolint:noctx // it goes on after this command
	cmd := exec.Command(self, "up", "--dir", l.dir, "--port", strconv.Itoa(o.port), "--progress-fd", strconv.Itoa(progressFD))
	if o.real {
		cmd.Args = append(cmd.Args, "--node", nodeReal)
	}
	cmd.Args[0] = "dev"
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	theirs.Close()
	if err != nil {
		return fmt.Errorf("start in the background: %w", err)
	}
	// A user who interrupts the start does not want half a control plane; after ready there is nothing to undo.
	release := context.AfterFunc(ctx, func() { _ = cmd.Process.Signal(syscall.SIGTERM) })
	defer release()
	if err := follow(progress, out); err != nil {
		return errors.Join(err, ignoreExit(cmd.Wait()))
	}
	return nil
}

// follow copies progress to out up to the ready line. An end before that is a failure, whose reason is the last line.
func follow(progress io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(progress)
	for lines.Scan() {
		line := lines.Text()
		if reason, ok := strings.CutPrefix(line, failedWord); ok {
			return errors.New(strings.ReplaceAll(reason, "\t", "\n"))
		}
		fmt.Fprintln(out, line)
		if strings.HasPrefix(line, readyLine) {
			return nil
		}
	}
	return errors.New("the control plane ended before it was ready")
}

// ignoreExit drops the exit status, whose reason has been printed.
func ignoreExit(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil
	}
	return err
}

// progressWriter copies to the starter for as long as it listens, and to the log always.
type progressWriter struct {
	log     io.Writer
	starter *os.File
}

func (w *progressWriter) Write(p []byte) (int, error) {
	if w.starter != nil {
		_, err := w.starter.Write(p)
		if err != nil || strings.HasPrefix(string(p), readyLine) {
			w.close()
		}
	}
	return w.log.Write(p)
}

func (w *progressWriter) failed(err error) {
	if w.starter != nil {
		fmt.Fprintln(w.starter, failedWord+strings.ReplaceAll(err.Error(), "\n", "\t"))
		w.close()
	}
}

func (w *progressWriter) close() {
	w.starter.Close()
	w.starter = nil
}

// upTelling is up for a detached supervisor.
func upTelling(ctx context.Context, l layout, o upOptions, fd int, out io.Writer) error {
	starter := os.NewFile(uintptr(fd), "progress")
	if starter == nil {
		return fmt.Errorf("file descriptor %d for progress is not open", fd)
	}
	syscall.CloseOnExec(fd)
	w := &progressWriter{log: out, starter: starter}
	err := up(ctx, l, o, w)
	if err != nil {
		w.failed(err)
	}
	return err
}

// awaitRunning waits for a control plane that another process has started.
func awaitRunning(ctx context.Context, l layout, pid int, o upOptions, out io.Writer) error {
	fmt.Fprintf(out, "a control plane already runs in %s (process %d)\n", l.dir, pid)
	if o.real {
		if real, err := readRealNode(l); err == nil && real == nil {
			fmt.Fprintf(out, "no real node: the control plane was started without one; `dev down --dir %s` stops it\n", l.dir)
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("not ready within %s", startTimeout))
	defer cancel()
	p, err := readPorts(l.ports())
	if err != nil {
		return err
	}
	kube, err := newClient(l, clusterCA, "admin", p.server())
	if err != nil {
		return err
	}
	if err := wait(ctx, 100*time.Millisecond, usable(kube)); err != nil {
		return fmt.Errorf("wait for the control plane in %s: %w", l.dir, err)
	}
	fmt.Fprintln(out, readyLine, p.server())
	return nil
}
