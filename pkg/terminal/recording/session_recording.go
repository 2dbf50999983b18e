package recording

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/terminal"
)

const (
	// piece bounds the output in one event, in bytes.
	piece = 4 << 10
	// keptBuffer is the largest buffer that is reused; a larger one, from a burst, is freed.
	keptBuffer = 16 << 10
)

// recording is the recording of one session. It implements terminal.Recording.
type recording struct {
	of     *Recorder
	id     string
	began  time.Time
	opened chan error    // has one element: how opening ended
	wake   chan struct{} // has an element while there may be something to write
	room   chan struct{} // has an element when there may be room again
	done   chan struct{} // closed by End
	lost   chan struct{} // closed by fail

	mu      sync.Mutex
	subject terminal.Subject
	out, in text
	size    terminal.Size
	header  []byte // of the cast, until it is written; nil before the first event
	begun   bool   // there was an event
	buf     []byte // events that wait
	spare   []byte
	waiting int   // bytes in buf, and of what is being written
	length  int64 // of the cast, with what waits
	missing int   // bytes of events that were left out since the last marker
	cut     bool  // something was left out
	full    bool  // the limit of a cast is reached
	ended   bool
	end     ended
	failure error
	cancel  context.CancelCauseFunc // ends the session

	life context.Context // ends when nothing more is written
	die  context.CancelFunc
}

// ended says how a session ended; its Ending is nil if the session was never opened.
type ended struct {
	*terminal.Ending
	at      time.Time
	in, out int64
}

var (
	errRecordingLost = errors.New("the recording of this terminal is lost")
	errNoRoom        = errors.New("more is shown in all terminals than can be written")
)

// text turns bytes into the text of events.
type text struct {
	code   byte   // of the events
	part   []byte // the beginning of a character whose rest has not arrived
	redact *redactor
	flush  *time.Timer // records what redact holds
}

func newRecording(of *Recorder, id string, s terminal.Subject) *recording {
	rec := &recording{of: of, id: id, began: of.Now(), subject: s, size: terminal.Size{Width: defaultWidth, Height: defaultHeight},
		opened: make(chan error, 1), wake: make(chan struct{}, 1), room: make(chan struct{}, 1),
		done: make(chan struct{}), lost: make(chan struct{})}
	rec.life, rec.die = context.WithCancel(of.ending)
	rec.out.code, rec.in.code = codeOutput, codeInput
	if len(of.Redact) > 0 {
		rec.out.redact, rec.in.redact = &redactor{patterns: of.Redact}, &redactor{patterns: of.Redact}
	}
	return rec
}

// ID implements terminal.Recording.
func (rec *recording) ID() string { return rec.id }

// Over implements terminal.Recording.
func (rec *recording) Over(r *http.Request, by terminal.Executor) (*http.Request, terminal.Executor) {
	ctx, cancel := context.WithCancelCause(r.Context())
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if info := request.InfoFrom(ctx); info != nil {
		rec.subject.Namespace, rec.subject.Pod, rec.subject.Container = info.Namespace, info.Name, r.URL.Query().Get("container")
	}
	rec.cancel = cancel
	if rec.failure != nil {
		rec.endSession()
	}
	return r.WithContext(ctx), &executor{rec, by}
}

// endSession ends the session, in the mode Strict. It is called with mu held.
func (rec *recording) endSession() {
	if rec.of.Strict && rec.cancel != nil {
		rec.cancel(&terminal.Ending{Code: terminal.CodeUnrecorded, Exit: -1,
			Reason: "this terminal can't be recorded any more, and must be"})
	}
}

// fail ends the recording before the session, for which nothing more is recorded.
func (rec *recording) fail(err error) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	rec.failHere(err)
}

// failHere is fail with mu held.
func (rec *recording) failHere(err error) {
	if rec.failure != nil {
		return
	}
	rec.failure = err
	close(rec.lost)
	rec.of.held.Add(-int64(rec.waiting))
	rec.buf, rec.spare, rec.waiting = nil, nil, 0
	rec.die()
	rec.endSession()
}

