package e2e

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// program is a program of the product that a test runs on its own.
type program struct {
	process *os.Process
	log     string
	ended   chan struct{} // closed when it has ended
	err     error         // how it ended; read after ended
}

// launch starts a program that writes what it prints to the file log, which is shown where the test fails.
func launch(t *testing.T, log, file string, args ...string) *program {
	t.Helper()
	out, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(context.Background(), file, args...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &program{process: cmd.Process, log: log, ended: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		_ = out.Close()
		close(p.ended)
	}()
	t.Cleanup(func() {
		p.kill()
		if text, err := os.ReadFile(log); err == nil && t.Failed() {
			t.Logf("%s:\n%s", log, text[max(0, len(text)-4000):])
		}
	})
	return p
}

// kill ends it as a crash would, and returns when it is gone.
func (p *program) kill() {
	_ = p.process.Kill() // fails when it has ended
	<-p.ended
}

// stop asks it to end, and fails the test unless it does so with success.
func (p *program) stop(t *testing.T) {
	t.Helper()
	if err := p.process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
	select {
	case <-p.ended:
	case <-time.After(2 * time.Minute):
		t.Fatalf("%s does not end", p.log)
	}
	if p.err != nil {
		t.Errorf("%s: it ended with %v", p.log, p.err)
	}
}
