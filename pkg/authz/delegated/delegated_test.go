package delegated_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/authz/delegated"
	"kapis.dev/ks-apiserver/pkg/web"
)

// server answers reviews.
type server struct {
	asked  atomic.Int64
	answer func(authorizationv1.SubjectAccessReviewSpec) (authorizationv1.SubjectAccessReviewStatus, error)
}

func (s *server) Create(_ context.Context, r *authorizationv1.SubjectAccessReview, _ metav1.CreateOptions) (*authorizationv1.SubjectAccessReview,
	error) {
	s.asked.Add(1)
	status, err := s.answer(r.Spec)
	return &authorizationv1.SubjectAccessReview{Status: status}, err
}

func says(status authorizationv1.SubjectAccessReviewStatus, err error) *server {
	return &server{answer: func(authorizationv1.SubjectAccessReviewSpec) (authorizationv1.SubjectAccessReviewStatus, error) {
		return status, err
	}}
}

func reviewer(t *testing.T, s *server, now func() time.Time) *delegated.Reviewer {
	t.Helper()
	r, err := delegated.New(delegated.Options{Client: s, Metrics: prometheus.NewRegistry(), Now: now})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

var (
	ann  = &user.DefaultInfo{Name: "ann", UID: "1", Groups: []string{"ops"}, Extra: map[string][]string{"k": {"v"}}}
	pods = authorizationv1.ResourceAttributes{Verb: "list", Version: "v1", Resource: "pods", Namespace: "a"}
)

func TestAnswersAreCachedForSeconds(t *testing.T) { // O30
	for name, c := range map[string]struct {
		status authorizationv1.SubjectAccessReviewStatus
		want   bool
		life   time.Duration
	}{
		"Allowed":          {authorizationv1.SubjectAccessReviewStatus{Allowed: true}, true, 10 * time.Second},
		"Refused":          {authorizationv1.SubjectAccessReviewStatus{}, false, 5 * time.Second},
		"Denied":           {authorizationv1.SubjectAccessReviewStatus{Denied: true}, false, 5 * time.Second},
		"AllowedAndDenied": {authorizationv1.SubjectAccessReviewStatus{Allowed: true, Denied: true}, false, 5 * time.Second},
		"RefusedWithAnEvaluationError": {authorizationv1.SubjectAccessReviewStatus{EvaluationError: "a role is gone"}, false,
			5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Unix(1_000_000, 0)
			s := says(c.status, nil)
			r := reviewer(t, s, func() time.Time { return now })
			ask := func(want int64) {
				t.Helper()
				if got, err := r.Allowed(t.Context(), ann, pods); err != nil || got != c.want || s.asked.Load() != want {
					t.Errorf("got %v %v after %d reviews, want %v after %d", got, err, s.asked.Load(), c.want, want)
				}
			}
			ask(1)
			now = now.Add(c.life - time.Second)
			ask(1)
			now = now.Add(2 * time.Second)
			ask(2)
		})
	}
}

