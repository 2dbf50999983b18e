package protocol

import (
	"net/http"
	"net/url"
	"strings"
)

// Redirect is a response that sends the browser to a URL. After a POST it continues with GET (RFC 9700, 4.12: never 307).
type Redirect string

// Respond writes the redirection.
func (to Redirect) Respond(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Location", string(to))
	w.Header().Set("Referrer-Policy", "no-referrer")
	if r.Method == http.MethodPost {
		w.WriteHeader(http.StatusSeeOther)
		return
	}
	w.WriteHeader(http.StatusFound)
}

// RedirectTo returns a redirect to a URI with parameters added, which keeps the query of the URI (RFC 6749, 3.1.2).
func RedirectTo(uri string, pairs ...string) Redirect {
	var b strings.Builder
	b.WriteString(uri)
	separator := byte('?')
	if i := strings.IndexByte(uri, '?'); i >= 0 {
		if separator = '&'; i == len(uri)-1 {
			separator = 0
		}
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] == "" {
			continue
		}
		if separator != 0 {
			b.WriteByte(separator)
		}
		separator = '&'
		b.WriteString(pairs[i] + "=" + url.QueryEscape(pairs[i+1]))
	}
	return Redirect(b.String())
}
