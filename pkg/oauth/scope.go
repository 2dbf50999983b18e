package oauth

import (
	"slices"
	"strings"
)

// The scopes (OpenID Connect Core 1.0, 5.4).
const (
	scopeOpenID  = "openid"
	scopeProfile = "profile"
	scopeEmail   = "email"
	scopeGroups  = "groups"
	// scopeOffline has a session outlive that of the browser in which it was opened (OpenID Connect Core 1.0, 11).
	scopeOffline = "offline_access"
	// scopeAPI lets a client act as the person at the API (Client.forAPI).
	scopeAPI = "api"
)

func supportedScopes() []string {
	return []string{scopeOpenID, scopeProfile, scopeEmail, scopeGroups, scopeOffline, scopeAPI}
}

// forAPI tells whether the access tokens of a client are for the API, where they are good for all that their person may do. It is the client's
// registration that says so, and not what it asks for: the scopes of others who log people in are told, and open nothing else.
func (c *Client) forAPI() bool {
	return c.Trusted || len(c.ScopeRestrictions) == 0 || slices.Contains(c.ScopeRestrictions, scopeAPI)
}

// toAsk are the scopes that a person is asked about who is to grant some: the API is among them wherever it goes with them.
func (c *Client) toAsk(scopes []string) []string {
	if !c.forAPI() || has(scopes, scopeAPI) {
		return scopes
	}
	return append(slices.Clip(scopes), scopeAPI)
}

// mostScopes are what a client gets that does not say what it wants.
func mostScopes(c *Client) []string {
	if len(c.ScopeRestrictions) == 0 {
		return []string{scopeOpenID, scopeProfile, scopeEmail}
	}
	return slices.DeleteFunc(supportedScopes(), func(s string) bool { return !slices.Contains(c.ScopeRestrictions, s) })
}

// grantScopes returns which of the requested scopes a client is given: those that exist, and that the
// client is not restricted from. To none requested the answer is mostScopes, except for the platform's own clients, which ask
// for none and are told all; some requested and none given is an error (RFC 6749, 3.3).
func grantScopes(c *Client, requested string) ([]string, error) {
	want := strings.Fields(requested)
	if !printable(requested) {
		return nil, refuse(invalidScope, "The scope has characters that a scope can't have.")
	}
	if len(want) == 0 && !c.Trusted {
		want = mostScopes(c)
	}
	var got []string
	for _, s := range supportedScopes() {
		if slices.Contains(want, s) && (len(c.ScopeRestrictions) == 0 || slices.Contains(c.ScopeRestrictions, s)) {
			got = append(got, s)
		}
	}
	if len(got) == 0 && (len(want) > 0 || !c.Trusted) {
		return nil, refuse(invalidScope, "None of the requested scopes can be granted.")
	}
	return got, nil
}

// narrowScopes returns which of a session's scopes a refresh asks for: all, where it names none, and
// never more (RFC 6749, 6).
func narrowScopes(granted []string, requested string) ([]string, error) {
	want := strings.Fields(requested)
	if len(want) == 0 {
		return granted, nil
	}
	for _, s := range want {
		if !slices.Contains(granted, s) {
			return nil, refuse(invalidScope, "A refresh can't widen the scope that was granted at login.")
		}
	}
	return slices.DeleteFunc(slices.Clone(granted), func(s string) bool { return !slices.Contains(want, s) }), nil
}

func printable(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}
