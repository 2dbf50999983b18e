package audit

import (
	"context"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// O18: whoever waits learns that the event is in the file, that it is lost, or, at the end of the time to wait, that it is not there yet.
func TestWaitingForAnEventOfAFile(t *testing.T) {
	f, err := NewFile(FileOptions{Path: filepath.Join(t.TempDir(), "audit.log"), MaxSize: 1, Metrics: newMetrics(t), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var run sync.WaitGroup
	run.Go(func() { f.Run(ctx) })
	for range 3 {
		if err := f.Submit(event("/a")).Wait(t.Context()); err != nil {
			t.Error(err)
		}
	}
	stop()
	run.Wait()
	if err := f.Submit(event("/a")).Wait(t.Context()); err == nil {
		t.Error("an event after the stop is written")
	}

	full := &File{backend: newBackend(backendFile, AppendJSON, 1, newMetrics(t), time.Now)}
	ended, end := context.WithCancel(t.Context())
	full.out = &disk{full: end}
	waiting := full.Submit(event("/a"))
	full.flush(ended) // the disk is full until the server stops
	if err := waiting.Wait(t.Context()); err == nil {
		t.Error("an event that is lost is written")
	}
	late := full.Submit(event("/a"))
	if err := late.Wait(ended); err == nil {
		t.Error("an event that nobody has written yet is written")
	}
	full.out = &disk{room: 1 << 20}
	full.flush(t.Context())
	if err := late.Wait(t.Context()); err != nil {
		t.Errorf("an event that is late is not written: %v", err)
	}
}

// O18: an event that is awaited is posted at once, whatever the size and the interval of batches are; one that is refused is lost.
func TestWaitingForAnEventOfAWebhook(t *testing.T) {
	for name, c := range map[string]struct {
		answer int
		lost   bool
	}{"Accepted": {http.StatusOK, false}, "Refused": {http.StatusForbidden, true}} {
		v := receive(t, httptest.NewServer, func(w http.ResponseWriter, _ *http.Request, _ int) bool {
			w.WriteHeader(c.answer)
			return true
		})
		w, _ := startWebhook(t, WebhookOptions{URL: v.URL, Batch: 100, Interval: time.Hour, Senders: 2, Awaited: true})
		if err := w.Submit(event("/a")).Wait(t.Context()); (err != nil) != c.lost {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// O19: bodies are where each form has them.
func TestEventsHaveTheirBodies(t *testing.T) {
	e := event("/a")
	e.Bodies = &Bodies{Request: []byte(`{"a":1}`), Response: []byte(`{"b":2}`)}
	got := decoded(t, AppendJSON(nil, e))[0]
	if got.RequestObject == nil || string(got.RequestObject.Raw) != `{"a":1}` || string(got.ResponseObject.Raw) != `{"b":2}` {
		t.Errorf("%+v", got)
	}
	older := kubesphere(e)
	if string(older.RequestObject) != `{"a":1}` || string(older.ResponseObject) != `{"b":2}` {
		t.Errorf("%+v", older)
	}
	if c, _ := e.Compact(); c.Bodies != nil || e.Bodies == nil {
		t.Error("a compact copy has bodies, or the event lost them")
	}
}
