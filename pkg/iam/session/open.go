package session

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kapis.dev/ks-apiserver/pkg/api/session/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/token"
)

// Login describes a session to open: its user, and its client. Without a User and a Registration, the client acts for itself.
type Login struct {
	iam.AuthnResult
	iam.Origin
	// Name is the name of the session if it was opened by a code, which opens only one session; "" for a new name.
	Name string
	// Client is the OAuth client; "" for a browser in which the user logs in to clients.
	Client string
	// Parent is the session of the browser in which this one is opened; "" for none. The new session ends with it, unless
	// it has the scope offline_access.
	Parent string
	// Scopes are the granted scopes.
	Scopes []string
	// NoRefresh opens a session that lives as long as one access token.
	NoRefresh bool
}

// Open opens a session, and returns it with its refresh token; "" if it has none, as sessions of browsers.
//
// If the login's name was used before, the session of that name ends, and the error is ErrUsed. A client that acts for itself gets the
// session it has, as long as that outlives another access token.
func (s *opener) Open(ctx context.Context, l Login) (*Session, string, error) {
	o, err := s.holderOf(&l)
	if err != nil {
		return nil, "", fmt.Errorf("open a session: %w", err)
	}
	if r := s.reusable(&l, o); r != nil {
		return &r.Session, "", nil
	}
	fromCode := l.Name != ""
	if fromCode && s.isGone(l.Name) {
		return nil, "", iam.ErrUsed
	}
	object, refresh, err := s.prepare(ctx, &l, o)
	if err != nil {
		return nil, "", err
	}
	object.Spec.FromCode = fromCode
	r, err := s.create(ctx, object)
	if errors.Is(err, iam.ErrUnavailable) && !fromCode && s.backendChanged(l.Name) { // the optional backend was lost just now
		l.Name = ""
		if object, refresh, err = s.prepare(ctx, &l, o); err != nil {
			return nil, "", err
		}
		r, err = s.create(ctx, object)
	}
	if errors.Is(err, iam.ErrUsed) {
		return nil, "", s.codeReused(ctx, l.Name)
	}
	if err != nil {
		return nil, "", err
	}
	return &r.Session, refresh, nil
}

// prepare returns the object of a login, and its refresh token.
func (s *opener) prepare(ctx context.Context, l *Login, o holder) (*v1alpha1.Session, string, error) {
	now := s.Now()
	if l.Name == "" {
		l.Name = s.NewName()
	}
	object, err := s.object(l, o, now)
	if err != nil {
		return nil, "", fmt.Errorf("open a session: %w", err)
	}
	object.Spec.Sequence = s.sequence(o.uid, now)
	if err := s.bindToBrowser(ctx, object); err != nil {
		return nil, "", err
	}
	if l.NoRefresh || l.Client == "" {
		return object, "", nil
	}
	refresh, err := s.Keys.KeySet().NewRefresh(l.Name, 1, now)
	if err != nil {
		return nil, "", fmt.Errorf("open a session: %w", err)
	}
	object.Refresh = v1alpha1.Refresh{Current: token.HashRefresh(refresh), RotatedAt: object.Spec.CreatedAt, Generation: 1}
	return object, refresh, nil
}

// create stores the object of a session, and adds it to the index.
func (s *opener) create(ctx context.Context, o *v1alpha1.Session) (*cached, error) {
	made, err := s.API.Create(ctx, o)
	switch {
	case apierrors.IsAlreadyExists(err):
		return nil, fmt.Errorf("open a session: %w", iam.ErrUsed)
	case err != nil:
		if !o.Spec.FromCode { // it may exist all the same, but no client has its token
			s.deleteLater(newCached(o))
		}
		return nil, fmt.Errorf("%w: open a session: %w", iam.ErrUnavailable, err)
	}
	r := newCached(made)
	r.until = s.Now().Add(unconfirmed)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch known := s.put(r); {
	case known != nil:
		s.limit(known)
		return known, nil
	case o.Spec.FromCode: // ended already, because the code was presented again: the first client gets its tokens, but they are invalid
		return r, nil
	}
	// ended already, by another login of the same user
	return nil, fmt.Errorf("%w: the session was ended as soon as it was open", iam.ErrUnavailable)
}

// codeReused ends the session of a code that was presented again: one of the two clients that have it may be an attacker.
func (s *ender) codeReused(ctx context.Context, name string) error {
	if err := s.End(ctx, name, "code reused"); err != nil {
		return err
	}
	return iam.ErrUsed
}

// NewName returns the name of a session that a code will open: 128 random bits, and its backend. The code carries it, sealed.
func (s *opener) NewName() string {
	name := newName(s.Now())
	if s.Prefix != nil {
		return s.Prefix() + name
	}
	return name
}

// backendChanged reports whether a session of that name would be opened in another backend now.
func (s *opener) backendChanged(name string) bool {
	return s.Prefix != nil && prefixOf(name) != s.Prefix()
}

// bindToBrowser binds a new session to that of its browser, or of the console: both are of one user and one provider, and end together.
func (s *reader) bindToBrowser(ctx context.Context, o *v1alpha1.Session) error {
	if o.Spec.Parent == "" {
		return nil
	}
	parent, _, err := s.Find(ctx, o.Spec.Parent)
	if err != nil {
		return fmt.Errorf("open a session in a browser: %w", err)
	}
	if parent.Parent != "" || parent.UserUID != string(o.Spec.UserUID) {
		return fmt.Errorf("open a session in a browser: %w: it is another user's, or was opened in one itself", iam.ErrOver)
	}
	if r, ok := s.known(o.Spec.Parent); ok && r.Provider != "" && o.Spec.Provider == r.Provider {
		o.Spec.Subject = r.subject // to ask the provider about the user when the browser's session is over
	}
	if !slices.Contains(o.Spec.Scopes, scopeOffline) && parent.Expires.Before(o.Spec.ExpiresAt.Time) {
		o.Spec.ExpiresAt = metav1.NewTime(parent.Expires)
	}
	return nil
}
