package pace_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"kapis.dev/ks-apiserver/tools/pace"
)

var errNotYet = errors.New("not yet")

func TestABoundIsOverByTheClockAndByTheQuestions(t *testing.T) {
	for name, c := range map[string]struct {
		asking time.Duration // what one question takes
		want   time.Duration
	}{
		"on an idle machine the clock decides": {0, time.Second},
		"what is slow is asked as often":       {200 * time.Millisecond, 20 * 200 * time.Millisecond},
		"what hangs ends at the limit":         {time.Hour, pace.Limit},
		"a question that takes a step is free": {pace.Step, time.Second + pace.Step},
		"one that takes longer than the bound": {2 * time.Second, 40 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				err := pace.Until(t.Context(), time.Second, func(ctx context.Context) error {
					select {
					case <-time.After(c.asking):
						return errNotYet
					case <-ctx.Done():
						return ctx.Err()
					}
				})
				got := time.Since(begun)
				if got < c.want-pace.Step || got > c.want+pace.Step {
					t.Errorf("over after %v, want %v", got, c.want)
				}
				if !errors.Is(err, errNotYet) && c.want != pace.Limit {
					t.Errorf("got %v, want the last error", err)
				}
			})
		})
	}
}

func TestWhatComesEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		if err := pace.Until(t.Context(), time.Second, func(context.Context) error {
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
		<-pace.After(t.Context(), time.Second, func(context.Context) error { return nil })
		if got := time.Since(begun); got < time.Second-pace.Step || got > time.Second+pace.Step {
			t.Errorf("over after %v, want a second", got)
		}
	})
}
