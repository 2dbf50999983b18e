package stream

import (
	"net/http"
	"sync"
	"time"
)

// ProgressWriter writes an answer, which is cut off where the client does not receive one write within Options.Progress, or
// Options.Patience. Between two writes any time may pass, as it may not before a deadline of HTTP/2, which ends a quiet answer, too.
type ProgressWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	most    time.Duration

	mu    sync.Mutex
	timer *time.Timer
	until time.Time // of the write that is made; zero between two
}

// Progress returns the writer of an answer that need not be a stream. One goroutine uses it.
func (g *Guard) Progress(w http.ResponseWriter) *ProgressWriter {
	return &ProgressWriter{ResponseWriter: w, control: http.NewResponseController(w), most: g.options.Progress}
}

// Patience is Progress for an answer that somebody may read page by page, within Options.Patience.
func (g *Guard) Patience(w http.ResponseWriter) *ProgressWriter {
	return &ProgressWriter{ResponseWriter: w, control: http.NewResponseController(w), most: g.options.Patience}
}

// Unwrap serves http.ResponseController.
func (p *ProgressWriter) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// Write implements io.Writer.
func (p *ProgressWriter) Write(b []byte) (int, error) {
	p.begin()
	defer p.end()
	return p.ResponseWriter.Write(b)
}

// FlushError serves http.ResponseController.
func (p *ProgressWriter) FlushError() error {
	p.begin()
	defer p.end()
	return p.control.Flush()
}

func (p *ProgressWriter) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.until = time.Now().Add(p.most)
	if p.timer == nil {
		p.timer = time.AfterFunc(p.most, p.cut)
		return
	}
	p.timer.Reset(p.most)
}

func (p *ProgressWriter) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.until = time.Time{}
	p.timer.Stop()
}

// cut makes a write that waits fail. After the last one it does nothing: the connection may serve the next request. Nor does a timer that
// went off as a write ended end the next one.
func (p *ProgressWriter) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.until.IsZero() && !time.Now().Before(p.until) {
		_ = p.control.SetWriteDeadline(time.Unix(1, 0))
	}
}
