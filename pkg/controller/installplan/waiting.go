package installplan

import (
	"errors"
	"fmt"
	"time"
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
	return &waiting{condition: condition, reason: reason, message: fmt.Sprintf(format, args...)}
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
