package httpcache

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func TestAReservationCountsWhatItIs(t *testing.T) {
	code := func(err error) int32 {
		var s apierrors.APIStatus
		if errors.As(err, &s) {
			return s.Status().Code
		}
		return 0
	}
	all := NewResponses(1<<20, 900<<10)
	f := all.Reserve()
	for _, step := range []struct {
		n, now int64
		code   int32
	}{{40 << 10, 0, 0}, {30 << 10, 70 << 10, 0}, {830 << 10, 900 << 10, 0}, {1, 900 << 10, 413}} {
		if err := f.Add(step.n); code(err) != step.code || all.inFlight.bytes.Load() != step.now {
			t.Errorf("%d more: %v, %d in flight", step.n, err, all.inFlight.bytes.Load())
		}
	}
	g := all.Reserve()
	if err := g.Add(200 << 10); code(err) != 429 || all.inFlight.bytes.Load() != 900<<10 {
		t.Errorf("%v, %d in flight", err, all.inFlight.bytes.Load())
	}
	g.Release()
	f.Release()
	f.Release()
	if n := all.inFlight.bytes.Load(); n != 0 {
		t.Errorf("%d left over", n)
	}
}
