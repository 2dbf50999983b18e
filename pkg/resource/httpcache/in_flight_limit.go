package httpcache

import (
	"context"
	"net/http"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kapis.dev/ks-apiserver/pkg/inflight"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/status"
)

// smallAnswer is the longest answer that is always accepted, and that needs no deadline where the buffers of its connection hold it: not
// by HTTP/2, whose clients decide how much of a stream they take.
const smallAnswer = 64 << 10

// largeAnswer is the longest answer that may use the last quarter of the bytes in flight, which is left to smaller ones.
const largeAnswer = 4 << 20

// Owner returns the owner that what is done for the request of ctx counts for, empty for a request without a user.
func Owner(ctx context.Context) string { return inflight.OwnerOf(userOf(ctx)) }

func userOf(ctx context.Context) string {
	if u := request.UserFrom(ctx); u != nil {
		return u.GetName()
	}
	return ""
}

// inFlight bounds the bytes of answers that are being written (U8), in all and of one owner.
type inFlight struct {
	max, maxOne int64

	mu    sync.Mutex
	bytes int64
	of    map[string]int64
}

// serviceAccounts is the owner as which all service accounts are counted a second time.
const serviceAccounts = "system:serviceaccounts"

// take counts n more bytes of an owner where that makes no more than most in all, and reports whether it did. An owner has at most half
// of all, or one longest answer, and so have all service accounts together: clients that read slowly keep nobody else from theirs.
func (l *inFlight) take(owner string, n, most int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	share, account := max(l.max/2, l.maxOne), inflight.IsServiceAccount(owner)
	if l.bytes+n > most || l.of[owner]+n > share || account && l.of[serviceAccounts]+n > share {
		return false
	}
	l.bytes += n
	l.of[owner] += n
	if account {
		l.of[serviceAccounts] += n
	}
	return true
}

func (l *inFlight) release(owner string, n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bytes -= n
	l.less(owner, n)
	if inflight.IsServiceAccount(owner) {
		l.less(serviceAccounts, n)
	}
}

func (l *inFlight) less(owner string, n int64) {
	if l.of[owner] -= n; l.of[owner] == 0 {
		delete(l.of, owner)
	}
}

// Reservation is the share of one answer.
type Reservation struct {
	limit *inFlight
	user  string // whose owner it counts for once it is no longer small
	bytes int64
}

// Add counts more bytes of an answer. The error is a 413 where the answer is too long, and a 429 where too many bytes are
// being written, to others or to the same owner.
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
	if !f.limit.take(inflight.OwnerOf(f.user), n, most) {
		return apierrors.NewTooManyRequests("other long answers are under way: ask again, or for pages with limit and page", 1)
	}
	f.bytes = total
	return nil
}

// Release returns all bytes.
func (f *Reservation) Release() {
	if f.bytes >= smallAnswer {
		f.limit.release(inflight.OwnerOf(f.user), f.bytes)
	}
	f.bytes = 0
}

func tooLong(most int64) error {
	return status.Errorf(http.StatusRequestEntityTooLarge,
		"the answer is longer than the %d bytes that one may have: ask for pages with limit and page, or for parts with fields", most)
}
