// Package fairqueue bounds how many writes of one user the admission webhooks work on at once. One process answers for all kinds, and what
// it is sent is as large as the objects are: without a bound, whoever may write large objects of one kind makes the writes of all others
// wait.
package fairqueue

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kapis.dev/ks-apiserver/pkg/inflight"
	"kapis.dev/ks-apiserver/pkg/rawjson"
)

const (
	// atOnce is how many writes of one user are worked on. Some of the work waits for kube-apiserver or a repository, so that one would be
	// too few.
	atOnce = 4
	// maxWaiting and maxWaitingBytes bound how many more of one user wait, and what they take in memory.
	maxWaiting, maxWaitingBytes = 100, 16 << 20
	// maxWait is how long a write waits. kube-apiserver gives up after 10 s, with an error that does not say why.
	maxWait = 8 * time.Second
	// maxReview is what kube-apiserver sends at most: two objects of 3 MiB, and little else.
	maxReview = 7 << 20
)

// Queue is the queues of all users, for all webhooks of a process.
type Queue struct {
	mu      sync.Mutex
	writers map[string]*writer
}

// writer is a user, or the service accounts of a namespace: whoever may create one there can create any number.
type writer struct {
	turns          chan struct{} // has what is worked on
	waiting, bytes int
	users          int // requests that hold on to the writer
}

// New returns a Queue in which nobody waits.
func New() *Queue { return &Queue{writers: map[string]*writer{}} }

// Handler has a webhook answer when it is the turn of the user whose write it is asked about, and answers 429 where that takes too long.
// Until then nothing is decoded but the user's name.
func (q *Queue) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body strings.Builder
		if _, err := io.Copy(&body, http.MaxBytesReader(w, r.Body, maxReview)); err != nil {
			http.Error(w, "the AdmissionReview can't be read, or is too large", http.StatusBadRequest)
			return
		}
		text := body.String()
		request := rawjson.Get(text, "request")
		leave, ok := q.enter(r.Context(), inflight.OwnerOf(rawjson.GetText(request, "userInfo", "username")), len(text))
		if !ok {
			refuse(w, rawjson.GetText(request, "uid"))
			return
		}
		defer leave()
		r.Body = io.NopCloser(strings.NewReader(text))
		next.ServeHTTP(w, r)
	})
}

// enter waits for a turn of a writer. The caller calls leave at its end.
func (q *Queue) enter(ctx context.Context, of string, size int) (leave func(), ok bool) {
	q.mu.Lock()
	w := q.writers[of]
	if w == nil {
		w = &writer{turns: make(chan struct{}, atOnce)}
		q.writers[of] = w
	}
	select {
	case w.turns <- struct{}{}:
		w.users++
		q.mu.Unlock()
		return func() { <-w.turns; q.release(of, w) }, true
	default:
	}
	if w.waiting == maxWaiting || w.bytes+size > maxWaitingBytes {
		q.mu.Unlock()
		return nil, false
	}
	w.users++
	w.waiting++
	w.bytes += size
	q.mu.Unlock()

	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	select {
	case w.turns <- struct{}{}:
		ok = true
	case <-ctx.Done():
	}
	q.mu.Lock()
	w.waiting--
	w.bytes -= size
	q.mu.Unlock()
	if !ok {
		q.release(of, w)
		return nil, false
	}
	return func() { <-w.turns; q.release(of, w) }, true
}

// release forgets a writer of whom nothing is left.
func (q *Queue) release(of string, w *writer) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if w.users--; w.users == 0 {
		delete(q.writers, of)
	}
}

// refuse answers that the user has too many writes at once, in words that kube-apiserver passes on.
func refuse(w http.ResponseWriter, uid string) {
	review := admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"},
		Response: &admissionv1.AdmissionResponse{UID: types.UID(uid), Result: &metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusTooManyRequests, Reason: metav1.StatusReasonTooManyRequests,
			Message: "too many writes of this user are being checked at once: try again", Details: &metav1.StatusDetails{RetryAfterSeconds: 1},
		}},
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review) // kube-apiserver has gone if this fails
}
