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
)

func supportedScopes() []string { return []string{scopeOpenID, scopeProfile, scopeEmail} }

// grantScopes returns which of the requested scopes a client is given: those that exist, and that the
// client is not restricted from. None requested is none given; some requested and none given is an
// error (RFC 6749, 3.3).
func grantScopes(c *Client, requested string) ([]string, error) {
	want := strings.Fields(requested)
	if !printable(requested) {
		return nil, refuse(invalidScope, "The scope has characters that a scope can't have.")
	}
	var got []string
	for _, s := range supportedScopes() {
		if slices.Contains(want, s) && (len(c.ScopeRestrictions) == 0 || slices.Contains(c.ScopeRestrictions, s)) {
			got = append(got, s)
		}
	}
	if len(want) > 0 && len(got) == 0 {
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
