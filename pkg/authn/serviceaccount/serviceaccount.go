// Package serviceaccount authenticates Kubernetes service accounts by their tokens, which kube-apiserver reviews.
//
// Anyone can write a token that claims to be a service account's, so few tokens are reviewed. A token that has expired, is for another
// audience, or is not signed by the key that it names is refused without a review. Tokens that the cluster has signed are reviewed apart
// from all others; of the others few are reviewed at a time, and fewer still for one address.
package serviceaccount

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/prometheus/client_golang/prometheus"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/authn/review"
	"kapis.dev/ks-apiserver/pkg/request"
)

const (
	// prefix begins the user name, and the sub, of every service account.
	prefix = "system:serviceaccount:"
	// maxToken is the longest token, in bytes, that is parsed.
	maxToken = 16 << 10
	// keepGood and keepBad are how long an answer of kube-apiserver is cached, and keepFault how long it is not asked again after it gave
	// none.
	keepGood  = 5 * time.Second
	keepBad   = 3 * time.Second
	keepFault = time.Second
	// leeway is how far clocks may differ; kube-apiserver allows as much.
	leeway = time.Minute
	// maxAnswers bounds the good answers, and the others.
	maxAnswers = 4096
)

var errRefused = errors.New("the service account's token is not accepted")

// errBusy returns the error for a token that may be good, but could not be reviewed now.
func errBusy() error {
	return apierrors.NewTooManyRequests("too many service account tokens are being verified: try again", 1)
}

// errUnavailable returns the error for a review that kube-apiserver did not answer. The reason is only logged.
func errUnavailable() error {
	e := apierrors.NewServiceUnavailable("service account tokens can't be verified, since kube-apiserver does not answer: try again")
	e.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: 1}
	return e
}

// Reviewer reviews a token at kube-apiserver; the TokenReviews client is one.
type Reviewer interface {
	Create(ctx context.Context, r *authenticationv1.TokenReview, o metav1.CreateOptions) (*authenticationv1.TokenReview, error)
}

// answer is whose a token is, or why it is nobody's.
type answer = review.Answer[user.Info]

// Options configure an Authenticator.
type Options struct {
	Reviews Reviewer
	// Keys returns the keys by which the cluster signs service accounts' tokens, as a JWK Set; nil if they can't be read.
	Keys func(context.Context) ([]byte, error)
	// OwnToken returns the token by which this server authenticates at kube-apiserver, or "" if it is no service account's; nil for none.
	OwnToken func() string
	// Now returns the time.
	Now func() time.Time
	// Metrics gets the counters; nil for none.
	Metrics prometheus.Registerer
}

// Authenticator has service accounts' tokens reviewed by kube-apiserver, and caches its answers for seconds. It reviews only tokens that
// fetchKeys like a service account's.
type Authenticator struct {
	Options
	answers *review.Cache[user.Info]
	// genuine has the reviews of tokens that the cluster has signed, counted for each service account, and doubtful those of all others,
	// counted for each address.
	genuine, doubtful *review.Queue[user.Info]
	sources           *review.Sources
	cluster           atomic.Pointer[cluster]
	wanted            chan struct{}
	results           *prometheus.CounterVec
}

var _ authenticator.Token = (*Authenticator)(nil)

// New returns an Authenticator. It knows the cluster's keys once Run has read them.
func New(o Options) (*Authenticator, error) {
	a := &Authenticator{
		Options: o, answers: review.NewCache[user.Info](maxAnswers), sources: review.NewSources(), wanted: make(chan struct{}, 1),
		genuine:  review.NewQueue[user.Info](review.Bounds{AtOnce: 8, AtOnceOfOne: 4, MostWaiting: 1024, MostOfOne: 256, Busy: errBusy}),
		doubtful: review.NewQueue[user.Info](review.Bounds{AtOnce: 4, AtOnceOfOne: 2, MostWaiting: 64, MostOfOne: 16, Busy: errBusy}),
		results: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ks_serviceaccount_tokens_total", Help: "Tokens of service accounts of which no answer was remembered, by what came of them."},
			[]string{"result"}),
	}
	if o.Metrics != nil {
		if err := o.Metrics.Register(a.results); err != nil {
			return nil, fmt.Errorf("register metrics of service accounts' tokens: %w", err)
		}
	}
	return a, nil
}

// AuthenticateToken returns the service account of a token. Its error is a Status of 429 or 503 if it could not be found out whether the
// token is good.
func (a *Authenticator) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	if len(token) > maxToken {
		return nil, false, nil
	}
	k := sha256.Sum256([]byte(token))
	got, ok := a.answers.Get(k, a.Now())
	if !ok {
		c, ok := claims(token)
		if !ok {
			return nil, false, nil
		}
		got = a.check(ctx, k, token, c)
	}
	if got.Err != nil {
		return nil, false, got.Err
	}
	return &authenticator.Response{User: got.Whose}, true, nil
}

