package store_test

import (
	"math"
	"testing"

	"kapis.dev/ks-apiserver/pkg/store"
)

func TestCacheMemoryFollowsTheLimitOfTheProcess(t *testing.T) {
	for _, x := range []struct{ configured, limit, want int64 }{
		{0, math.MaxInt64, 0}, {0, 2 << 30, 858993458}, {800 << 20, math.MaxInt64, 800 << 20}, {800 << 20, 1 << 30, 800 << 20},
	} {
		if got := store.MemoryFor(x.configured, x.limit); got != x.want {
			t.Errorf("%d configured, a limit of %d: %d, want %d", x.configured, x.limit, got, x.want)
		}
	}
}
