// Package providertoken authenticates users by tokens of identity providers, such as the ID tokens that a CI system issues to its jobs.
package providertoken

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/authn/review"
	"kapis.dev/ks-apiserver/pkg/idp"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/status"
)

const (
	// maxToken is the longest token, in bytes, that is parsed.
	maxToken = 16 << 10
	// keepGood and keepBad are how long the answer of a provider that is asked about each token is cached, and keepFault how long it is not
	// asked again after it gave none.
	keepGood  = 5 * time.Second
	keepBad   = 3 * time.Second
	keepFault = time.Second
	// maxAnswers bounds the good answers, and the others.
	maxAnswers = 4096
)

// Options are what an Authenticator needs.
type Options struct {
	// Directory has the providers.
	Directory *idp.Directory
	Accounts  idp.Accounts
	// Own reports whether a token is evidently one of this server's, good or bad: it is sent to no provider.
	Own func(token string) bool
	// Now returns the time.
	Now func() time.Time
}

// Authenticator has tokens verified by the provider that they claim to be of, at each request. Providers on other servers are asked about a
// token once in seconds, about few at a time, and fewer still for one address.
type Authenticator struct {
	Options
	answers *review.Cache[*idp.Identity]
	queue   *review.Queue[*idp.Identity]
	sources *review.Sources
}

var _ authenticator.Token = (*Authenticator)(nil)

// New returns an Authenticator.
func New(o Options) *Authenticator {
	return &Authenticator{Options: o, answers: review.NewCache[*idp.Identity](maxAnswers), sources: review.NewSources(),
		queue: review.NewQueue[*idp.Identity](review.Bounds{AtOnce: 8, AtOnceOfOne: 4, MostWaiting: 256, MostOfOne: 32, Busy: errBusy})}
}

func errBusy() error {
	return apierrors.NewTooManyRequests("too many tokens of identity providers are being verified: try again", 1)
}

// errUnavailable returns the error for a token of which it can't be told now whether it is good.
func errUnavailable(of string) error {
	return status.RetryAfter(1, status.Errorf(http.StatusServiceUnavailable, "tokens %s can't be verified now: try again", of))
}

// AuthenticateToken returns the user for whom a provider issued the token. Its error is a Status of 429 or 503 if it could not be found out
// whether the token is good.
func (a *Authenticator) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	if len(token) > maxToken || a.Own(token) {
		return nil, false, nil
	}
	synced := a.Directory.Synced() // before the read: what arrives after it may be there already
	for _, e := range a.Directory.Bearers() {
		p := e.Provider.(idp.Bearer)
		if !p.Issued(token) {
			continue
		}
		var id *idp.Identity
		var err error
		if p.Remote() {
			id, err = a.ask(ctx, e.Name, p, token)
		} else {
			id, err = p.Bearer(ctx, token)
		}
		if errors.Is(err, idp.ErrUnavailable) {
			klog.V(2).InfoS("An identity provider could not be asked about a token", "provider", e.Name, "reason", err.Error())
			return nil, false, errUnavailable(fmt.Sprintf("of the identity provider %q", e.Name))
		}
		var u user.Info
		if err == nil {
			u, err = a.Accounts.Vouched(ctx, e, id)
		}
		if err != nil {
			return nil, false, fmt.Errorf("a token of the identity provider %q: %w", e.Name, err)
		}
		return &authenticator.Response{User: u}, true, nil
	}
	if !synced { // it may be one of a provider that is not known yet
		return nil, false, errUnavailable("of identity providers")
	}
	return nil, false, nil
}

// ask returns the answer of a provider that is asked about each token, or the cached one.
func (a *Authenticator) ask(ctx context.Context, provider string, p idp.Bearer, token string) (*idp.Identity, error) {
	k := keyOf(provider, token)
	if got, ok := a.answers.Get(k, a.Now()); ok {
		return got.Whose, got.Err
	}
	source := request.NetworkOf(request.SourceFrom(ctx))
	if !a.sources.Take(source, a.Now()) {
		return nil, errBusy()
	}
	got, err := a.queue.Once(ctx, k, source, func(ctx context.Context) review.Answer[*idp.Identity] {
		if got, ok := a.answers.Get(k, a.Now()); ok { // it was cached in the meantime
			return got
		}
		id, err := p.Bearer(ctx, token)
		keep := keepGood
		switch {
		case errors.Is(err, idp.ErrUnavailable):
			keep = keepFault
		case err != nil:
			keep = keepBad
		}
		got := review.Answer[*idp.Identity]{Whose: id, Err: err, Until: a.Now().Add(keep)}
		a.answers.Put(k, got)
		return got
	})
	if err == nil {
		err = got.Err
	}
	if !errors.Is(err, idp.ErrRefused) {
		a.sources.Back(source, a.Now())
	}
	return got.Whose, err
}

// keyOf returns the key of a cached answer: a hash of both hashes, so that no other pair has it.
func keyOf(provider, token string) review.Key {
	name, text := sha256.Sum256([]byte(provider)), sha256.Sum256([]byte(token))
	return sha256.Sum256(append(name[:], text[:]...))
}
