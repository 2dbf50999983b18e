package rawjson

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"unsafe"
)

// ErrTooLong means that a value in a stream is longer than the reader accepts.
var ErrTooLong = errors.New("the JSON value is too long")

// Reader reads the values of a stream one by one, such as the frames of a watch or the items of a list, so that little more than one of
// them is in memory. It finds where a value ends; whether it is valid is left to its caller.
type Reader struct {
	in  io.Reader
	max int
	// buf[at:end] was read and is not yet returned.
	buf     []byte
	at, end int
	// err ends the stream after end.
	err error
}

const (
	// smallBuffer is a reader's first buffer; it grows with the values, and one larger than largeBuffer is released after a long value.
	smallBuffer = 4 << 10
	largeBuffer = 128 << 10
	// maxEmpty is how many reads may return neither data nor an error before the reader fails.
	maxEmpty = 100
)

// NewReader returns a reader of in that accepts values of up to maxBytes.
func NewReader(in io.Reader, maxBytes int) *Reader {
	return &Reader{in: in, max: maxBytes}
}

// Value returns the next value. The error is io.EOF if the stream ends before one begins, and io.ErrUnexpectedEOF within one. The text is
// a view of the reader's buffer: it is valid until the next call, and has to be copied to be retained.
func (r *Reader) Value() (string, error) { return r.value(false) }

// Line is Value for streams that have a line break after each value, such as watches: it searches for the break, which is much faster
// than following brackets. A value that doesn't look like an object that ends its line is read as Value reads it.
func (r *Reader) Line() (string, error) { return r.value(true) }

func (r *Reader) value(line bool) (string, error) {
	c, err := r.Peek()
	if err != nil {
		return "", err
	}
	var n int
	if c == '{' || c == '[' {
		n, err = r.nested(line)
	} else {
		n, err = r.scalar(c)
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return "", err
	}
	value := unsafe.String(&r.buf[r.at], n) // n > 0, and nothing writes to buf before the next call
	r.at += n
	return value, nil
}

// Token reads one of the bytes { } [ ] : , and fails on any other.
func (r *Reader) Token() (byte, error) {
	c, err := r.Peek()
	if err != nil {
		return 0, err
	}
	switch c {
	case '{', '}', '[', ']', ':', ',':
		r.at++
		return c, nil
	}
	return 0, fmt.Errorf("%w: unexpected %q between values", ErrSyntax, c)
}

// Peek returns the next byte that is no white space, without consuming it.
func (r *Reader) Peek() (byte, error) {
	for {
		for ; r.at < r.end; r.at++ {
			if c := r.buf[r.at]; !blank(c) {
				return c, nil
			}
		}
		if err := r.fill(); err != nil {
			return 0, err
		}
	}
}

func blank(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }

// fill reads more after the buffered bytes, and fails if there is no more or the value is too long.
func (r *Reader) fill() error {
	if r.err != nil {
		return r.err
	}
	rest := r.buf[r.at:r.end]
	if len(rest) == 0 && len(r.buf) > largeBuffer {
		r.buf = nil
	}
	r.at, r.end = 0, copy(r.buf, rest)
	if r.end > r.max {
		return fmt.Errorf("%w: over %d bytes", ErrTooLong, r.max)
	}
	if r.end == len(r.buf) {
		grown := make([]byte, max(smallBuffer, 2*len(r.buf)))
		copy(grown, r.buf)
		r.buf = grown
	}
	for range maxEmpty {
		n, err := r.in.Read(r.buf[r.end:])
		r.end += n
		r.err = err
		if n > 0 {
			return nil
		}
		if err != nil {
			return err
		}
	}
	r.err = io.ErrNoProgress
	return r.err
}

// nested returns the length of the object or array that comes next.
func (r *Reader) nested(line bool) (int, error) {
	var d depth
	seen, followed := 0, 0 // how much was searched for a line break, and how much for the end
	for {
		b := r.buf[r.at:r.end]
		if line {
			if at := bytes.IndexByte(b[seen:], '\n'); at >= 0 {
				if n := seen + at; b[0] == '{' && b[n-1] == '}' {
					return r.bounded(n)
				}
				line = false
			}
			seen = len(b)
		}
		// Without a break, bytes that end in a bracket may be all there is for now.
		if len(b) > 0 && (!line || b[len(b)-1] == '}') {
			n, done := d.scan(b[followed:])
			if followed += n; done {
				return r.bounded(followed)
			}
		}
		if err := r.fill(); err != nil {
			return 0, err
		}
	}
}

func (r *Reader) bounded(n int) (int, error) {
	if n > r.max {
		return 0, fmt.Errorf("%w: over %d bytes", ErrTooLong, r.max)
	}
	return n, nil
}

// scalar returns the length of the string, up to its quote, or of the literal, up to the byte that ends it.
func (r *Reader) scalar(first byte) (int, error) {
	n := 0
	for escaped := false; ; n++ {
		for n == r.end-r.at {
			if err := r.fill(); err != nil {
				if errors.Is(err, io.EOF) && first != '"' && n > 0 {
					return n, nil
				}
				return 0, err
			}
		}
		switch c := r.buf[r.at+n]; {
		case first == '"' && c == '"' && !escaped && n > 0:
			return r.bounded(n + 1)
		case first == '"':
			escaped = c == '\\' && !escaped
		case ends(c) && n == 0:
			return 0, fmt.Errorf("%w: unexpected %q instead of a value", ErrSyntax, c)
		case ends(c):
			return r.bounded(n)
		}
	}
}

func ends(c byte) bool {
	switch c {
	case ' ', '\n', '\t', '\r', ',', '}', ']', ':', '{', '[', '"':
		return true
	}
	return false
}

// depth follows brackets and strings over the chunks of one value.
type depth struct {
	open            int
	quoted, escaped bool
}

// scan returns how many bytes of b belong to the value, and whether it ends there.
func (d *depth) scan(b []byte) (n int, done bool) {
	for i := 0; i < len(b); i++ {
		if d.escaped {
			d.escaped = false
			continue
		}
		if d.quoted {
			if i = plain(b, i); i == len(b) {
				break
			}
		}
		switch c := b[i]; c {
		case '"':
			d.quoted = !d.quoted
		case '\\':
			d.escaped = d.quoted
		case '{', '[':
			if !d.quoted {
				d.open++
			}
		case '}', ']':
			if !d.quoted {
				if d.open--; d.open == 0 {
					return i + 1, true
				}
			}
		}
	}
	return len(b), false
}
