package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"

	"kapis.dev/ks-apiserver/pkg/api/session/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/token"
)

// CodeLife is the longest life of a code or a device's request (RFC 6749, 4.1.2). The name of a session opened by one stays reserved as
// long.
const CodeLife = 10 * time.Minute

const (
	// scopeOffline lets a session outlive that of its browser (OpenID Connect Core 1.0, 11).
	scopeOffline = "offline_access"
	// sealUpstream is the purpose that seals the hint and the refresh token of providers.
	sealUpstream token.Purpose = "session upstream"

	maxText     = 256 // bytes of an address, or of a User-Agent
	maxIdentity = 1024
)

// errNoOwner reports a programming error of the caller.
var errNoOwner = errors.New("a session needs a user, a registration, or a client that is known by a secret")

// holder is the owner of a session, as its object names it.
type holder struct{ name, uid, credential string }

// maxConflicts bounds the attempts of one change. They follow one another without a pause: each reads the session first, and of the
// requests that conflict one has written.
const maxConflicts = 5

// errConflicts is no Conflict: the caller did not ask for a version.
var errConflicts = errors.New("others changed the session at the same time, again and again")

// holderOf returns the owner of the session that a login opens.
func (s *opener) holderOf(l *Login) (holder, error) {
	switch {
	case l.Pending:
		return holder{}, errors.New("the second factor is missing")
	case l.User != nil:
		return holder{l.User.Name, l.User.UID, l.User.Credential()}, nil
	case l.Registration != nil:
		u := l.Registration.User()
		return holder{name: u.Name, uid: u.UID}, nil
	case l.Client != "" && s.ClientCredential != nil:
		if c := s.ClientCredential(l.Client); c != "" {
			return holder{iam.ClientPrefix + l.Client, iam.ClientPrefix + l.Client, c}, nil
		}
	}
	return holder{}, errNoOwner
}

// object returns the new Session of a login.
func (s *opener) object(l *Login, o holder, now time.Time) (*v1alpha1.Session, error) {
	t, at := metav1.NewTime(now), metav1.NewTime(l.AuthenticatedAt())
	if at.IsZero() {
		at = t
	}
	out := &v1alpha1.Session{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "Session"},
		ObjectMeta: metav1.ObjectMeta{Name: l.Name},
		Spec: v1alpha1.SessionSpec{
			User: o.name, UserUID: types.UID(o.uid), Client: l.Client, Provider: l.Provider, Subject: status.Clip(l.Subject, maxIdentity),
			Parent: l.Parent, Scopes: l.Scopes, AuthenticatedAt: at, Methods: l.Methods, Credential: o.credential,
			Source: status.Clip(l.Source, maxText), UserAgent: status.Clip(l.UserAgent, maxText),
			CreatedAt: t, ExpiresAt: metav1.NewTime(now.Add(s.life(l))),
		},
		Groups:     iam.SessionGroups(o.name, l.Groups),
		LastUsedAt: t,
	}
	if r := l.Registration; r != nil && l.User == nil {
		if r.Provider == "" || r.Subject == "" || len(r.Subject) > maxIdentity {
			return nil, errors.New("a registration needs a provider, and a subject of at most 1024 bytes")
		}
		out.Spec.Registration = &v1alpha1.Registration{Provider: r.Provider, Subject: r.Subject, Email: status.Clip(r.Email, maxIdentity),
			Username: status.Clip(r.Username, maxIdentity), DisplayName: status.Clip(r.DisplayName, maxIdentity)}
		out.Spec.Provider, out.Spec.Subject = r.Provider, r.Subject
	}
	return out, s.seal(out, l.Hint, l.Refresh, now)
}

// life returns the longest life of the session of a login. It is never longer than the life of the keys that verify its tokens.
func (s *opener) life(l *Login) time.Duration {
	life := s.Lifetime(l.Client)
	switch {
	case l.Client == "":
		return min(life.Longest(), DefaultAbsolute)
	case l.NoRefresh && life.MaxAge > 0 && l.User == nil: // a client's own session, which it shares among its tokens
		return min(2*life.MaxAge, life.Longest())
	case l.NoRefresh && life.MaxAge > 0:
		return min(life.MaxAge, life.Longest())
	}
	return life.Longest()
}

// change edits the object of a session, and tries again after a conflict. Its errors are that of edit, ErrOver and ErrUnavailable.
func (s *reader) change(ctx context.Context, name string, edit func(*v1alpha1.Session) error) error {
	var refused error
	o, err := s.rewrite(ctx, name, func(o *v1alpha1.Session) bool {
		refused = edit(o)
		return refused == nil
	})
	switch {
	case apierrors.IsNotFound(err):
		s.Delete("", name)
		return iam.ErrOver
	case err != nil:
		return fmt.Errorf("%w: change a session: %w", iam.ErrUnavailable, err)
	case refused != nil:
		return refused
	}
	if !keepsUpstreamToken(o) && s.learn(o) == nil {
		return iam.ErrOver
	}
	return nil
}

// rewrite reads the object of a session and writes it after edit, unless edit returns false. It tries again after a conflict. Its errors
// are those of the API, and errConflicts.
func (s *reader) rewrite(ctx context.Context, name string, edit func(*v1alpha1.Session) bool) (o *v1alpha1.Session, err error) {
	err = untilNoConflict(func() error {
		if o, err = s.API.Get(ctx, name); err != nil || !edit(o) {
			return err
		}
		o, err = s.API.Update(ctx, o)
		return err
	})
	return o, err
}

func untilNoConflict(attempt func() error) error {
	err := retry.RetryOnConflict(wait.Backoff{Steps: maxConflicts}, attempt)
	if apierrors.IsConflict(err) {
		return errConflicts
	}
	return err
}
