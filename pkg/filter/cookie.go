package filter

import (
	"net/http"
	"strings"
)

// tokenCookie is the cookie in which the console stores the access token.
const tokenCookie = "token"

// secretCookie reports whether a cookie (name=value) of the console holds a token.
func secretCookie(pair string) bool {
	name := cookieName(pair)
	return name == tokenCookie || name == "refreshToken"
}

// cookieName returns the name as http.Request.Cookie reads it: the space around it does not count.
func cookieName(pair string) string {
	name, _, _ := strings.Cut(pair, "=")
	return strings.TrimSpace(name)
}

func hasTokenCookie(lines []string) bool {
	for _, line := range lines {
		for pair := range strings.SplitSeq(line, ";") {
			if cookieName(pair) == tokenCookie {
				return true
			}
		}
	}
	return false
}

// cutSecretCookies removes the cookies that hold tokens from h, and leaves the others. The old values are not changed: code that retained
// them can still read them.
func cutSecretCookies(h http.Header) {
	lines := h["Cookie"]
	var kept []string
	found := false
	for _, line := range lines {
		for pair := range strings.SplitSeq(line, ";") {
			if secretCookie(pair) {
				found = true
			} else if pair = strings.TrimSpace(pair); pair != "" {
				kept = append(kept, pair)
			}
		}
	}
	switch {
	case !found:
	case len(kept) == 0:
		delete(h, "Cookie")
	default:
		h["Cookie"] = []string{strings.Join(kept, "; ")}
	}
}
