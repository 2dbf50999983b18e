package httpcache

import (
	"net/http"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kapis.dev/ks-apiserver/pkg/status"
)

// smallAnswer is the longest answer that is always accepted and needs no deadline: the buffers of a connection hold it.
const smallAnswer = 64 << 10

// largeAnswer is the longest answer that may use the last quarter of the bytes in flight, which is left to smaller ones.
const largeAnswer = 4 << 20

// inFlight bounds the bytes of answers that are being written (U8).
type inFlight struct {
	max, maxOne int64
	bytes       atomic.Int64
}

// Reservation is the share of one answer.
type Reservation struct {
	limit *inFlight
	bytes int64
}

// Add counts more bytes of an answer. The error is a 413 where the answer is too long, and a 429 where too many bytes are
// being written to others.
func (f *Reservation) Add(n int64) error {
	before := f.bytes
	total := before + n
	if total > f.limit.maxOne {
		return tooLong(f.limit.maxOne)
	}
	if total < smallAnswer {
		f.bytes = total
		return nil
	}
	if before < smallAnswer {
		n = total // it was not counted yet
	}
	most := f.limit.max
	if total > largeAnswer {
		most -= most / 4
	}
	if f.limit.bytes.Add(n) > most {
		f.limit.bytes.Add(-n)
		return apierrors.NewTooManyRequests("long answers to others are under way: ask again, or for pages with limit and page", 1)
	}
	f.bytes = total
	return nil
}

// Release returns all bytes.
func (f *Reservation) Release() {
	if f.bytes >= smallAnswer {
		f.limit.bytes.Add(-f.bytes)
	}
	f.bytes = 0
}

func tooLong(most int64) error {
	return status.Errorf(http.StatusRequestEntityTooLarge,
		"the answer is longer than the %d bytes that one may have: ask for pages with limit and page, or for parts with fields", most)
}
