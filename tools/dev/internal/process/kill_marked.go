package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// KillMarked kills every process whose environment holds the given NAME=value, and their descendants, which inherit it, until none is
// left, and returns how many it killed. So what an earlier run left is found without trusting a number in a file: every process with
// the mark was started with it. The calling process itself is never touched.
func KillMarked(ctx context.Context, mark string) (int, error) {
	killed := map[Identity]bool{}
	for {
		found, err := marked(mark)
		if err != nil {
			return len(killed), err
		}
		if len(found) == 0 {
			return len(killed), nil
		}
		for _, id := range found {
			killed[id] = true
			if err := id.End(ctx, 0); err != nil {
				return len(killed), err
			}
		}
	}
}

// KillOnce kills the processes with the mark that run one of the roles, which is the first argument of each, in the order of the
// roles. It returns when all of them are dead; what is started again meanwhile lives.
func KillOnce(ctx context.Context, mark string, roles ...string) error {
	found, err := marked(mark)
	if err != nil {
		return err
	}
	var dying []Identity
	for _, role := range roles {
		for _, id := range found {
			if roleOf(id.PID) != role || !id.Alive() {
				continue
			}
			if err := syscall.Kill(id.PID, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("kill %s, process %d: %w", role, id.PID, err)
			}
			dying = append(dying, id)
		}
	}
	for _, id := range dying {
		if err := id.wait(ctx); err != nil {
			return fmt.Errorf("wait for process %d to die: %w", id.PID, err)
		}
	}
	return nil
}

// roleOf returns the first argument of a process, or "".
func roleOf(pid int) string {
	line, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	if err != nil {
		return ""
	}
	args := bytes.Split(line, []byte{0})
	if len(args) < 2 {
		return ""
	}
	return string(args[1])
}

func marked(mark string) ([]Identity, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var found []Identity
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		// A process that can't be read has ended or belongs to another user: it is not ours in either case.
		id, err := Identify(pid)
		if err != nil {
			continue
		}
		environ, err := os.ReadFile(filepath.Join("/proc", e.Name(), "environ"))
		if err == nil && hasEntry(environ, mark) {
			found = append(found, id)
		}
	}
	return found, nil
}

func hasEntry(environ []byte, entry string) bool {
	for each := range bytes.SplitSeq(environ, []byte{0}) {
		if string(each) == entry {
			return true
		}
	}
	return false
}
