// Package drain ends a server without failing what it is doing: it counts the open requests, and says which step of a stop is reached.
package drain

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"kapis.dev/ks-apiserver/pkg/request"
)

// poll is how often open requests are looked for.
const poll = 50 * time.Millisecond

// Drain is the stop of a server. It counts the open requests, but for those for health, which go on while the others finish.
type Drain struct {
	// Announced is done once a stop was requested; Started once streams end and the last requests are waited for.
	Announced, Started context.Context
	// Announce and Begin reach these steps.
	Announce, Begin context.CancelFunc
	// Sleep waits between them: time.Sleep, but for tests.
	Sleep func(time.Duration)
	open  atomic.Int64
}

// New returns a Drain of a server that serves.
func New() *Drain {
	d := &Drain{Sleep: time.Sleep}
	d.Announced, d.Announce = context.WithCancel(context.Background())
	d.Started, d.Begin = context.WithCancel(context.Background())
	return d
}

// Fault returns an error once a stop was requested, for a check of health.
func (d *Drain) Fault() error {
	if d.Announced.Err() != nil {
		return errors.New("the server is stopping")
	}
	return nil
}

// Count counts the requests that next answers.
func (d *Drain) Count(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if d.Announced.Err() != nil && r.Header.Get("Upgrade") == "" {
			// The client's next request goes where it is led to then. HTTP/2 says this by GOAWAY (RFC 9113, 6.8), which net/http sends for it.
			w.Header().Set("Connection", "close")
		}
		if request.IsProbe(r.URL.Path) {
			next.ServeHTTP(w, r)
			return
		}
		d.open.Add(1)
		defer d.open.Add(-1)
		next.ServeHTTP(w, r)
	})
}

// Open returns how many requests are open.
func (d *Drain) Open() int64 { return d.open.Load() }

// Wait returns once no request is open, and reports whether that was before most had passed.
func (d *Drain) Wait(most time.Duration) bool {
	deadline := time.After(most)
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for d.open.Load() != 0 {
		select {
		case <-tick.C:
		case <-deadline:
			return d.open.Load() == 0
		}
	}
	return true
}
