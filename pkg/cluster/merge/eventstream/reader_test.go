package eventstream_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/cluster/merge/eventstream"
)

// F38: an event that is longer than it may be, or cut off, is none.
func TestEventsAreWholeAndHaveABound(t *testing.T) {
	r := eventstream.NewReader(strings.NewReader(": ping\nid: 7\n\nevent: x\ndata: {\"a\":\ndata: 1}\r\nid: 8\n\ndata: cut"))
	for _, want := range []eventstream.Event{{ID: "7"}, {Data: `{"a":1}`, ID: "8"}} {
		if got, err := r.Next(); err != nil || got != want {
			t.Errorf("%+v, %v, want %+v", got, err, want)
		}
	}
	if got, err := r.Next(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%+v, %v", got, err)
	}
	for name, text := range map[string]string{"one line": "data: " + strings.Repeat("x", 5<<20), "many lines": strings.Repeat("data: x\n", 1<<20),
		"many comments": strings.Repeat(": x\n", 2<<20)} {
		if _, err := eventstream.NewReader(strings.NewReader(text)).Next(); !errors.Is(err, eventstream.ErrLong) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// F38: whatever a cluster sends, each event has data or an id, in one line, and reading ends.
func FuzzNext(f *testing.F) {
	f.Add("data: x\nid: 1\n\n: ping\n\n\r\ndata\n\n")
	f.Fuzz(func(t *testing.T, text string) {
		r := eventstream.NewReader(strings.NewReader(text))
		for read := 0; ; read++ {
			e, err := r.Next()
			if err != nil {
				return
			}
			if e == (eventstream.Event{}) || strings.Contains(e.Data+e.ID, "\n") || read > len(text) {
				t.Fatalf("%q after %d events of %q", e, read, text)
			}
		}
	})
}

// A stream of a cluster is read event by event, whatever it has, within the bound of an event.
func FuzzEvents(f *testing.F) {
	for _, seed := range []string{"", "data: x\n\n", "id: 1\ndata: {}\n\n: ping\n\n", "data\n\n\n", "id: \r\n\r\n", "data: a\ndata: b\nid: 7\n\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, size := eventstream.NewReader(strings.NewReader(text)), 0
		for {
			e, err := r.Next()
			if err != nil {
				return
			}
			if size += len(e.Data) + len(e.ID); e.Data == "" && e.ID == "" || size > len(text) {
				t.Fatalf("%q has %+v", text, e)
			}
		}
	})
}
