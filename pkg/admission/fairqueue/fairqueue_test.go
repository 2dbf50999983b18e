package fairqueue_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	admissionv1 "k8s.io/api/admission/v1"

	"kapis.dev/ks-apiserver/pkg/admission/fairqueue"
)

// webhooks are handlers that work until they are told to end, and count what they work on.
type webhooks struct {
	handler http.Handler
	end     chan struct{}
	mu      sync.Mutex
	working map[string]int // by user
	most    map[string]int
	seen    atomic.Int64
}

func newWebhooks() *webhooks {
	w := &webhooks{end: make(chan struct{}), working: map[string]int{}, most: map[string]int{}}
	w.handler = fairqueue.New().Handler(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(rw, err.Error(), http.StatusBadRequest)
			return
		}
		by := review.Request.UserInfo.Username
		w.seen.Add(1)
		w.count(by, 1)
		defer w.count(by, -1)
		<-w.end
		fmt.Fprintf(rw, `{"response":{"uid":%q,"allowed":true}}`, review.Request.UID)
	}))
	return w
}

func (w *webhooks) count(by string, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.working[by] += n
	w.most[by] = max(w.most[by], w.working[by])
}

// write has the webhooks answer about a write of a user, and calls done with it.
func (w *webhooks) write(ctx context.Context, by, uid, object string, done func(*admissionv1.AdmissionResponse)) {
	user, _ := json.Marshal(by) //nolint:errchkjson // a text
	body := fmt.Sprintf(`{"kind":"AdmissionReview","request":{"uid":%q,"name":"userInfo","userInfo":{"username":%s},"object":%s}}`, uid, user, object)
	go func() {
		answer := httptest.NewRecorder()
		w.handler.ServeHTTP(answer, httptest.NewRequestWithContext(ctx, http.MethodPost, "/", strings.NewReader(body)))
		var review admissionv1.AdmissionReview
		if raw, err := io.ReadAll(answer.Body); err != nil || json.Unmarshal(raw, &review) != nil || review.Response == nil {
			review.Response = nil
		}
		done(review.Response)
	}()
}

const plan = `{"kind":"InstallPlan","request":{"userInfo":{"username":"ann"}}}`

func TestAFloodOfOneUserTakesNobodyElsesTurn(t *testing.T) { // O48
	synctest.Test(t, func(t *testing.T) {
		w := newWebhooks()
		var allowed, refused atomic.Int64
		for i := range 64 {
			w.write(t.Context(), "eve", fmt.Sprint("e", i), plan, func(r *admissionv1.AdmissionResponse) {
				if r != nil && r.Allowed {
					allowed.Add(1)
				} else {
					refused.Add(1)
				}
			})
		}
		synctest.Wait()
		if n := w.seen.Load(); n != 4 {
			t.Fatalf("%d of 64 writes of one user are worked on at once", n)
		}
		w.write(t.Context(), "ann", "a", plan, func(*admissionv1.AdmissionResponse) {})
		synctest.Wait()
		if n := w.working["ann"]; n != 1 { // nothing runs now
			t.Fatalf("%d writes of somebody else are worked on meanwhile", n)
		}
		close(w.end)
		synctest.Wait()
		if allowed.Load() != 64 || refused.Load() != 0 || w.most["eve"] != 4 {
			t.Errorf("%d are answered, %d refused, %d at once", allowed.Load(), refused.Load(), w.most["eve"])
		}
	})
}

func TestWhatWaitsIsBoundedAndAnsweredIntelligibly(t *testing.T) { // O48
	large := `{"data":"` + strings.Repeat("x", 3<<20) + `"}`
	for _, c := range []struct {
		claim        string
		object       string
		sent, atOnce int // how many are sent, and how many of them are refused before any is answered
		late         int // and how many after a while
	}{
		{"small ones", `{}`, 110, 6, 100},
		{"large ones", large, 20, 11, 5},
	} {
		t.Run(c.claim, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWebhooks()
				var refused atomic.Int64
				for i := range c.sent {
					uid := fmt.Sprint("e", i)
					w.write(t.Context(), "eve", uid, c.object, func(r *admissionv1.AdmissionResponse) {
						switch {
						case r == nil || string(r.UID) != uid:
							t.Errorf("the answer to %s is %v", uid, r)
						case !r.Allowed && (r.Result.Code != http.StatusTooManyRequests || r.Result.Details.RetryAfterSeconds == 0 || r.Result.Message == ""):
							t.Errorf("refused with %v", r.Result)
						case !r.Allowed:
							refused.Add(1)
						}
					})
				}
				synctest.Wait()
				if n := refused.Load(); n != int64(c.atOnce) {
					t.Errorf("%d are refused at once, want %d", n, c.atOnce)
				}
				time.Sleep(9 * time.Second) // of the bubble: less than kube-apiserver waits
				synctest.Wait()
				if n := refused.Load(); n != int64(c.atOnce+c.late) {
					t.Errorf("%d are refused after a while, want %d", n, c.atOnce+c.late)
				}
				close(w.end)
				synctest.Wait()
			})
		})
	}
}

// A namespace's service accounts are one writer, and a name that only looks like one is not.
func TestServiceAccountsOfANamespaceShareATurn(t *testing.T) { // O48
	synctest.Test(t, func(t *testing.T) {
		w := newWebhooks()
		for i := range 20 {
			for _, by := range []string{"system:serviceaccount:evil:%d", "system:serviceaccount:evil2:%d", "system:serviceaccounts:evil:%d"} {
				w.write(t.Context(), fmt.Sprintf(by, i), "u", `{}`, func(*admissionv1.AdmissionResponse) {})
			}
		}
		synctest.Wait()
		if n := w.seen.Load(); n != 4+4+20 {
			t.Errorf("%d are worked on, want 4 of each namespace, and 20 of other names", n)
		}
		close(w.end)
		synctest.Wait()
	})
}

// A write that nobody waits for any more gives its place to the next one.
func TestWhoLeavesHoldsNoPlace(t *testing.T) { // O48
	synctest.Test(t, func(t *testing.T) {
		w := newWebhooks()
		ctx, leave := context.WithCancel(t.Context())
		var answered atomic.Int64
		for range 104 {
			w.write(ctx, "eve", "u", `{}`, func(*admissionv1.AdmissionResponse) { answered.Add(1) })
		}
		synctest.Wait()
		leave()
		synctest.Wait()
		if n := answered.Load(); n != 100 {
			t.Fatalf("%d of 100 that waited are over", n)
		}
		for range 100 {
			w.write(t.Context(), "eve", "u", `{}`, func(r *admissionv1.AdmissionResponse) {
				if r == nil || !r.Allowed {
					t.Errorf("answered %v", r)
				}
			})
		}
		synctest.Wait()
		close(w.end)
		synctest.Wait()
	})
}
