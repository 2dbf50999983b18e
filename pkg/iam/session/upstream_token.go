package session

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kapis.dev/ks-apiserver/pkg/api/session/v1alpha1"
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
