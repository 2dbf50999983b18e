package client

import (
	"slices"
	"strings"

	"kapis.dev/ks-apiserver/pkg/oauth/protocol"
)

// The scopes (OpenID Connect Core 1.0, 5.4).
const (
	ScopeOpenID  = "openid"
	ScopeProfile = "profile"
	ScopeEmail   = "email"
	ScopeGroups  = "groups"
	// ScopeOffline lets a session outlive the browser session that it was opened in (OpenID Connect Core 1.0, 11).
	ScopeOffline = "offline_access"
	// ScopeAPI lets a client act as the user at the API (Client.ForAPI).
	ScopeAPI = "api"
)

// SupportedScopes returns all scopes.
func SupportedScopes() []string {
	return []string{ScopeOpenID, ScopeProfile, ScopeEmail, ScopeGroups, ScopeOffline, ScopeAPI}
}

// ForAPI reports whether the client's access tokens are for the API, where they carry all rights of the user. That depends on the
// client's registration, not on the scopes that it asks for; other clients' tokens are good at the userinfo endpoint only.
func (c *Client) ForAPI() bool {
	return c.Trusted || len(c.ScopeRestrictions) == 0 || slices.Contains(c.ScopeRestrictions, ScopeAPI)
}

// ConsentScopes returns the scopes that the user is asked about: those requested, and api if the tokens will be for the API.
func (c *Client) ConsentScopes(scopes []string) []string {
	if !c.ForAPI() || slices.Contains(scopes, ScopeAPI) {
		return scopes
	}
	return append(slices.Clip(scopes), ScopeAPI)
}

// DeviceScopes returns the scopes that the user of a device is asked about, which are the most that the device gets.
func (c *Client) DeviceScopes() []string { return c.ConsentScopes(DefaultScopes(c)) }

// DefaultScopes returns the scopes of a client that requests none.
func DefaultScopes(c *Client) []string {
	if len(c.ScopeRestrictions) == 0 {
		return []string{ScopeOpenID, ScopeProfile, ScopeEmail}
	}
	return slices.DeleteFunc(SupportedScopes(), func(s string) bool { return !slices.Contains(c.ScopeRestrictions, s) })
}

// GrantScopes returns the requested scopes that exist and that the client may have; without a request DefaultScopes, or none for
// trusted clients, which then get all claims. It is an error if none of those requested is left (RFC 6749, 3.3).
func GrantScopes(c *Client, requested string) ([]string, error) {
	want := strings.Fields(requested)
	if !printable(requested) {
		return nil, protocol.Refuse(protocol.InvalidScope, "The scope has characters that a scope can't have.")
	}
	if len(want) == 0 && !c.Trusted {
		want = DefaultScopes(c)
	}
	var got []string
	for _, s := range SupportedScopes() {
		if slices.Contains(want, s) && (len(c.ScopeRestrictions) == 0 || slices.Contains(c.ScopeRestrictions, s)) {
			got = append(got, s)
		}
	}
	if len(got) == 0 && (len(want) > 0 || !c.Trusted) {
		return nil, protocol.Refuse(protocol.InvalidScope, "None of the requested scopes can be granted.")
	}
	return got, nil
}

// NarrowScopes returns which of a session's scopes a refresh requests: all if it names none, and never more (RFC 6749, 6).
func NarrowScopes(granted []string, requested string) ([]string, error) {
	want := strings.Fields(requested)
	if len(want) == 0 {
		return granted, nil
	}
	for _, s := range want {
		if !slices.Contains(granted, s) {
			return nil, protocol.Refuse(protocol.InvalidScope, "A refresh can't widen the scope that was granted at login.")
		}
	}
	return slices.DeleteFunc(slices.Clone(granted), func(s string) bool { return !slices.Contains(want, s) }), nil
}

// printable reports whether a text has only characters of scopes and client names.
func printable(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}
