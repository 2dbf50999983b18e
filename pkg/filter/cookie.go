package filter

import (
	"net/http"
	"strings"
)

// secretCookie tells whether a cookie (name=value) of the console holds a token.
func secretCookie(pair string) bool {
	name := cookieName(pair)
	return name == tokenCookie || name == "refreshToken"
}

// cookieName reads a name as http.Request.Cookie does: the space around it does not count.
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

// cutSecretCookies takes the cookies that hold tokens out of h, and leaves the others. The old
// values stay as they are: whoever kept them can still read them.
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
