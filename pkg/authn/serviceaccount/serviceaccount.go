// Package serviceaccount takes the tokens of Kubernetes service accounts, as kube-apiserver judges them.
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
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
)

const (
	// prefix begins the user name, and the sub, of every service account.
	prefix = "system:serviceaccount:"
	// maxToken is the longest token, in bytes, that is looked at.
	maxToken = 16 << 10
	// keepGood and keepBad are how long an answer of kube-apiserver is good.
	keepGood = 10 * time.Second
	keepBad  = 3 * time.Second
	// remembered bounds the answers, atOnce the questions under way, and waiting those who wait for one.
	remembered = 4096
	atOnce     = 8
	waiting    = 128
	// reviewTimeout bounds one question.
	reviewTimeout = 10 * time.Second
)

var (
	errRefused = errors.New("kube-apiserver does not accept the service account's token")
	errBusy    = errors.New("too many service accounts' tokens to be judged at once")
)

// Reviewer asks kube-apiserver about a token; the TokenReviews client is one.
type Reviewer interface {
	Create(ctx context.Context, r *authenticationv1.TokenReview, o metav1.CreateOptions) (*authenticationv1.TokenReview, error)
}

// Authenticator has service accounts' tokens judged by kube-apiserver, and remembers its answers for
// seconds. It asks about what looks like such a token only.
type Authenticator struct {
	reviews Reviewer
	now     func() time.Time
	answers *answers
}

var _ authenticator.Token = (*Authenticator)(nil)

// New makes an Authenticator with the clock now.
func New(reviews Reviewer, now func() time.Time) *Authenticator {
	return &Authenticator{reviews: reviews, now: now, answers: newAnswers()}
}

// AuthenticateToken returns the service account of a token.
func (a *Authenticator) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	if len(token) > maxToken {
		return nil, false, nil
	}
	c, ok := claims(token)
	if !ok {
		return nil, false, nil
	}
	u, err := a.answers.once(ctx, sha256.Sum256([]byte(token)), a.now, func(ctx context.Context) answer {
		u, err := a.review(ctx, token)
		now := a.now()
		if err != nil {
			return answer{err: err, until: now.Add(keepBad)}
		}
		until := now.Add(keepGood)
		if end := time.Unix(c.Expires, 0); c.Expires > 0 && end.Before(until) {
			until = end
		}
		return answer{user: u, until: until}
	})
	if err != nil {
		return nil, false, err
	}
	return &authenticator.Response{User: u}, true, nil
}

func (a *Authenticator) review(ctx context.Context, token string) (user.Info, error) {
	r, err := a.reviews.Create(ctx, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token},
	}, metav1.CreateOptions{})
	switch {
	case err != nil:
		return nil, fmt.Errorf("ask kube-apiserver about a service account's token: %w", err)
	case !r.Status.Authenticated || r.Status.Error != "":
		return nil, errRefused
	}
	u := r.Status.User
	if !strings.HasPrefix(u.Username, prefix) {
		return nil, errRefused // another kind of user has his own way in
	}
	extra := make(map[string][]string, len(u.Extra))
	for k, v := range u.Extra {
		extra[k] = v
	}
	return &user.DefaultInfo{Name: u.Username, UID: u.UID, Groups: slices.Clip(groups(u.Groups)), Extra: extra}, nil
}

// groups leaves out what no token may assert here.
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

type unverified struct {
	Subject string `json:"sub"`
	Expires int64  `json:"exp"`
}

// claims reads what a token says of itself, to tell whether kube-apiserver is to be asked. Nothing of
// it is believed; an exp can only shorten how long an answer is kept.
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
