package resource

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// deadlines is a client that records its deadlines, and accepts so many writes.
type deadlines struct {
	*httptest.ResponseRecorder
	set     []time.Time
	takes   int
	longest int
}

func (d *deadlines) SetWriteDeadline(t time.Time) error {
	d.set = append(d.set, t)
	return nil
}

func (d *deadlines) Write(p []byte) (int, error) {
	d.longest = max(d.longest, len(p))
	if d.takes--; d.takes < 0 {
		return 0, errors.New("i/o timeout")
	}
	return d.ResponseRecorder.Write(p)
}

func TestLongAnswersHaveADeadlineThatEndsWithThem(t *testing.T) {
	w := newWorld(t, map[string][]string{podsPath: padded(300, 5000)}, Options{})
	k, idle := w.resolve(t, "", "pods"), room(w.pages.Responses())
	get := httptest.NewRequest(http.MethodGet, "/", nil)
	for name, raw := range map[string]string{"Streamed": "", "Joined": "fields=.spec"} {
		t.Run(name, func(t *testing.T) {
			d, began := &deadlines{ResponseRecorder: httptest.NewRecorder(), takes: 1000}, time.Now()
			w.page(t, k, raw).Items().Respond(d, get)
			if n := len(d.set); n < 2 || d.set[0].Before(began.Add(time.Minute)) || !d.set[n-1].IsZero() {
				t.Errorf("deadlines from %v on: %v", began, d.set)
			}
			if d.longest > 1<<20 { // a client that reads 512 KiB in half a minute keeps its connection
				t.Errorf("%d bytes at once", d.longest)
			}
			d = &deadlines{ResponseRecorder: httptest.NewRecorder(), takes: 2}
			w.page(t, k, raw).Items().Respond(d, get)
			if n := len(d.set); n == 0 || d.set[n-1].IsZero() {
				t.Errorf("a connection whose client takes nothing has no deadline: %v", d.set)
			}
			if room(w.pages.Responses()) != idle {
				t.Error("the answer still counts")
			}
		})
	}
	d := &deadlines{ResponseRecorder: httptest.NewRecorder(), takes: 1000}
	if w.page(t, k, "limit=3").Items().Respond(d, get); len(d.set) != 0 {
		t.Errorf("a small answer has deadlines: %v", d.set)
	}
}

func TestAnAnswerThatCannotBeCompressedToItsEndIsAborted(t *testing.T) {
	w := newWorld(t, map[string][]string{podsPath: padded(1200, 4000)}, Options{})
	p := w.page(t, w.resolve(t, "", "pods"), "")
	get := httptest.NewRequest(http.MethodGet, "/", nil)
	get.Header.Set("Accept-Encoding", "gzip")
	idle := room(w.pages.Responses())
	defer func() {
		if r := recover(); r != http.ErrAbortHandler { //nolint:errorlint // it is this very value
			t.Errorf("got %v", r)
		}
		if room(w.pages.Responses()) != idle || w.pages.Responses().Compressors.Get() == nil {
			t.Error("the answer is not let go of")
		}
	}()
	p.Items().Respond(&deadlines{ResponseRecorder: httptest.NewRecorder(), takes: 3}, get)
}
