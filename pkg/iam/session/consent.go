package session

import (
	"context"
	"fmt"
	"slices"

	"kapis.dev/ks-apiserver/pkg/api/session/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/iam"
)

// Consent stores in a session, in which clients' sessions are opened, that its user allows the scopes to a client.
func (s *reader) Consent(ctx context.Context, session, client string, scopes []string) error {
	return s.change(ctx, session, func(o *v1alpha1.Session) error {
		if o.Spec.Parent != "" || o.Phase != "" {
			return fmt.Errorf("remember a consent: %w: it was opened in another session", iam.ErrOver)
		}
		o.Consents = consented(o.Consents, client, scopes)
		return nil
	})
}

// consented adds a consent to a list, and drops the oldest above the limit.
func consented(list []v1alpha1.Consent, client string, scopes []string) []v1alpha1.Consent {
	one := v1alpha1.Consent{Client: client}
	var out []v1alpha1.Consent
	for _, c := range list {
		if c.Client == client {
			one.Scopes = slices.Clone(c.Scopes)
			continue
		}
		out = append(out, c)
	}
	for _, scope := range scopes {
		if !slices.Contains(one.Scopes, scope) && len(one.Scopes) < maxConsented {
			one.Scopes = append(one.Scopes, scope)
		}
	}
	return append(out[max(0, len(out)-maxConsents+1):], one)
}

// maxConsents bounds the clients whose consents a browser's session remembers, and maxConsented the scopes of each.
const (
	maxConsents  = 64
	maxConsented = 64
)

// Consented reports whether the user of a browser's session has allowed a client all of the scopes.
func (s *index) Consented(session, client string, scopes []string) bool {
	s.mu.RLock()
	r := s.byName[session]
	s.mu.RUnlock()
	if r == nil {
		return false
	}
	for _, c := range r.consents {
		if c.Client == client {
			return !slices.ContainsFunc(scopes, func(scope string) bool { return !slices.Contains(c.Scopes, scope) })
		}
	}
	return false
}
