// Package eventstream reads server-sent events of a cluster that is not trusted: each has a bound.
package eventstream

import (
	"bufio"
	"errors"
	"io"
	"strings"
)

// maxEvent bounds an event, in bytes.
const maxEvent = 4 << 20

// Event is one of a stream of server-sent events (WHATWG HTML, 9.2).
type Event struct{ Data, ID string }

// Reader reads events.
type Reader struct{ r *bufio.Reader }

// NewReader returns a reader of a stream.
func NewReader(from io.Reader) *Reader { return &Reader{r: bufio.NewReaderSize(from, 16<<10)} }

// ErrLong says that an event is longer than it may be.
var ErrLong = errors.New("the event is too long")

// Next returns the next event that has data or an id. The error is ErrLong, or of the stream, which does not end well.
func (r *Reader) Next() (e Event, err error) {
	var data []byte
	left := maxEvent
	for {
		line, err := r.line(&left)
		if err != nil {
			return e, err
		}
		if line == "" {
			if e.Data = string(data); e.Data != "" || e.ID != "" {
				return e, nil
			}
			continue
		}
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "data":
			data = append(data, value...)
		case "id":
			e.ID = value
		}
	}
}

// line reads a line of at most so many bytes, and takes them off.
func (r *Reader) line(left *int) (string, error) {
	var all []byte
	for {
		part, err := r.r.ReadSlice('\n')
		if *left -= len(part); *left < 0 {
			return "", ErrLong
		}
		all = append(all, part...)
		switch {
		case err == nil:
			return strings.TrimRight(string(all), "\r\n"), nil
		case !errors.Is(err, bufio.ErrBufferFull):
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return "", err //nolint:wrapcheck // its caller knows what is read
		}
	}
}
