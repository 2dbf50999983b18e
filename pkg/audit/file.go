package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"gopkg.in/natefinch/lumberjack.v2"
	"k8s.io/klog/v2"
)

const (
	backendFile = "file"
	// chunk is how much is written at once; less than the smallest size of a file.
	chunk = 256 << 10
	// writePause is the time between attempts to write where writing fails, as on a full disk.
	writePause = time.Second
)

// FileOptions are those of a File.
type FileOptions struct {
	// Path is the file, or - for standard output, which is not rotated.
	Path string
	// MaxSize is the size in MiB at which a file is rotated; MaxBackups and MaxAge (days) bound the rotated ones, 0 for without a bound.
	MaxSize, MaxBackups, MaxAge int
	Metrics                     *Metrics
	Now                         func() time.Time
}

// File is the backend that writes events into a file, one on each line, as kube-apiserver does with --audit-log-path. Only its owner may
// read the file. Events wait in a bounded queue; those that don't fit are dropped, counted, and told by an event of the verb dropped.
type File struct {
	*backend
	out io.WriteCloser
}

// NewFile opens the file. It is an error if that can't be written to.
func NewFile(o FileOptions) (*File, error) {
	f := &File{backend: newBackend(backendFile, AppendJSON, 1, o.Metrics, o.Now)}
	if o.Path == "-" {
		f.out = standardOutput{}
		return f, nil
	}
	if err := private(o.Path); err != nil {
		return nil, fmt.Errorf("open the audit log (auditing.logOptions.path): %w", err)
	}
	f.out = &lumberjack.Logger{Filename: o.Path, MaxSize: o.MaxSize, MaxBackups: o.MaxBackups, MaxAge: o.MaxAge}
	return f, nil
}

type standardOutput struct{}

func (standardOutput) Write(p []byte) (int, error) { return os.Stdout.Write(p) }
func (standardOutput) Close() error                { return nil }

// private makes sure that a file can be written to, and by its owner alone be read: rotated files get its mode.
func private(path string) error {
	if st, err := os.Stat(path); err == nil && !st.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file", path)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(f.Chmod(0o600), endLine(f), f.Close())
}

// endLine ends the last line, of which a process that was killed may have written a part only: the next event has a line of its own.
func endLine(f *os.File) error {
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil || end == 0 {
		return err
	}
	last := []byte{0}
	if _, err := f.ReadAt(last, end-1); err != nil || last[0] == '\n' {
		return err
	}
	_, err = f.Write([]byte{'\n'})
	return err
}

// Run writes what is queued, until ctx ends; then it writes the rest, for up to 10 s, and closes the file.
func (f *File) Run(ctx context.Context) {
	defer func() { _ = f.out.Close() }()
	for {
		select {
		case <-f.queue.wake:
			f.flush(ctx)
		case <-ctx.Done():
			f.queue.close()
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
			defer cancel()
			f.flush(last)
			return
		}
	}
}

// flush writes what is queued; once ctx has ended, each attempt is the last one.
func (f *File) flush(ctx context.Context) {
	lines, events := f.take()
	if events == 0 {
		return
	}
	rest := f.write(ctx, lines)
	lost := bytes.Count(rest, []byte{'\n'})
	f.metrics.written.WithLabelValues(backendFile).Add(float64(events - lost))
	f.lost(dropStop, lost)
	f.queue.done(lines, lost > 0)
}

// write writes lines, again and again where that fails, and returns those that were not written when ctx ended. A line of which only a part
// was written, as on a full disk, is written again as a whole, on a line of its own.
func (f *File) write(ctx context.Context, lines []byte) (rest []byte) {
	for broken := false; len(lines) > 0; {
		var err error
		if broken {
			_, err = f.out.Write([]byte{'\n'})
		}
		if err == nil {
			broken = false
			part := lines[:end(lines)]
			var n int
			n, err = f.out.Write(part)
			if err != nil { // only whole lines count
				whole := bytes.LastIndexByte(part[:n], '\n') + 1
				n, broken = whole, n > whole
			}
			lines = lines[n:]
		}
		if err == nil {
			f.fault.Store(nil)
			continue
		}
		if f.fault.Swap(&err) == nil {
			klog.ErrorS(err, "The audit log can't be written; events wait until it can")
		}
		select {
		case <-ctx.Done():
			return lines
		case <-time.After(writePause):
		}
	}
	return nil
}

// end returns the length of the whole lines at the beginning that are written at once.
func end(lines []byte) int {
	if len(lines) <= chunk {
		return len(lines)
	}
	if n := bytes.LastIndexByte(lines[:chunk], '\n'); n >= 0 {
		return n + 1
	}
	return bytes.IndexByte(lines, '\n') + 1
}
