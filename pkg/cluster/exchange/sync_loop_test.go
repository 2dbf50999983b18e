package exchange_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kapis.dev/ks-apiserver/pkg/cluster/exchange"
)

// A member is asked at once, soon again while something is done there, rarely otherwise, and when something has changed; the same failure is told once.
func TestAMemberIsAskedAsOftenAsItNeeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex
		start := time.Now()
		changed, busy := false, true
		var fault error
		var asked []time.Duration
		var told []string
		r := &exchange.Rounds{
			Now: time.Now,
			Changed: func(context.Context) bool {
				mu.Lock()
				defer mu.Unlock()
				was := changed
				changed = false
				return was
			},
			Run: func(context.Context) (bool, error) {
				mu.Lock()
				defer mu.Unlock()
				asked = append(asked, time.Since(start))
				return busy, fault
			},
			Failed: func(err error) { told = append(told, err.Error()) },
		}
		done := make(chan struct{})
		const s, half = time.Second, 500 * time.Millisecond
		for i, step := range []struct {
			changed, busy bool
			fault         error
			lasts         time.Duration
			want          []time.Duration
		}{
			{false, true, nil, 4*s + half, []time.Duration{0, 2 * s, 4 * s}},
			{false, false, nil, 5 * s, []time.Duration{s + half}},
			{true, false, nil, s, []time.Duration{half}},
			{true, false, errors.New("it is away"), 17 * s, []time.Duration{half, 15*s + half}},
			{false, false, errors.New("it refuses"), 14 * s, []time.Duration{13*s + half}},
		} {
			mu.Lock()
			changed, busy, fault, asked, start = step.changed, step.busy, step.fault, nil, time.Now()
			mu.Unlock()
			if i == 0 {
				go func() { r.Follow(ctx); close(done) }()
			}
			time.Sleep(step.lasts)
			synctest.Wait()
			if !slices.Equal(asked, step.want) {
				t.Errorf("with %+v it was asked at %v", step, asked)
			}
		}
		if want := []string{"it is away", "it refuses"}; !slices.Equal(told, want) {
			t.Errorf("the failures that were told are %q, want %q", told, want)
		}
		cancel()
		<-done
	})
}

// What a member refuses is tried again less and less often, and what is another thing at once.
func TestWhatIsRefusedIsTriedLessOften(t *testing.T) {
	now := time.Unix(0, 0)
	r := exchange.Refusals{Now: func() time.Time { return now }}
	if why, early := r.Of("shop", "h"); early {
		t.Errorf("it is refused before it was tried: %q", why)
	}
	for _, wait := range []time.Duration{15 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute, 5 * time.Minute, 5 * time.Minute} {
		r.Add("shop", "h", "no room")
		now = now.Add(wait - 1)
		if why, early := r.Of("shop", "h"); !early || why != "no room" {
			t.Errorf("before %v have passed: %q, %v", wait, why, early)
		}
		if _, early := r.Of("shop", "other"); early {
			t.Error("another thing of the name waits")
		}
		now = now.Add(1)
		if _, early := r.Of("shop", "h"); early {
			t.Errorf("it waits longer than %v", wait)
		}
	}
	r.Forget("shop")
	r.Add("shop", "h", "no room")
	now = now.Add(15 * time.Second)
	if _, early := r.Of("shop", "h"); early {
		t.Error("what was forgotten counts")
	}
}