// End implements terminal.Recording. The rest is written afterwards.
func (rec *recording) End(e *terminal.Ending, in, out int64) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if rec.ended {
		return
	}
	for _, t := range rec.texts() {
		rec.flushHeld(t)
		if t.flush != nil {
			t.flush.Stop()
		}
		if rest := t.rest(); rest != "" {
			rec.add(t.code, rest)
		}
	}
	if e != nil {
		rec.beginCast()
	}
	if rec.missing > 0 && !rec.full && rec.failure == nil {
		rec.enqueue(rec.marker(rec.of.Now().Sub(rec.began)))
	}
	rec.ended, rec.end = true, ended{e, rec.of.Now(), in, out}
	if rec.cancel != nil {
		rec.cancel(nil)
	}
	close(rec.done)
	late := time.AfterFunc(finishTimeout, rec.die)
	context.AfterFunc(rec.life, func() { late.Stop() })
}

// texts are the two texts of a recording: the output and the input.
func (rec *recording) texts() [2]*text { return [...]*text{&rec.out, &rec.in} }

// whole returns the text of p as far as it is known.
func (t *text) whole(p []byte) string {
	if t.redact != nil {
		p = t.redact.add(p)
	}
	return t.valid(p)
}

// valid returns p as valid UTF-8. A character that is cut waits for its rest.
func (t *text) valid(p []byte) string {
	if len(t.part) > 0 {
		p = append(t.part, p...)
		t.part = nil
	}
	if n := terminal.CutRune(p); n > 0 {
		t.part = append([]byte(nil), p[len(p)-n:]...)
		p = p[:len(p)-n]
	}
	return strings.ToValidUTF8(string(p), "\uFFFD")
}

// rest returns the last bytes, of a character that was not completed.
func (t *text) rest() string {
	rest := strings.ToValidUTF8(string(t.part), "\uFFFD")
	t.part = nil
	return rest
}

// put records p. In the mode Strict it waits for room, and fails where nothing can be recorded any more.
func (rec *recording) put(t *text, p []byte) error {
	for len(p) > 0 {
		n := min(len(p), piece)
		if err := rec.putPiece(t, p[:n]); err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

func (rec *recording) putPiece(t *text, p []byte) error {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if err := rec.await(); err != nil {
		return err
	}
	held := t.redact != nil && t.redact.waiting()
	if s := t.whole(p); s != "" {
		rec.add(t.code, s)
	}
	// From the first byte of a line on.
	if t.redact != nil && t.redact.waiting() && !rec.ended && (!held || bytes.ContainsAny(p, lineEnds)) {
		if t.flush == nil {
			t.flush = time.AfterFunc(hold, func() { rec.flushLate(t) })
		} else {
			t.flush.Reset(hold)
		}
	}
	if rec.unrecorded() {
		return errRecordingLost
	}
	return nil
}

// unrecorded reports whether output must be withheld because it would not be recorded (mode Strict).
func (rec *recording) unrecorded() bool { return rec.of.Strict && (rec.failure != nil || rec.full) }

// await waits for room in the mode Strict. It is called with mu held, which it releases meanwhile.
func (rec *recording) await() error {
	if !rec.of.Strict {
		return nil
	}
	var late *time.Timer
	for rec.failure == nil && (rec.waiting > maxWaiting/2 || rec.of.held.Load() > maxHeld/2) {
		if late == nil {
			late = time.NewTimer(stall)
			defer late.Stop()
		}
		rec.mu.Unlock()
		select {
		case <-rec.room:
		case <-rec.lost:
		case <-time.After(10 * time.Millisecond): // other recordings may have made room
		case <-late.C:
			rec.lose(fmt.Errorf("what is shown was not written for %v", stall))
		}
		rec.mu.Lock()
	}
	if rec.unrecorded() {
		return errRecordingLost
	}
	return nil
}

// lose ends the recording as fail does, and logs it for administrators.
func (rec *recording) lose(err error) {
	rec.of.failed(rec.id, err)
	rec.fail(err)
}

// flushLate records what was held for long enough.
func (rec *recording) flushLate(t *text) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if !rec.ended {
		rec.flushHeld(t)
	}
}

func (rec *recording) flushHeld(t *text) {
	if t.redact == nil {
		return
	}
	if s := t.valid(t.redact.flush()); s != "" {
		rec.add(t.code, s)
	}
}

// resize records the size of the terminal.
func (rec *recording) resize(size terminal.Size) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if !rec.begun {
		rec.size = size // that of the header
		return
	}
	if size != rec.size {
		rec.size = size
		rec.add(codeResize, fmt.Sprintf("%dx%d", size.Width, size.Height))
	}
}

