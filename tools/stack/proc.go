package stack

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Process returns the number of a process of the instance by the name of its program: ks-apiserver, ks-controller-manager,
// kube-apiserver, etcd ... Replicas are not among them: they know their own number.
func (s *Stack) Process(name string) (pid int, ok bool) {
	for _, pid := range descendants(s.run.process.Pid) {
		if argv, err := commandLine(pid); err == nil && isProgram(argv, name) {
			return pid, true
		}
	}
	return 0, false
}

// isProgram reports whether a command line is that of the program. The control plane is one file whose first argument names the program.
func isProgram(argv []string, name string) bool {
	if len(argv) == 0 {
		return false
	}
	base := filepath.Base(argv[0])
	return base == name || base == "dev" && len(argv) > 1 && argv[1] == name
}

// descendants returns the processes that pid started, by ascending number, and then those that they started: the programs of an instance come
// before those of its members, also where one was started again, or the numbers have begun anew.
func descendants(pid int) []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	children := map[int][]int{}
	for _, e := range entries {
		child, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		b, err := os.ReadFile(filepath.Join("/proc", e.Name(), "stat"))
		if err != nil {
			continue // ended since
		}
		if st, err := parseStat(string(b)); err == nil {
			children[st.parent] = append(children[st.parent], child)
		}
	}
	var found []int
	for todo := []int{pid}; len(todo) > 0; todo = todo[1:] {
		slices.Sort(children[todo[0]])
		found = append(found, children[todo[0]]...)
		todo = append(todo, children[todo[0]]...)
	}
	return found
}

// commandLine returns the arguments that a process was started with, its program first.
func commandLine(pid int) ([]string, error) {
	return nulSeparated(fmt.Sprintf("/proc/%d/cmdline", pid))
}

func nulSeparated(file string) ([]string, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	b = bytes.TrimSuffix(b, []byte{0})
	if len(b) == 0 {
		return nil, nil
	}
	return strings.Split(string(b), "\x00"), nil
}

// stat is the part of /proc/PID/stat that is used, see proc(5).
type stat struct {
	parent int           // field 4
	cpu    time.Duration // fields 14 and 15, user and system time
}

// tick is the unit of times in /proc: USER_HZ, which is 100 on every Linux platform that Go supports.
const tick = 10 * time.Millisecond

// parseStat reads the line. The second field is the program's name in parentheses, which may hold anything, so counting
// begins after the last closing one.
func parseStat(line string) (stat, error) {
	end := strings.LastIndexByte(line, ')')
	if end < 0 {
		return stat{}, errors.New("a stat line without a program name")
	}
	f := strings.Fields(line[end+1:]) // f[0] is field 3
	if len(f) < 13 {
		return stat{}, fmt.Errorf("a stat line with %d fields after the program name, not 13 or more", len(f))
	}
	parent, err := strconv.Atoi(f[1])
	if err != nil {
		return stat{}, fmt.Errorf("the parent in a stat line: %w", err)
	}
	user, err := strconv.ParseInt(f[11], 10, 64)
	if err != nil {
		return stat{}, fmt.Errorf("the user time in a stat line: %w", err)
	}
	system, err := strconv.ParseInt(f[12], 10, 64)
	if err != nil {
		return stat{}, fmt.Errorf("the system time in a stat line: %w", err)
	}
	return stat{parent: parent, cpu: time.Duration(user+system) * tick}, nil
}

// CPU returns the processor time that a process and all its threads, ended ones too, have used: user and system time.
// Its resolution is that of the scheduler, nanoseconds; where the kernel does not give that clock, 10 ms.
func CPU(pid int) (time.Duration, error) {
	// The clock of another process, as clock_getcpuclockid(3) makes it: the inverted number, and 2 for scheduled time.
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|2), &t); err == nil {
		return time.Duration(t.Nano()), nil
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("read the processor time of process %d: %w", pid, err)
	}
	st, err := parseStat(string(b))
	if err != nil {
		return 0, fmt.Errorf("read the processor time of process %d: %w", pid, err)
	}
	return st.cpu, nil
}

// RSS returns the bytes of memory that a process has resident.
func RSS(pid int) (int64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, fmt.Errorf("read the memory of process %d: %w", pid, err)
	}
	pages, err := parseResident(string(b))
	if err != nil {
		return 0, fmt.Errorf("read the memory of process %d: %w", pid, err)
	}
	return pages * int64(os.Getpagesize()), nil
}

// parseResident returns the resident pages, the second field of /proc/PID/statm.
func parseResident(line string) (int64, error) {
	f := strings.Fields(line)
	if len(f) < 2 {
		return 0, fmt.Errorf("a statm line with %d fields", len(f))
	}
	pages, err := strconv.ParseInt(f[1], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("the resident pages in a statm line: %w", err)
	}
	return pages, nil
}

// Peak returns the most bytes of memory that a process has had resident at one time.
func Peak(pid int) (int64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, fmt.Errorf("read the peak memory of process %d: %w", pid, err)
	}
	bytes, err := parsePeak(string(b))
	if err != nil {
		return 0, fmt.Errorf("read the peak memory of process %d: %w", pid, err)
	}
	return bytes, nil
}

// parsePeak returns the field VmHWM of /proc/PID/status in bytes, see proc_pid_status(5).
func parsePeak(status string) (int64, error) {
	for line := range strings.Lines(status) {
		var kib int64
		if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &kib); n == 1 {
			return kib << 10, nil
		}
	}
	return 0, errors.New("a status without VmHWM")
}
