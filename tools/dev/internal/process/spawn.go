// Package process starts programs that cannot outlive their parent, keeps them running, and recognizes and ends those that an earlier
// run left. Linux only: it relies on parent-death signals and on /proc.
package process

import (
	"os/exec"
	"runtime"
	"syscall"
)

// Spawner starts child processes that the kernel kills when this process dies in any way.
//
// The parent-death signal belongs to the operating system thread that forks, not to the process (prctl(2),
// PR_SET_PDEATHSIG), and the Go runtime may end a thread at any time. So one goroutine, locked to its thread until the
// process ends, does all the forking.
type Spawner struct {
	requests chan spawnRequest
}

type spawnRequest struct {
	cmd    *exec.Cmd
	result chan<- error
}

// NewSpawner starts the forking thread, which lives until the process ends; one per process is enough.
func NewSpawner() *Spawner {
	s := &Spawner{requests: make(chan spawnRequest)}
	go func() {
		runtime.LockOSThread() // never unlocked
		for r := range s.requests {
			r.result <- r.cmd.Start()
		}
	}()
	return s
}

// Start starts cmd in a process group of its own, so that a terminal's Ctrl-C reaches the parent only, which then ends its
// children in order. The caller waits for the child with cmd.Wait, as after cmd.Start.
func (s *Spawner) Start(cmd *exec.Cmd) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = !cmd.SysProcAttr.Setsid // a session comes with a group
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	result := make(chan error, 1)
	s.requests <- spawnRequest{cmd, result}
	return <-result
}
