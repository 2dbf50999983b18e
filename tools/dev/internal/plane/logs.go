package plane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"kapis.dev/ks-apiserver/tools/dev/internal/realnode"
)

const (
	// maxLog is the size in bytes from which a log starts over.
	maxLog       = 32 << 20
	logLookEvery = 10 * time.Second
)

// componentLogs lists the logs that components write through their standard output; the audit log is rotated by its writer.
func componentLogs(l layout) []string {
	var files []string
	for _, name := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kwok"} {
		files = append(files, l.log(name))
	}
	for _, name := range realnode.LogNames() {
		files = append(files, l.log(name))
	}
	return files
}

// rotateLogs keeps the logs of the previous run, and no older ones.
func rotateLogs(l layout) error {
	for _, file := range componentLogs(l) {
		if err := os.Rename(file, file+".1"); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("put the old log aside: %w", err)
		}
	}
	return nil
}

// boundLogs keeps the disk from filling up when an error is logged many times a second.
func boundLogs(ctx context.Context, l layout, logf func(string, ...any)) {
	tick := time.NewTicker(logLookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for _, file := range componentLogs(l) {
			if cut, err := truncateOver(file, maxLog); err != nil {
				logf("cannot bound a log: %v", err)
			} else if cut {
				logf("%s has reached %d MiB and starts over", filepath.Base(file), maxLog>>20)
			}
		}
	}
}

// truncateOver empties a file that is larger than limit bytes. Its writer appends, so it continues at the new end.
func truncateOver(file string, limit int64) (bool, error) {
	info, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil || info.Size() <= limit {
		return false, err
	}
	return true, os.Truncate(file, 0)
}

// lastLines returns the end of a log, each line indented on one of its own, for an error message; nothing if there is none.
func lastLines(file string) string {
	const most = 2 << 10
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > most {
		if _, err := f.Seek(-most, io.SeekEnd); err != nil {
			return ""
		}
	}
	data, err := io.ReadAll(io.LimitReader(f, most))
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	lines = lines[max(0, len(lines)-5):]
	if lines[len(lines)-1] == "" {
		return ""
	}
	return ":\n    " + strings.Join(lines, "\n    ")
}