// Whatever distinguishes two users or two requests distinguishes their reviews.
func TestNoAnswerIsAnothers(t *testing.T) { // O30
	s := &server{answer: func(s authorizationv1.SubjectAccessReviewSpec) (authorizationv1.SubjectAccessReviewStatus, error) {
		a := s.ResourceAttributes
		return authorizationv1.SubjectAccessReviewStatus{Allowed: s.User == "ann" && s.UID == "1" && len(s.Groups) == 1 && s.Groups[0] == "ops" &&
			slices.Equal(s.Extra["k"], []string{"v"}) && *a == pods}, nil
	}}
	r := reviewer(t, s, time.Now)
	if ok, err := r.Allowed(t.Context(), ann, pods); !ok || err != nil {
		t.Fatal(ok, err)
	}
	for _, u := range []*user.DefaultInfo{
		{Name: "bob", UID: "1", Groups: ann.Groups, Extra: ann.Extra}, {Name: "ann", UID: "2", Groups: ann.Groups, Extra: ann.Extra},
		{Name: "ann", UID: "1", Extra: ann.Extra}, {Name: "ann", UID: "1", Groups: []string{"ops", "more"}, Extra: ann.Extra},
		{Name: "ann", UID: "1", Groups: ann.Groups}, {Name: "ann", UID: "1", Groups: ann.Groups, Extra: map[string][]string{"k": {"v", "w"}}},
		{Name: "ann\",\"uid\":\"1", Groups: ann.Groups, Extra: ann.Extra}, {}, {Name: "ann\xff", UID: "1", Groups: ann.Groups, Extra: ann.Extra},
	} {
		if ok, err := r.Allowed(t.Context(), u, pods); ok || err != nil {
			t.Errorf("%+v: %v %v", u, ok, err)
		}
	}
	for _, change := range []func(*authorizationv1.ResourceAttributes){
		func(a *authorizationv1.ResourceAttributes) { a.Namespace = "" }, func(a *authorizationv1.ResourceAttributes) { a.Namespace = "b" },
		func(a *authorizationv1.ResourceAttributes) { a.Verb = "watch" }, func(a *authorizationv1.ResourceAttributes) { a.Verb = "" },
		func(a *authorizationv1.ResourceAttributes) { a.Resource = "" }, func(a *authorizationv1.ResourceAttributes) { a.Resource = "secrets" },
		func(a *authorizationv1.ResourceAttributes) { a.Group = "metrics.k8s.io" }, func(a *authorizationv1.ResourceAttributes) { a.Name = "x" },
		func(a *authorizationv1.ResourceAttributes) { a.Version = "v2" },
	} {
		what := pods
		change(&what)
		if ok, err := r.Allowed(t.Context(), ann, what); ok || err != nil {
			t.Errorf("%+v: %v %v", what, ok, err)
		}
	}
	if ok, err := r.Allowed(t.Context(), nil, pods); ok || err != nil {
		t.Errorf("nobody: %v %v", ok, err)
	}
}

func TestAReviewWithoutAnAnswerIs503(t *testing.T) { // O30
	for _, err := range []error{
		errors.New("connection refused to 10.0.0.1"), apierrors.NewForbidden(authorizationv1.Resource("subjectaccessreviews"), "", errors.New("no role")),
		context.DeadlineExceeded,
	} {
		s := says(authorizationv1.SubjectAccessReviewStatus{Allowed: true}, err)
		r := reviewer(t, s, time.Now)
		for range 2 {
			ok, err := r.Allowed(t.Context(), ann, pods)
			if ok || err == nil || web.Status(err).Code != http.StatusServiceUnavailable {
				t.Errorf("got %v %v, want a 503", ok, err)
			}
		}
		if s.asked.Load() != 2 {
			t.Errorf("%d reviews: a failed one is not cached", s.asked.Load())
		}
	}
}

func TestReviewsInFlightAreBounded(t *testing.T) { // O30
	synctest.Test(t, func(t *testing.T) {
		var now atomic.Int64
		answer := make(chan struct{})
		s := &server{answer: func(authorizationv1.SubjectAccessReviewSpec) (authorizationv1.SubjectAccessReviewStatus, error) {
			now.Add(1)
			<-answer
			return authorizationv1.SubjectAccessReviewStatus{Allowed: true}, nil
		}}
		r := reviewer(t, s, time.Now)
		var all sync.WaitGroup
		for i := range 300 {
			all.Go(func() {
				what := pods
				what.Name = string(rune('a' + i))
				if ok, err := r.Allowed(t.Context(), ann, what); !ok || err != nil {
					t.Error(ok, err)
				}
			})
		}
		synctest.Wait() // until all of them wait, for an answer or for their turn
		if n := now.Load(); n != 64 {
			t.Errorf("%d reviews at once, want 64", n)
		}
		close(answer)
		all.Wait()
		if n := now.Load(); n != 300 {
			t.Errorf("%d reviews in all, want 300", n)
		}
	})
}
