package page

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"kapis.dev/ks-apiserver/pkg/web"
)

// Show answers with a
func (b *Book) Show(code int, d Data, targets []string, set ...*http.Cookie) any {
	v := &Response{Book: b, Code: code, Data: d, Targets: targets}
	set = slices.DeleteFunc(set, func(c *http.Cookie) bool { return c == nil })
	if len(set) == 0 {
		return v
	}
	return WithCookies{Set: set, Then: v}
}

// Response is an HTML response with one page.
type Response struct {
	Book *Book
	// Code is the HTTP status; 0 is 200.
	Code int
	Data Data
	// Targets are sources (Content Security Policy Level 3, 2.3.1) that forms may lead to besides this server, since browsers
	// apply form-action to redirects after a form too.
	Targets []string
}

// Respond writes the
func (v *Response) Respond(w http.ResponseWriter, r *http.Request) {
	lang := Preferred(r.Header.Get("Accept-Language"))
	body, err := v.Book.Draw(lang, Root(r), v.Data)
	if err != nil {
		web.WriteError(w, r, err)
		return
	}
	h := w.Header()
	secureHeaders(h, v.policy())
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Language", string(lang))
	h.Set("Vary", "Accept-Language")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(max(v.Code, http.StatusOK))
	if !web.IsHead(r) {
		_, _ = w.Write(body) // an error means that the client has disconnected
	}
}

// policy returns the value of the Content-Security-Policy header.
func (v *Response) policy() string {
	p := "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; frame-ancestors 'none'; form-action 'self'"
	if len(v.Targets) > 0 {
		p += " " + strings.Join(v.Targets, " ")
	}
	if v.Data.Scripted() {
		p += "; script-src 'self'"
	}
	return p
}

// secureHeaders sets the headers of every response to a browser: no framing (S42), no type sniffing, no referrer, and no
// access through the window.
func secureHeaders(h http.Header, policy string) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Frame-Options", "DENY")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}

// WithCookies is a response with cookies.
type WithCookies struct {
	Set  []*http.Cookie
	Then any
}

// Respond sets the cookies and writes the response.
func (c WithCookies) Respond(w http.ResponseWriter, r *http.Request) {
	for _, k := range c.Set {
		http.SetCookie(w, k)
	}
	web.Write(w, r, c.Then, nil)
}

// Root returns the relative URL of /oauth/ from a request's path, so that links work with a proxy that adds a path prefix.
func Root(r *http.Request) string {
	rest, _ := strings.CutPrefix(r.URL.EscapedPath(), "/oauth/")
	return strings.Repeat("../", strings.Count(rest, "/"))
}

// Source returns the source expression for a URL that a form may lead to; "" if there is none. For https it allows all
// hosts: Chromium applies form-action to each redirect that follows, and the client may redirect further.
func Source(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Scheme == "" {
		return ""
	}
	strange := func(s, extra string) bool {
		return strings.ContainsFunc(s, func(c rune) bool {
			return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune(extra, c)
		})
	}
	switch {
	case u.Host == "" && !strange(u.Scheme, "+-."): // an app's own scheme (RFC 8252, 7.1)
		return u.Scheme + ":"
	case u.Hostname() == "::1":
		return u.Scheme + ":" // source expressions have no IPv6 addresses
	case u.Host == "" || strange(u.Host, ".-:"):
		return ""
	}
	if u.Scheme == "https" {
		return "https:"
	}
	return u.Scheme + "://" + u.Host
}

// WantsHTML reports whether a request accepts HTML, as those of browsers do.
func WantsHTML(r *http.Request) bool { return strings.Contains(r.Header.Get("Accept"), "text/html") }

// Respond writes the file with headers that let browsers cache it for a year.
func (f *Asset) Respond(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	secureHeaders(h, "default-src 'none'; frame-ancestors 'none'")
	h.Del("Pragma")
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("Content-Type", f.Type)
	h.Set("Content-Length", strconv.Itoa(len(f.Content)))
	w.WriteHeader(http.StatusOK)
	if !web.IsHead(r) {
		_, _ = w.Write(f.Content)
	}
}
