package audit

import (
	"strconv"
	"sync"
	"time"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// The bounds of a queue: what waits and what is being written together.
const (
	maxQueuedEvents = 10_000
	maxQueuedBytes  = 32 << 20
	// keptBuffer is the capacity above which a buffer is not kept after a burst.
	keptBuffer = 1 << 20
)

// queue has encoded events, one on each line, until a backend takes them all at once. It never blocks and never grows beyond its bounds:
// an event that does not fit is dropped, and counted.
type queue struct {
	wake   chan struct{} // has one element while there may be something to take
	encode Encode
	batch  int // events at which the backend is woken again, after the first one

	mu            sync.Mutex
	buf, spare    []byte
	events        int // in buf
	taken, taking int // events and bytes that the backend is writing
	lost          loss
	closed        bool
	// pending has the outcome of what is in buf, and writing that of what the backend is writing; nil where nobody waits for it.
	pending, writing *outcome
}

// outcome is whether events were written. done is closed when that is known; lost is set before, if one of them was not.
type outcome struct {
	done chan struct{}
	lost bool
}

// loss is how many events were dropped, and when.
type loss struct {
	number      int
	first, last time.Time
}

func newQueue(encode Encode, batch int) *queue {
	return &queue{wake: make(chan struct{}, 1), encode: encode, batch: batch}
}

// put appends the line of an event, and reports whether there was room.
func (q *queue) put(line []byte, at time.Time) bool {
	ok, _ := q.add(line, at, false)
	return ok
}

// add is put, which also returns the outcome if that is awaited and there was room.
func (q *queue) add(line []byte, at time.Time, awaited bool) (ok bool, _ *outcome) {
	q.mu.Lock()
	if q.closed || q.events+q.taken >= maxQueuedEvents || len(q.buf)+q.taking+len(line) > maxQueuedBytes {
		q.lost.add(1, at)
		q.mu.Unlock()
		return false, nil
	}
	q.buf = append(q.buf, line...)
	q.events++
	if awaited && q.pending == nil {
		q.pending = &outcome{done: make(chan struct{})}
	}
	due, result := q.events == 1 || q.events == q.batch, q.pending
	q.mu.Unlock()
	if due {
		q.signal()
	}
	return true, result
}

// take returns all lines that wait, and the number of events. They count against the bounds until done. What was dropped before is told by
// an event at the end.
func (q *queue) take() (lines []byte, events int, told loss) {
	q.mu.Lock()
	defer q.mu.Unlock()
	lines, events, told = q.buf, q.events, q.lost
	q.buf, q.spare, q.events, q.lost = q.spare[:0], nil, 0, loss{}
	if told.number > 0 {
		lines = append(q.encode(lines, told.event()), '\n')
		events++
	}
	q.taken, q.taking = events, len(lines)
	q.writing, q.pending = q.pending, nil
	return lines, events, told
}

// done returns the buffer of the lines that were taken, of which some may be lost.
func (q *queue) done(lines []byte, lost bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.taken, q.taking = 0, 0
	if w := q.writing; w != nil {
		w.lost, q.writing = lost, nil
		close(w.done)
	}
	if cap(lines) <= keptBuffer {
		q.spare = lines[:0]
	}
	if q.lost.number > 0 && q.events == 0 { // what was dropped meanwhile is told even if nothing else comes
		q.signal()
	}
}

// waiting returns how many events may be taken.
func (q *queue) waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.events
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// close refuses events from now on.
func (q *queue) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
}

func (l *loss) add(n int, at time.Time) {
	if l.number == 0 {
		l.first = at
	}
	l.number, l.last = l.number+n, at
}

// event returns the event that tells of the loss.
func (l loss) event() *Event {
	e := &Event{Level: auditv1.LevelMetadata, Stage: auditv1.StageResponseComplete, Verb: "dropped", Received: l.first, At: l.last}
	e.Annotate("kapis.dev/dropped", strconv.Itoa(l.number))
	e.Annotate("kapis.dev/dropped-first", l.first.UTC().Format(microTime))
	e.Annotate("kapis.dev/dropped-last", l.last.UTC().Format(microTime))
	return e
}
