package installplan

import (
	"errors"
	"fmt"
	"time"

	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
)

// waiting is why nothing can be done for a plan now: a condition that is false. It is no failure of the program.
type waiting struct {
	condition, reason, message string
	// again is when to look again, 0 where a change of some object will say it.
	again time.Duration
}

func (w *waiting) Error() string { return w.message }

// waits returns a reason to wait until some object changes.
func waits(condition, reason, format string, args ...any) error {
	return waitsFor(0, condition, reason, format, args...)
}

// waitsFor returns a reason to wait for a while: no event tells its end.
func waitsFor(again time.Duration, condition, reason, format string, args ...any) error {
	return &waiting{condition: condition, reason: reason, message: fmt.Sprintf(format, args...), again: again}
}

// asWaiting returns err as a reason to wait.
func asWaiting(err error) (*waiting, bool) {
	var w *waiting
	return w, errors.As(err, &w)
}

// noted notes in a status why nothing can be done now, where err is that, and returns when to look again. Any other error is returned.
func noted(s *v1alpha1.InstallationStatus, err error, now time.Time) (again time.Duration, other error) {
	reason, ok := asWaiting(err)
	if !ok {
		return 0, err
	}
	say(s, reason.condition, false, reason.reason, reason.message, now)
	return reason.again, nil
}

// sooner returns the shorter of two times until something is looked at again; 0 is for never.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}
