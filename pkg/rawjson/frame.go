package rawjson

import (
	"bufio"
	"errors"
	"fmt"
	"io"
)

// ErrTooLong says that a value in a stream is longer than the reader takes.
var ErrTooLong = errors.New("the JSON value is too long")

// Reader reads the values of a stream one by one, such as the frames of a watch or the items of a
// list, so that no more than one of them is in memory. It finds where a value ends; whether it is
// valid is left to who reads it.
type Reader struct {
	in  *bufio.Reader
	buf []byte
	max int
}

// NewReader returns a reader of in, which takes values of up to maxBytes.
func NewReader(in io.Reader, maxBytes int) *Reader {
	return &Reader{in: bufio.NewReaderSize(in, 64<<10), max: maxBytes}
}

// Value returns the next value. The error is io.EOF where the stream ends before one begins, and
// io.ErrUnexpectedEOF within one.
func (r *Reader) Value() (string, error) {
	c, err := r.Peek()
	if err != nil {
		return "", err
	}
	r.buf = r.buf[:0]
	if c == '{' || c == '[' {
		err = r.nested()
	} else {
		err = r.scalar(c)
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return string(r.buf), err
}

// Token reads one of the bytes { } [ ] : , and fails on any other.
func (r *Reader) Token() (byte, error) {
	c, err := r.Peek()
	if err != nil {
		return 0, err
	}
	switch c {
	case '{', '}', '[', ']', ':', ',':
		_, err = r.in.Discard(1)
		return c, err
	}
	return 0, fmt.Errorf("%w: unexpected %q between values", ErrSyntax, c)
}

// Peek returns the next byte that is no white space, and leaves it.
func (r *Reader) Peek() (byte, error) {
	for {
		c, err := r.in.ReadByte()
		if err != nil {
			return 0, err
		}
		switch c {
		case ' ', '\n', '\t', '\r':
			continue
		}
		return c, r.in.UnreadByte()
	}
}

// nested reads up to the bracket that closes the first one.
func (r *Reader) nested() error {
	var d depth
	for {
		if _, err := r.in.Peek(1); err != nil {
			return err
		}
		chunk, err := r.in.Peek(r.in.Buffered())
		if err != nil {
			return err
		}
		n, done := d.scan(chunk)
		if err := r.keep(chunk[:n]...); err != nil {
			return err
		}
		if _, err := r.in.Discard(n); err != nil || done {
			return err
		}
	}
}

// scalar reads a string up to its quote, or a literal up to the byte that ends it.
func (r *Reader) scalar(first byte) error {
	for escaped := false; ; {
		c, err := r.in.ReadByte()
		if errors.Is(err, io.EOF) && first != '"' && len(r.buf) > 0 {
			return nil
		}
		if err != nil {
			return err
		}
		if first != '"' && ends(c) {
			if len(r.buf) == 0 {
				return fmt.Errorf("%w: unexpected %q instead of a value", ErrSyntax, c)
			}
			return r.in.UnreadByte()
		}
		if err := r.keep(c); err != nil {
			return err
		}
		if first == '"' && c == '"' && !escaped && len(r.buf) > 1 {
			return nil
		}
		escaped = c == '\\' && !escaped
	}
}

func ends(c byte) bool {
	switch c {
	case ' ', '\n', '\t', '\r', ',', '}', ']', ':', '{', '[', '"':
		return true
	}
	return false
}

func (r *Reader) keep(b ...byte) error {
	if len(r.buf)+len(b) > r.max {
		return fmt.Errorf("%w: over %d bytes", ErrTooLong, r.max)
	}
	r.buf = append(r.buf, b...)
	return nil
}

// depth follows brackets and strings over the chunks of one value.
type depth struct {
	open            int
	quoted, escaped bool
}

// scan returns how many bytes of b belong to the value, and whether it ends there.
func (d *depth) scan(b []byte) (n int, done bool) {
	for i := 0; i < len(b); i++ {
		c := b[i]
		switch {
		case d.escaped:
			d.escaped = false
		case d.quoted:
			switch c {
			case '"':
				d.quoted = false
			case '\\':
				d.escaped = true
			}
		case c == '"':
			d.quoted = true
		case c == '{' || c == '[':
			d.open++
		case c == '}' || c == ']':
			if d.open--; d.open == 0 {
				return i + 1, true
			}
		}
	}
	return len(b), false
}
