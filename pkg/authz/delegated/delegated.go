// Package delegated leaves decisions to kube-apiserver, by SubjectAccessReviews whose answers are cached for seconds.
package delegated

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/status"
)

const (
	// allowedFor and deniedFor are how long an answer is valid.
	allowedFor = 10 * time.Second
	deniedFor  = 5 * time.Second
	// answersCached bounds the cached answers, of some 100 bytes each.
	answersCached = 16 << 10
	// timeout bounds one review.
	timeout = 5 * time.Second
	// inFlight bounds the reviews that are asked for at the same time.
	inFlight = 64
)

// Client creates SubjectAccessReviews.
type Client interface {
	Create(ctx context.Context, r *authorizationv1.SubjectAccessReview, o metav1.CreateOptions) (*authorizationv1.SubjectAccessReview, error)
}

// Options configure a Reviewer.
type Options struct {
	Client Client
	// Metrics is where reviews are counted.
	Metrics prometheus.Registerer
	// Now is the clock of the cache.
	Now func() time.Time
}

// Reviewer asks kube-apiserver what users may do.
type Reviewer struct {
	client   Client
	now      func() time.Time
	answers  *cache.LRUExpireCache // of bool, by the SHA-256 of the review
	places   chan struct{}
	duration *prometheus.HistogramVec
	cached   prometheus.Counter
}

// New returns a Reviewer.
func New(o Options) (*Reviewer, error) {
	r := &Reviewer{
		client: o.Client, now: o.Now, answers: cache.NewLRUExpireCacheWithClock(answersCached, clock(o.Now)), places: make(chan struct{}, inFlight),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "ks_aggregated_review_duration_seconds",
			Help:    "How long kube-apiserver took to answer the SubjectAccessReviews of the aggregated API; result is allowed, denied or error.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5},
		}, []string{"result"}),
		cached: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "ks_aggregated_review_cached_total",
			Help: "Decisions of the aggregated API that were made by a cached answer.",
		}),
	}
	for _, c := range []prometheus.Collector{r.duration, r.cached} {
		if err := o.Metrics.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics of the aggregated API: %w", err)
		}
	}
	return r, nil
}

// clock is a cache.Clock.
type clock func() time.Time

// Now implements cache.Clock.
func (c clock) Now() time.Time { return c() }

// Allowed reports whether a user may do something. The error is a 503: kube-apiserver gave no answer, and nothing is decided.
func (r *Reviewer) Allowed(ctx context.Context, u user.Info, what authorizationv1.ResourceAttributes) (bool, error) {
	if u == nil || u.GetName() == "" || what.Verb == "" || what.Resource == "" {
		return false, nil
	}
	extra := make(map[string]authorizationv1.ExtraValue, len(u.GetExtra()))
	for key, values := range u.GetExtra() {
		extra[key] = values
	}
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: u.GetName(), UID: u.GetUID(), Groups: u.GetGroups(), Extra: extra, ResourceAttributes: &what,
	}}
	text, err := json.Marshal(review.Spec)
	if err != nil {
		return false, fmt.Errorf("write a review: %w", err)
	}
	// JSON writes bytes that are not UTF-8 as this escape, and another user would be reviewed.
	if bytes.Contains(text, []byte(`\ufffd`)) {
		return false, nil
	}
	key := sha256.Sum256(text)
	if known, ok := r.answers.Get(key); ok {
		r.cached.Inc()
		return known.(bool), nil //nolint:forcetypeassert // nothing else is in there
	}
	allowed, err := r.ask(ctx, review)
	if err != nil {
		return false, err
	}
	life := deniedFor
	if allowed {
		life = allowedFor
	}
	r.answers.Add(key, allowed, life)
	return allowed, nil
}

// ask gets one answer. Allowed and denied at once is denied.
func (r *Reviewer) ask(ctx context.Context, review *authorizationv1.SubjectAccessReview) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	select {
	case r.places <- struct{}{}:
		defer func() { <-r.places }()
	case <-ctx.Done():
		return false, unavailable(ctx.Err())
	}
	start := r.now()
	got, err := r.client.Create(ctx, review, metav1.CreateOptions{})
	result := "denied"
	switch {
	case err != nil || got == nil:
		result = "error"
	case got.Status.Allowed && !got.Status.Denied:
		result = "allowed"
	}
	r.duration.WithLabelValues(result).Observe(r.now().Sub(start).Seconds())
	if result == "error" {
		return false, unavailable(err)
	}
	return result == "allowed", nil
}

// unavailable is the error of a review without an answer. Why there is none is only logged.
func unavailable(err error) error {
	klog.ErrorS(err, "A SubjectAccessReview of the aggregated API was not answered")
	return status.RetryAfter(1, status.Errorf(503, "kube-apiserver did not say whether the user may do that: try again"))
}
