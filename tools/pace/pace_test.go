package pace

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

var errNotYet = errors.New("not yet")

func TestABoundIsOverByTheClockAndByTheQuestions(t *testing.T) {
	for name, c := range map[string]struct {
		asking time.Duration // what one question takes
		want   time.Duration
	}{
		"on an idle machine the clock decides": {0, time.Second},
		"what is slow is asked as often":       {200 * time.Millisecond, 20 * 200 * time.Millisecond},
		"what hangs ends at the limit":         {time.Hour, Limit},
		"a question that takes a step is free": {Step, time.Second + Step},
		"one that takes longer than the bound": {2 * time.Second, 40 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				err := Until(t.Context(), time.Second, func(ctx context.Context) error {
					select {
					case <-time.After(c.asking):
						return errNotYet
					case <-ctx.Done():
						return ctx.Err()
					}
				})
				got := time.Since(begun)
				if got < c.want-Step || got > c.want+Step {
					t.Errorf("over after %v, want %v", got, c.want)
				}
				if !errors.Is(err, errNotYet) && c.want != Limit {
					t.Errorf("got %v, want the last error", err)
				}
			})
		})
	}
}

func TestWhatComesEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		if err := Until(t.Context(), time.Second, func(context.Context) error {
			if asked++; asked < 3 {
				return errNotYet
			}
			return nil
		}); err != nil || asked != 3 {
			t.Errorf("%v after %d questions", err, asked)
		}
	})
}

func TestAfterIsOverWhenTheBoundIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		<-After(t.Context(), time.Second, func(context.Context) error { return nil })
		if got := time.Since(begun); got < time.Second-Step || got > time.Second+Step {
			t.Errorf("over after %v, want a second", got)
		}
	})
}
