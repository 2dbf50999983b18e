// Package webhook authorizes by a service over HTTPS, with the SubjectAccessReviews of authorization.k8s.io/v1 that kube-apiserver sends,
// too.
package webhook

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/request"
)

// maxAnswers bounds the cached answers, of about 1.5 KiB each at most.
const maxAnswers = 8192

// Options configure the service, and how long its answers hold.
type Options struct {
	// Kubeconfig is the file whose current context names the service, by an https URL, and how to log in there.
	Kubeconfig string
	// Timeout bounds one review, with its retries.
	Timeout time.Duration
	// AuthorizedTTL and UnauthorizedTTL are how long an answer that allows, and any other, is cached; 0 for not at all.
	AuthorizedTTL, UnauthorizedTTL time.Duration
	// FailOpen leaves the decision to the next authorizer if the service gives no answer. Otherwise that is an error, and the request is
	// denied.
	FailOpen bool
	// WorkspaceOf returns the workspace that a namespace is in, or "" for none.
	WorkspaceOf func(namespace string) string
	// GroupsOf returns the groups of a caller that the service is told; nil for all.
	GroupsOf func(user.Info) []string
	// Metrics is where reviews are counted.
	Metrics prometheus.Registerer
	// Now returns the time, for the cached answers.
	Now func() time.Time
}

// Authorizer asks the service. Its decisions assert no synthetic group: kube-apiserver decides by the caller's own rights there.
type Authorizer struct {
	Options
	url      string
	client   *http.Client
	answers  *cache.LRUExpireCache // of answer, by the SHA-256 of what was asked
	duration *prometheus.HistogramVec
}

// New reads the kubeconfig. It sends no request: the service may start later.
func New(o Options) (*Authorizer, error) {
	where, client, err := open(o.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig %s of the authorization webhook: %w", o.Kubeconfig, err)
	}
	a := &Authorizer{
		Options: o, url: where, client: client,
		answers: cache.NewLRUExpireCacheWithClock(maxAnswers, clock(o.Now)),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "ks_authorization_webhook_duration_seconds",
			Help:    "How long the authorization webhook took to answer; result is success or error.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}, []string{"result"}),
	}
	if err := o.Metrics.Register(a.duration); err != nil {
		return nil, fmt.Errorf("register metrics of the authorization webhook: %w", err)
	}
	return a, nil
}

// open returns the URL of the service that a kubeconfig names, and a client for it.
func open(file string) (string, *http.Client, error) {
	raw, err := (&clientcmd.ClientConfigLoadingRules{ExplicitPath: file}).Load()
	if err != nil {
		return "", nil, err
	}
	config, err := clientcmd.NewNonInteractiveClientConfig(*raw, "", &clientcmd.ConfigOverrides{}, nil).ClientConfig()
	if err != nil {
		return "", nil, err
	}
	u, err := url.Parse(config.Host)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil {
		return "", nil, errors.New("the server of its cluster must be an https URL: who answers there decides who may do what")
	}
	if config.Insecure {
		klog.InfoS("The certificate of the authorization webhook is not checked (insecure-skip-tls-verify): anyone on the path decides who"+
			" may do what",
			"kubeconfig", file)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return "", nil, err
	}
	client.CheckRedirect = func(*http.Request,
		[]*http.Request) error {
		return http.ErrUseLastResponse
	} // an answer comes from the service itself
	return config.Host, client, nil
}

// clock is a cache.Clock.
type clock func() time.Time

// Now implements cache.Clock.
func (c clock) Now() time.Time { return c() }

// answer is the cached part of a SubjectAccessReviewStatus.
type answer struct {
	allowed, denied bool
	reason          string
}

// Authorize asks the service, unless the answer to the same review is cached. If there is no answer and Options.FailOpen is false, it
// denies the request with an error of code 503.
func (a *Authorizer) Authorize(ctx context.Context, u user.Info, r *request.Info) (authz.Decision, error) {
	if u == nil || r == nil || u.GetName() == "" || r.Verb == "" { // S10
		return authz.Decision{Reason: "the request lacks a user, or what it asks for"}, nil
	}
	text, err := json.Marshal(&authorizationv1.SubjectAccessReview{
		TypeMeta: metav1.TypeMeta{APIVersion: authorizationv1.SchemeGroupVersion.String(), Kind: "SubjectAccessReview"},
		Spec:     a.spec(u, r),
	})
	if err != nil {
		return authz.Deny(""), fmt.Errorf("write a question to the authorization webhook: %w", err)
	}
	// JSON has no bytes that are not UTF-8: they are written as this escape, and the service would be asked about another name. A literal
	// U+FFFD is not escaped, and names have no backslash.
	if bytes.Contains(text, []byte(`\ufffd`)) {
		return authz.Deny("the request or its user has a name that is not UTF-8"), nil
	}
	key := sha256.Sum256(text)
	if known, ok := a.answers.Get(key); ok {
		return known.(answer).decision(), nil //nolint:forcetypeassert // nothing else is in there
	}
	got, err := a.ask(ctx, text)
	if err != nil {
		return a.failed(ctx, err)
	}
	ttl := a.UnauthorizedTTL
	if got.allowed {
		ttl = a.AuthorizedTTL
	}
	if ttl > 0 {
		a.answers.Add(key, got, ttl)
	}
	return got.decision(), nil
}

func (s answer) decision() authz.Decision {
	because := ""
	if s.reason != "" {
		because = ": " + s.reason
	}
	switch {
	case s.denied:
		return authz.Deny("forbidden by the authorization webhook" + because)
	case s.allowed:
		return authz.Allow("allowed by the authorization webhook"+because, "")
	}
	if s.reason == "" {
		return authz.Decision{}
	}
	return authz.Decision{Reason: "the authorization webhook does not allow it" + because}
}

// failed returns the decision if the service gave no answer. The error is only logged: it may name hosts of an internal network.
func (a *Authorizer) failed(ctx context.Context, err error) (authz.Decision, error) {
	if ctx.Err() != nil { // the caller has gone
		return authz.Deny(""), fmt.Errorf("ask the authorization webhook: %w", ctx.Err())
	}
	klog.ErrorS(err, "The authorization webhook gave no answer", "failOpen", a.FailOpen)
	if a.FailOpen {
		return authz.Decision{Reason: "the authorization webhook gave no answer"}, nil
	}
	e := apierrors.NewServiceUnavailable("the authorization webhook gave no answer: try again, and see the log of ks-apiserver")
	e.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: 1}
	return authz.Deny("the authorization webhook gave no answer"), e
}

// ask repeats a review until it is answered, for Timeout at most.
func (a *Authorizer) ask(ctx context.Context, text []byte) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, a.Timeout)
	defer cancel()
	for pause := 50 * time.Millisecond; ; pause *= 4 { // 50 and 200 ms: a service of several replicas may be rolling them out
		start := a.Now()
		got, again, err := a.post(ctx, bytes.NewReader(text))
		result := "success"
		if err != nil {
			result = "error"
		}
		a.duration.WithLabelValues(result).Observe(a.Now().Sub(start).Seconds())
		if err == nil || !again || pause > 200*time.Millisecond {
			return got, err
		}
		wait := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			wait.Stop()
			return answer{}, err
		case <-wait.C:
		}
	}
}
