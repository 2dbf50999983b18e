package releasesync

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	"kapis.dev/ks-apiserver/pkg/chart"
)

// X33: whoever has releases in many members takes no more of the hub's memory than a few packages, however slow the members are; small ones wait for
// nobody.
func TestX33PackagesInMemoryAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const members, most = 40, mostInMemory / chart.MaxArchive
		var reading atomic.Int64
		sent, ended := make(chan struct{}), make(chan error, members)
		h := &Hub{Package: func(context.Context, *v2.ApplicationVersion) ([]byte, error) {
			reading.Add(1)
			return make([]byte, chart.MaxArchive), nil
		}}
		for range members {
			go func() {
				_, done, err := h.read(t.Context(), &v2.ApplicationVersion{})
				if err == nil {
					<-sent
					done()
				}
				ended <- err
			}()
		}
		if synctest.Wait(); reading.Load() != most {
			t.Errorf("%d packages are in memory, %d are the most", reading.Load(), most)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, _, err := h.read(ctx, &v2.ApplicationVersion{}); !errors.Is(err, context.Canceled) {
			t.Errorf("whose link has ended waits: %v", err)
		}
		close(sent)
		for range members {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		broken := errors.New("the bucket is away")
		h.Package = func(context.Context, *v2.ApplicationVersion) ([]byte, error) { return nil, broken }
		for range 2 * most {
			if _, _, err := h.read(t.Context(), &v2.ApplicationVersion{}); !errors.Is(err, broken) {
				t.Fatal(err)
			}
		}
		h.Package = func(context.Context, *v2.ApplicationVersion) ([]byte, error) { return []byte("small"), nil }
		for range 4 * most { // none of them is done
			if _, _, err := h.read(t.Context(), &v2.ApplicationVersion{}); err != nil {
				t.Fatal(err)
			}
		}
	})
}
