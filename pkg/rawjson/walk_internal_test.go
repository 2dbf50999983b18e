package rawjson

import (
	"errors"
	"io"
	"strings"
	"testing"
)

// frames returns at most one frame for each Read, as a watch does.
type frames []string

func (f *frames) Read(b []byte) (int, error) {
	if len(*f) == 0 {
		return 0, io.EOF
	}
	n := copy(b, (*f)[0])
	if (*f)[0] = (*f)[0][n:]; (*f)[0] == "" {
		*f = (*f)[1:]
	}
	return n, nil
}

// A watch event of more than largeBuffer once ended the process: the buffer was released, and then read.
func TestReaderGoesOnBehindALongValue(t *testing.T) {
	long := func(n int) string { return `{"a":"` + strings.Repeat("x", n) + `"}` }
	values := []string{`{}`, long(largeBuffer), `{"b":1}`, long(10 * largeBuffer), long(largeBuffer/2 - 9), long(largeBuffer - 9), `{}`}
	for name, read := range map[string]func(*Reader) (string, error){"Value": (*Reader).Value, "Line": (*Reader).Line} {
		t.Run(name, func(t *testing.T) {
			in := frames{}
			for _, v := range values {
				in = append(in, v+"\n")
			}
			r := NewReader(&in, 2<<20)
			for n, want := range values {
				if got, err := read(r); err != nil || got != want {
					t.Fatalf("value %d: %d bytes, %v, want %d", n, len(got), err, len(want))
				}
			}
			if _, err := read(r); !errors.Is(err, io.EOF) {
				t.Errorf("at the end: %v", err)
			}
			if len(r.buf) > largeBuffer {
				t.Errorf("the buffer still has %d bytes", len(r.buf))
			}
		})
	}
}
