package terminal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/session"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/token"
)

const (
	// KubectlClient is the OAuth client of the sessions of kubectl shells. Nobody logs in to it.
	KubectlClient = "kubectl-terminal"
	// kubectlLife is how long such a session lives, and its access token: what a killed server leaves is worth nothing after that.
	kubectlLife = 15 * time.Minute
	// renewLeast is the least time from one attempt to renew a session to the next.
	renewLeast = 20 * time.Second
	scopeAPI   = "api"
)

// KubectlLifetime returns how long sessions of KubectlClient live. None is refreshed.
func KubectlLifetime() session.Lifetime {
	return session.Lifetime{MaxAge: kubectlLife, Absolute: kubectlLife}
}

// Sessions opens and ends sessions. session.Store is one.
type Sessions interface {
	Find(ctx context.Context, name string) (*session.Session, *iam.User, error)
	Open(ctx context.Context, l session.Login) (s *session.Session, refresh string, err error)
	End(ctx context.Context, name, reason string) error
}

// Logins are the logins of kubectl shells: sessions in that of the caller, which end with it.
type Logins struct {
	Sessions Sessions
	Tokens   *token.Issuer
	// OriginOf returns where a request comes from.
	OriginOf func(*http.Request) iam.Origin
	Now      func() time.Time
}

// loginOf returns the session of the caller. It is an error if the caller is none who has logged in: an API key or a service account may
// not become a session, and the session of a kubectl shell may not open another, or a token that was stolen there would live on.
func loginOf(r *http.Request) (*session.Session, error) {
	u := request.UserFrom(r.Context())
	s := session.Of(u)
	switch {
	case s == nil, s.Registration != nil, s.User != u.GetName(), s.UserUID != u.GetUID():
		return nil, status.Forbiddenf("kubectl shells are for users who have logged in: %.200q has another credential", u.GetName())
	case s.Client == KubectlClient:
		return nil, status.Forbiddenf("a kubectl shell opens no other: log in")
	}
	return s, nil
}

// shellLogin is the login of one shell: a session after another, each of which has one access token.
type shellLogin struct {
	*Logins
	// in is the session that it is in, and request that of the shell.
	in      *session.Session
	request *http.Request

	current *session.Session // nil for none
}

// open opens another session, and returns its access token and the former session, nil for none, which does not end.
func (l *shellLogin) open(ctx context.Context) (access string, former *session.Session, err error) {
	former = l.current
	in, user, err := l.Sessions.Find(ctx, l.in.Name)
	if err != nil {
		return "", former, over(err)
	}
	now := l.Now().Truncate(time.Second)
	next, _, err := l.Sessions.Open(ctx, session.Login{
		AuthnResult: iam.AuthnResult{User: user, Provider: in.Provider, Groups: slices.Clone(in.Groups), Methods: in.Methods, At: now,
			Authenticated: in.Authenticated},
		Origin: l.OriginOf(l.request), Client: KubectlClient,
		// A session in a browser has no others in it: they are all in that of the browser.
		Parent: cmp.Or(in.Parent, in.Name),
		Scopes: []string{scopeAPI}, NoRefresh: true,
	})
	if err != nil {
		return "", former, over(err)
	}
	l.current = next
	access, err = l.Tokens.Access(&token.Access{Subject: next.UserUID, Username: next.User, Client: next.Client, Session: next.Name,
		Scopes: next.Scopes, Issued: now, Expires: KubectlLifetime().AccessExpiry(next, now).Truncate(time.Second)})
	return access, former, err
}

// over returns the answer for a session that is over.
func over(err error) error {
	if errors.Is(err, iam.ErrOver) {
		return status.Forbiddenf("the login has ended, or that of the browser which it was in: log in again")
	}
	return fmt.Errorf("log a kubectl shell in: %w", err)
}

// keep renews the session until ctx ends, when two thirds of its life are over; after a failure, of what is left. write hands the token
// over.
func (l *shellLogin) keep(ctx context.Context, write func(ctx context.Context, access string) error) {
	for {
		timer := time.NewTimer(max(renewLeast, l.current.Expires.Sub(l.Now())*2/3))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		if err := l.renew(ctx, write); err != nil && ctx.Err() == nil {
			klog.ErrorS(err, "The login of a kubectl shell was not renewed; it is tried again", "user", l.in.User)
		}
	}
}

// renew replaces the session, unless the token of the next one can't be handed over.
func (l *shellLogin) renew(ctx context.Context, write func(ctx context.Context, access string) error) error {
	access, former, err := l.open(ctx)
	if err == nil {
		err = write(ctx, access)
	}
	switch {
	case err != nil && l.current != former:
		l.end(ctx, l.current)
		l.current = former
	case err == nil:
		l.end(ctx, former)
	}
	return err
}

// close ends the session.
func (l *shellLogin) close(ctx context.Context) {
	if l.current != nil {
		l.end(ctx, l.current)
		l.current = nil
	}
}

func (l *shellLogin) end(ctx context.Context, s *session.Session) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanup)
	defer cancel()
	if err := l.Sessions.End(ctx, s.Name, "terminal closed"); err != nil {
		klog.ErrorS(err, "The login of a kubectl shell that was closed did not end; it expires", "user", s.User, "expires", s.Expires)
	}
}
