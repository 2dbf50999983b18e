package recording

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"time"

	"k8s.io/klog/v2"
)

// writer writes a recording. One goroutine has it.
type writer struct {
	rec    *recording
	store  Store
	sum    hash.Hash
	length int64 // of what is written
}

// write opens the recording, writes it until it has ended, and finishes it.
func (rec *recording) write() {
	defer rec.die()
	store, err := rec.of.Sink.Open(rec.life, rec.id, rec.sidecar(nil))
	if err != nil {
		rec.lose(err)
		rec.of.metrics.ended.WithLabelValues(resultFailed).Inc()
		rec.opened <- err
		return
	}
	rec.of.fault.Store(nil)
	rec.opened <- nil
	w := &writer{rec: rec, store: store, sum: sha256.New()}
	w.run()
	w.finish()
}

// run writes until the session has ended.
func (w *writer) run() {
	check := time.NewTicker(checkEvery)
	defer check.Stop()
	for {
		select {
		case <-w.rec.wake:
			w.drain()
		case <-check.C:
			if err := w.check(); err != nil {
				w.rec.lose(err)
			}
		case err := <-w.store.Lost():
			w.rec.lose(err)
		case <-w.rec.lost:
			select {
			case <-w.rec.done:
			case <-w.rec.of.ending.Done():
			}
			return
		case <-w.rec.done:
			w.drain()
			return
		case <-w.rec.of.ending.Done():
			return
		}
	}
}

// drain writes what waits.
func (w *writer) drain() {
	for {
		header, events := w.rec.take()
		if len(header)+len(events) == 0 {
			return
		}
		err := w.put(header, events)
		w.rec.wrote(events, err)
		if err == nil {
			continue
		}
		if gone := w.check(); gone != nil {
			err = gone
		} else if !w.rec.of.Strict {
			w.rec.of.failed(w.rec.id, err)
			select {
			case <-time.After(retryEvery):
				continue
			case <-w.rec.done:
				return
			case <-w.rec.lost:
				return
			}
		}
		w.rec.lose(err)
		return
	}
}

// check reports whether what is written is still there. Of a folder on another machine it is the first that hangs: the kernel takes
// writes for a while.
func (w *writer) check() error {
	defer w.bounded("a check")()
	return w.store.Check()
}

// bounded ends a session that has to be recorded if something takes longer than stall, until the function that it returns is called.
func (w *writer) bounded(what string) (done func()) {
	if !w.rec.of.Strict {
		return func() {}
	}
	late := time.AfterFunc(stall, func() { w.rec.lose(fmt.Errorf("%s takes more than %v", what, stall)) })
	return func() { late.Stop() }
}

// put writes a header, unless it was written, and events.
func (w *writer) put(header, events []byte) error {
	defer w.bounded("a write")()
	all := events
	if len(header) > 0 {
		all = append(append(make([]byte, 0, len(header)+len(events)), header...), events...)
	}
	if err := w.store.Write(all); err != nil {
		return err
	}
	w.sum.Write(all)
	w.length += int64(len(all))
	return nil
}

// finish finishes the recording.
func (w *writer) finish() {
	rec := w.rec
	rec.mu.Lock()
	if rec.waiting > 0 { // it could not be written at last
		rec.of.held.Add(-int64(rec.waiting))
		rec.waiting, rec.buf, rec.cut = 0, nil, true
	}
	result := resultComplete
	switch {
	case rec.failure != nil:
		result = resultFailed
	case rec.cut:
		result = resultCut
	}
	opened := rec.end.Ending != nil
	rec.mu.Unlock()
	var meta []byte
	if opened {
		meta = rec.sidecar(&castFacts{Bytes: w.length, SHA256: hex.EncodeToString(w.sum.Sum(nil)), Complete: result == resultComplete})
	}
	ctx, cancel := context.WithTimeout(rec.of.ending, finishTimeout)
	defer cancel()
	if err := w.store.Finish(ctx, meta); err != nil && opened {
		rec.of.failed(rec.id, err)
		result = resultFailed
	}
	if opened {
		rec.of.metrics.ended.WithLabelValues(result).Inc()
		klog.InfoS("terminal recorded", "recording", rec.id, "result", result, "bytes", w.length)
	}
}

// take returns what is to be written: the header, if none was written yet, and the events that wait; nothing once the recording has failed.
func (rec *recording) take() (header, events []byte) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if rec.failure != nil {
		return nil, nil
	}
	events, rec.buf, rec.spare = rec.buf, rec.spare, nil
	return rec.header, events
}

// wrote says that events were written, or not because of err.
func (rec *recording) wrote(events []byte, err error) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if rec.failure != nil {
		return
	}
	rec.waiting -= len(events)
	rec.of.held.Add(-int64(len(events)))
	if cap(events) <= keptBuffer {
		rec.spare = events[:0]
	}
	if err == nil {
		rec.header = nil
		if rec.of.fault.Load() != nil {
			rec.of.fault.Store(nil)
		}
	} else {
		rec.length -= int64(len(events))
		if !rec.of.Strict {
			rec.leaveOut(cutWrite, len(events))
		}
	}
	signal(rec.room)
}