// add queues an event, or counts it as left out where there is no room. It is called with mu held.
func (rec *recording) add(code byte, data string) {
	if rec.failure != nil || rec.ended {
		return
	}
	rec.beginCast()
	after := rec.of.Now().Sub(rec.began)
	line := appendEvent(nil, after, code, data)
	var marker []byte
	if rec.missing > 0 {
		marker = rec.marker(after)
	}
	n := len(marker) + len(line)
	switch {
	case rec.full || rec.length+int64(n) > rec.of.limit:
		rec.leaveOut(cutLimit, len(line))
		if !rec.full {
			rec.full = true
			rec.enqueue(rec.marker(after))
			rec.missing = 0
		}
		if rec.of.Strict {
			rec.endFull()
		}
		return
	case !rec.reserve(n):
		rec.leaveOut(cutFull, len(line))
		if rec.of.Strict { // there was room a moment ago: many recordings write at once
			rec.failHere(errNoRoom)
		}
		return
	}
	rec.missing = 0
	rec.queue(marker)
	rec.queue(line)
}

// beginCast makes the header before the first event.
func (rec *recording) beginCast() {
	if rec.begun {
		return
	}
	rec.begun = true
	rec.header = appendHeader(nil, rec.size, rec.began, title(rec.subject))
	rec.length = int64(len(rec.header))
}

// endFull ends a session whose recording has reached the size limit.
func (rec *recording) endFull() {
	if rec.cancel != nil {
		rec.cancel(&terminal.Ending{Code: terminal.CodeUnrecorded, Exit: -1,
			Reason: fmt.Sprintf("the recording of this terminal has %d MiB, as many as one may have: open another one", rec.of.limit>>20)})
	}
}

// leaveOut counts an event that is not recorded.
func (rec *recording) leaveOut(reason string, n int) {
	if rec.missing == 0 && (reason != cutLimit || !rec.full) {
		rec.of.metrics.cuts.WithLabelValues(reason).Inc()
	}
	rec.missing += n
	rec.cut = true
}

// marker returns the event that tells of a gap.
func (rec *recording) marker(after time.Duration) []byte {
	return appendEvent(nil, after, codeMarker, fmt.Sprintf("cut: %d bytes are missing here", rec.missing))
}

// reserve takes room for n queued bytes, and reports whether there was room.
func (rec *recording) reserve(n int) bool {
	if rec.waiting+n > maxWaiting {
		return false
	}
	if rec.of.held.Add(int64(n)) > maxHeld {
		rec.of.held.Add(-int64(n))
		return false
	}
	rec.waiting += n
	return true
}

// enqueue queues a line for which there is always room: there are two in a recording at most.
func (rec *recording) enqueue(line []byte) {
	rec.of.held.Add(int64(len(line)))
	rec.waiting += len(line)
	rec.queue(line)
}

func (rec *recording) queue(line []byte) {
	rec.buf = append(rec.buf, line...)
	rec.length += int64(len(line))
	signal(rec.wake)
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// title returns that of a cast.
func title(s terminal.Subject) string {
	where := s.Namespace + "/" + s.Pod
	if s.Container != "" {
		where += "/" + s.Container
	}
	if s.Node != "" {
		where = "node " + s.Node
	}
	return s.User + " @ " + where
}
