// Package claim makes the claims about a user in ID tokens, access tokens and answers of the userinfo endpoint.
package claim

import (
	"slices"

	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/session"
	"kapis.dev/ks-apiserver/pkg/oauth/client"
)

// groupsOf returns the user's own groups, as clients are told them, and those that the provider reported at login.
func (s *Source) groupsOf(sess *session.Session, u *iam.User) []string {
	var out []string
	switch {
	case u != nil && s.GroupsOf != nil:
		out = slices.Clone(s.GroupsOf(u))
	case u != nil:
		out = slices.Clone(u.Groups)
	}
	for _, g := range sess.Groups {
		if !slices.Contains(out, g) {
			out = append(out, g)
		}
	}
	return out
}

// Claims are the claims of a user (OpenID Connect Core 1.0, 5.1).
type Claims struct {
	Subject  string `json:"sub"`
	Username string `json:"preferred_username,omitempty"`
	Name     string `json:"name,omitempty"`
	Email    string `json:"email,omitempty"`
	Locale   string `json:"locale,omitempty"`
	// EmailVerified is never false: an e-mail that an administrator wrote has no claim.
	EmailVerified bool     `json:"email_verified,omitempty"`
	Groups        []string `json:"groups,omitempty"`
}

// Supported returns the claims that an ID token or the userinfo endpoint may have.
func Supported() []string {
	return []string{"iss", "sub", "aud", "iat", "exp", "auth_time", "amr", "nonce", "sid",
		"preferred_username", "name", "email", "email_verified", "locale", "groups"}
}

// Source returns claims of users.
type Source struct {
	Clients *client.Registry
	// EmailVerified reports whether an identity provider verified a user's e-mail; nil for never.
	EmailVerified func(*iam.User) bool
	// GroupsOf returns the groups of a User that clients are told; nil for all.
	GroupsOf func(*iam.User) []string
}

// Unlimited reports whether a client gets all claims without a scope: trusted clients request none.
func (s *Source) Unlimited(client string, scopes []string) bool {
	c := s.Clients.Client(client)
	return len(scopes) == 0 && c != nil && c.Trusted
}

// Of returns the claims of a session's user that the scopes include.
func (s *Source) Of(sess *session.Session, u *iam.User, scopes []string) Claims {
	all := s.Unlimited(sess.Client, scopes)
	c := Claims{Subject: u.UID}
	if all || slices.Contains(scopes, client.ScopeProfile) {
		c.Username, c.Name, c.Locale = u.Name, u.DisplayName, u.Lang
	}
	if all || slices.Contains(scopes, client.ScopeEmail) {
		c.Email = u.Email
		c.EmailVerified = u.Email != "" && s.EmailVerified != nil && s.EmailVerified(u)
	}
	if all || slices.Contains(scopes, client.ScopeGroups) {
		c.Groups = s.groupsOf(sess, u)
	}
	return c
}
