// Package answertext reads answers of clusters as a whole, within bounds.
package answertext

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"unsafe"
)

// mostAtOnce bounds the room that is made for an answer because its cluster says how long it will be.
const mostAtOnce = 1 << 20

// Grow counts bytes that have been read of an answer. Its error ends the reading. Nil counts nothing.
type Grow func(n int) error

func (g Grow) add(n int) error {
	if g == nil || n == 0 {
		return nil
	}
	return g(n)
}

// Whole is the body of an answer whose text is had as a whole, in the place of what Read would return.
type Whole interface {
	io.ReadCloser
	// Text returns the text, of which more than most bytes are of no use, and End what the function End does.
	Text(most int64, grow Grow) (string, error)
	End() error
}

// Text returns the text of an answer; of one that has more than most bytes, one byte more than that. Where its length was said, it is not
// copied, and its end is not waited for: End does.
func Text(resp *http.Response, most int64, grow Grow) (string, error) {
	if b, ok := resp.Body.(Whole); ok {
		return b.Text(most, grow)
	}
	body := io.LimitReader(resp.Body, most+1)
	text := make([]byte, 0, min(max(resp.ContentLength, 0), most, mostAtOnce)+1) // and a byte for reading the end
	for {
		n, err := body.Read(text[len(text):cap(text)])
		if err := grow.add(n); err != nil {
			return "", err
		}
		switch text = text[:len(text)+n]; {
		case len(text) > 0 && int64(len(text)) == resp.ContentLength && (err == nil || errors.Is(err, io.EOF)):
			return unsafe.String(unsafe.SliceData(text), len(text)), nil // nothing writes to it any more
		case errors.Is(err, io.EOF): // there is room left, which would stay with the text
			return string(text), nil
		case err != nil:
			return "", fmt.Errorf("read an answer: %w", err)
		case len(text) == cap(text):
			text = slices.Grow(text, len(text)+bytes.MinRead)
		}
	}
}

var errNoEnd = errors.New("the answer does not end where it is said to")

// End returns an error unless an answer ends after what Text has read of it. Its end comes soon after the rest: who reads the text first
// does not wait for it.
func End(resp *http.Response) error {
	if b, ok := resp.Body.(Whole); ok {
		return b.End()
	}
	var more [1]byte
	for {
		switch n, err := resp.Body.Read(more[:]); {
		case n > 0:
			return errNoEnd
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("read the end of an answer: %w", err)
		}
	}
}

// IsJSON reports whether a header says that the answer is JSON, as it is.
func IsJSON(h http.Header) bool {
	media, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	return err == nil && media == "application/json" && h.Get("Content-Encoding") == ""
}
