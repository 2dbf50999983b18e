package session

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kapis.dev/ks-apiserver/pkg/api/session/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/iam"
)

// A session with the scope offline_access outlives the session of its browser. The browser's session has the refresh token with which the
// identity provider is asked about the user; where the provider rotates it, it can be used only once, and so can't be copied to each
// session that lives on. So the object of the browser's session is kept, ended, and all of them ask with it. If the provider needs only
// the user's name, as a directory does, nothing is kept: each session has the name.

// keepsUpstreamToken reports whether an object is that of an ended session of a browser, kept for its upstream token.
func keepsUpstreamToken(o *v1alpha1.Session) bool {
	return o.Phase == v1alpha1.PhaseEnded && o.Upstream.Refresh != ""
}

// keepUpstreamToken reduces the object of a browser's session to its upstream token, if sessions that were opened in
// the browser live on and need it.
func (s *ender) keepUpstreamToken(ctx context.Context, r *cached) (done bool, err error) {
	if r.Client != "" || r.Provider == "" {
		return false, nil
	}
	s.mu.RLock()
	until := s.outlive(r.UserUID, r.Name)
	s.mu.RUnlock()
	if until.IsZero() {
		return false, nil
	}
	_, err = s.rewrite(ctx, r.Name, func(o *v1alpha1.Session) bool {
		if done = o.Upstream.Refresh != ""; !done || keepsUpstreamToken(o) {
			return false
		}
		o.Phase, o.Refresh, o.Upstream.Hint, o.Consents = v1alpha1.PhaseEnded, v1alpha1.Refresh{}, "", nil
		o.Spec.ExpiresAt = metav1.NewTime(until)
		return true
	})
	switch {
	case apierrors.IsNotFound(err):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("keep of a session what its provider is asked with: %w", err)
	}
	return done, nil
}

// seal stores the hint and the refresh token of the provider; empty values leave the stored ones.
func (s *reader) seal(o *v1alpha1.Session, hint, refresh string, now time.Time) error {
	for _, one := range []struct {
		value string
		to    *string
	}{{hint, &o.Upstream.Hint}, {refresh, &o.Upstream.Refresh}} {
		value := iam.SessionSecret(o.Spec.Provider, one.value)
		if value == "" {
			continue
		}
		sealed, err := s.Keys.KeySet().Seal(sealUpstream, []byte(o.Name+"\x00"+value), now)
		if err != nil {
			return fmt.Errorf("open a session: %w", err)
		}
		*one.to = sealed
	}
	return nil
}

// unseal returns what seal stored for the session of that name; "" if it can't be opened.
func (s *reader) unseal(name, sealed string) string {
	if sealed == "" {
		return ""
	}
	value, err := s.Keys.KeySet().Open(sealUpstream, sealed, s.Now())
	if err != nil {
		return ""
	}
	of, secret, _ := strings.Cut(string(value), "\x00")
	if of != name { // it was copied here from another session
		return ""
	}
	return secret
}

// Upstream returns the hint that the provider of a session needs for the logout there; "" for nothing.
func (s *reader) Upstream(ctx context.Context, name string) (provider, hint string, err error) {
	o, err := s.API.Get(ctx, name)
	switch {
	case apierrors.IsNotFound(err):
		return "", "", iam.ErrOver
	case err != nil:
		return "", "", fmt.Errorf("%w: read session: %w", iam.ErrUnavailable, err)
	}
	return o.Spec.Provider, s.unseal(name, o.Upstream.Hint), nil
}