// check verifies a token as far as possible without kube-apiserver, and has kube-apiserver review the rest.
func (a *Authenticator) check(ctx context.Context, k review.Key, token string, c unverified) answer {
	refused := func(why string) answer {
		a.results.WithLabelValues(why).Inc()
		return answer{Err: fmt.Errorf("%w: %s", errRefused, why)}
	}
	known := a.cluster.Load()
	switch {
	case c.Expires != 0 && a.Now().After(time.Unix(c.Expires, 0).Add(leeway)):
		return refused("expired")
	case !known.takes(c.Audience):
		return refused("audience")
	}
	switch known.signatureOf(token) {
	case forged:
		return refused("signature")
	case genuine:
		return a.ask(ctx, a.genuine, c.Subject, k, token, c)
	}
	a.want()
	source := request.NetworkOf(request.SourceFrom(ctx))
	if !a.sources.Take(source, a.Now()) {
		a.results.WithLabelValues("limited").Inc()
		return answer{Err: errBusy()}
	}
	got := a.ask(ctx, a.doubtful, source, k, token, c)
	if !errors.Is(got.Err, errRefused) {
		a.sources.Back(source, a.Now())
	}
	return got
}

// ask has kube-apiserver review a token, unless who, for whom the review is counted, has had too many.
func (a *Authenticator) ask(ctx context.Context, l *review.Queue[user.Info], who string, k review.Key, token string, c unverified) answer {
	got, err := l.Once(ctx, k, who, func(ctx context.Context) answer {
		if got, ok := a.answers.Get(k, a.Now()); ok { // it was cached in the meantime
			return got
		}
		got := a.review(ctx, token, c)
		a.answers.Put(k, got)
		return got
	})
	if err != nil {
		a.results.WithLabelValues("limited").Inc()
		return answer{Err: err}
	}
	return got
}

func (a *Authenticator) review(ctx context.Context, token string, c unverified) answer {
	r, err := a.Reviews.Create(ctx, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token},
	}, metav1.CreateOptions{})
	now := a.Now()
	switch {
	case err != nil:
		klog.V(2).InfoS("kube-apiserver could not be asked about a service account's token", "reason", err.Error())
		a.results.WithLabelValues("unavailable").Inc()
		return answer{Err: errUnavailable(), Until: now.Add(keepFault)}
	case !r.Status.Authenticated, r.Status.Error != "", !strings.HasPrefix(r.Status.User.Username,
		prefix): // other kinds of users have their own authenticators
		a.results.WithLabelValues("refused").Inc()
		return answer{Err: fmt.Errorf("%w by kube-apiserver", errRefused), Until: now.Add(keepBad)}
	}
	a.results.WithLabelValues("accepted").Inc()
	u := r.Status.User
	extra := make(map[string][]string, len(u.Extra))
	for k, v := range u.Extra {
		extra[k] = v
	}
	until := now.Add(keepGood)
	if end := time.Unix(c.Expires, 0); c.Expires > 0 && end.Before(until) {
		until = end
	}
	who := &user.DefaultInfo{Name: u.Username, UID: u.UID, Groups: slices.Clip(groups(u.Groups)), Extra: extra}
	return answer{Whose: who, Until: until}
}

// groups returns the groups without those that no token may assert here.
func groups(in []string) []string {
	out := make([]string, 0, len(in)+1)
	for _, g := range in {
		if g != user.SystemPrivilegedGroup && !strings.HasPrefix(g, "kapis:") {
			out = append(out, g)
		}
	}
	if !slices.Contains(out, user.AllAuthenticated) {
		out = append(out, user.AllAuthenticated)
	}
	return out
}

// unverified is what a token claims.
type unverified struct {
	Subject  string           `json:"sub"`
	Expires  int64            `json:"exp"`
	Audience jwt.ClaimStrings `json:"aud"`
}

// claims reads a token's claims, to find out whether kube-apiserver has to review it. They are not trusted: they can only make the token
// be refused, or its answer be cached for a shorter time.
func claims(token string) (unverified, bool) {
	_, rest, ok := strings.Cut(token, ".")
	payload, signature, ok2 := strings.Cut(rest, ".")
	if !ok || !ok2 || signature == "" || strings.Contains(signature, ".") {
		return unverified{}, false
	}
	b, err := base64.RawURLEncoding.DecodeString(payload)
	if err != nil {
		return unverified{}, false
	}
	var c unverified
	if json.Unmarshal(b, &c) != nil || !strings.HasPrefix(c.Subject, prefix) {
		return unverified{}, false
	}
	return c, true
}
