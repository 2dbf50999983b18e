package recording

import (
	"io"
	"net/http"

	"kapis.dev/ks-apiserver/pkg/terminal"
)

// executor runs a command, and records it.
type executor struct {
	rec *recording
	by  terminal.Executor
}

// shown records output before it is shown.
type shown struct {
	rec *recording
	to  io.Writer
}

// typed records input before the process gets it.
type typed struct {
	rec  *recording
	from io.Reader
}

// Exec implements terminal.Executor.
func (e *executor) Exec(r *http.Request, s terminal.Streams) error {
	ended := make(chan struct{})
	defer close(ended)
	if s.Stdout != nil {
		s.Stdout = &shown{e.rec, s.Stdout}
	}
	if s.Stdin != nil && e.rec.of.Input {
		s.Stdin = &typed{e.rec, s.Stdin}
	}
	if s.Sizes != nil {
		s.Sizes = e.rec.sizes(s.Sizes, ended)
	}
	return e.by.Exec(r, s)
}

// Write records p and writes it.
func (s *shown) Write(p []byte) (int, error) {
	if err := s.rec.put(&s.rec.out, p); err != nil {
		return 0, err
	}
	return s.to.Write(p)
}

// Read reads input and records it.
func (t *typed) Read(p []byte) (int, error) {
	n, err := t.from.Read(p)
	if n > 0 {
		if lost := t.rec.put(&t.rec.in, p[:n]); lost != nil {
			return 0, lost
		}
	}
	return n, err
}

// sizes passes terminal sizes on until the command ends. Only the newest size counts.
func (rec *recording) sizes(from <-chan terminal.Size, ended <-chan struct{}) <-chan terminal.Size {
	to := make(chan terminal.Size, 1)
	go func() {
		for {
			select {
			case <-ended:
				return
			case size := <-from:
				rec.resize(size)
				select {
				case <-to:
				default:
				}
				to <- size
			}
		}
	}()
	return to
}
