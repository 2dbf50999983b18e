package terminal

import (
	"context"
	"fmt"
	"time"

	"github.com/coder/websocket"
)

// watch ends the session when a limit of time is reached, or the client is gone without a word.
func (s *Session) watch(ctx context.Context, end context.CancelCauseFunc) {
	started := time.Now()
	ping := time.NewTicker(pingEvery)
	defer ping.Stop()
	limits := []*limit{
		{most: s.options.Idle, since: func() time.Time { return time.Unix(0, s.typed.Load()) },
			soon: "this terminal closes in %v unless you type", over: ending(CodeIdle, "nothing was typed for %v", s.options.Idle)},
		{most: s.options.Max, since: func() time.Time { return started },
			soon: "this terminal closes in %v: terminals last no longer", over: ending(CodeTime, "terminals last %v at most", s.options.Max)},
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ping.C:
			if !s.alive(ctx) {
				end(ending(websocket.StatusGoingAway, "the client does not answer"))
				return
			}
		case <-timer.C:
			next := time.Hour
			for _, l := range limits {
				wait, text, over := l.check(time.Now())
				if over {
					end(l.over)
					return
				}
				if text != "" {
					s.toast(text)
				}
				next = min(next, wait)
			}
			timer.Reset(next)
		}
	}
}

// limit is a limit of time.
type limit struct {
	most  time.Duration // 0 for none
	since func() time.Time
	soon  string
	over  *Ending

	warned time.Time // what since was when the client was warned
}

// check returns how long to wait for the next check, what to tell the client now, and whether the limit is reached. A client is
// warned once, unless the time began again meanwhile.
func (l *limit) check(now time.Time) (wait time.Duration, text string, over bool) {
	if l.most <= 0 {
		return time.Hour, "", false
	}
	since := l.since()
	left := l.most - now.Sub(since)
	switch {
	case left <= 0:
		return 0, "", true
	case left > warning || l.most <= warning:
		if left > warning {
			left -= warning
		}
		return left, "", false
	case l.warned.Equal(since):
		return left, "", false
	}
	l.warned = since
	return left, fmt.Sprintf(l.soon, left.Round(time.Second)), false
}

// alive asks the client whether it is there. Where the process does not read, neither is the client, so its answer is not seen: then
// it counts as there, until a frame can't be sent.
func (s *Session) alive(ctx context.Context) bool {
	asked, cancel := context.WithTimeout(ctx, pingEvery)
	defer cancel()
	if s.conn.Ping(asked) == nil {
		s.heard.Store(time.Now().UnixNano())
		return true
	}
	return s.blocked.Load() || time.Since(time.Unix(0, s.heard.Load())) < gone
}
