package oauth

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/emicklei/go-restful/v3"

	"kapis.dev/ks-apiserver/pkg/oauth/page"
	"kapis.dev/ks-apiserver/pkg/web"
)

// htmlResponse is a page as an answer.
type htmlResponse struct {
	book *page.Book
	code int // of HTTP; 0 is 200
	data page.Data
	// targets are the sources (Content Security Policy Level 3, 2.3.1) that its forms may lead to beside this server:
	// browsers hold a redirection after a form to form-action too.
	targets []string
}

// Respond writes the page.
func (v *htmlResponse) Respond(w http.ResponseWriter, r *http.Request) {
	lang := page.Preferred(r.Header.Get("Accept-Language"))
	body, err := v.book.Draw(lang, root(r), v.data)
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
	w.WriteHeader(max(v.code, http.StatusOK))
	if !web.IsHead(r) {
		_, _ = w.Write(body) // the client is gone: nobody is left to tell
	}
}

func (v *htmlResponse) policy() string {
	p := "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; frame-ancestors 'none'; form-action 'self'"
	if len(v.targets) > 0 {
		p += " " + strings.Join(v.targets, " ")
	}
	if v.data.Scripted() {
		p += "; script-src 'self'"
	}
	return p
}

// secureHeaders are what every answer to a browser has: nobody frames it (S42), keeps it, guesses its type, learns its
// address, or holds its window.
func secureHeaders(h http.Header, policy string) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Frame-Options", "DENY")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}

// withCookies sets cookies, and then answers.
type withCookies struct {
	set  []*http.Cookie
	then any
}

// Respond writes the answer.
func (c withCookies) Respond(w http.ResponseWriter, r *http.Request) {
	for _, k := range c.set {
		http.SetCookie(w, k)
	}
	web.Write(w, r, c.then, nil)
}

// root is the relative address of /oauth/ from a page, so that links hold behind a proxy that serves us below another path.
func root(r *http.Request) string {
	rest, _ := strings.CutPrefix(r.URL.EscapedPath(), "/oauth/")
	return strings.Repeat("../", strings.Count(rest, "/"))
}

// source is what the policy of a page calls those that a form may lead to by an address; "" where it has no word for them. Of https it
// is all: Chromium holds each redirection that follows to form-action too, and where a client sends its people on is the client's to say.
func source(address string) string {
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
		return u.Scheme + ":" // a policy knows no IPv6 addresses
	case u.Host == "" || strange(u.Host, ".-:"):
		return ""
	}
	if u.Scheme == "https" {
		return "https:"
	}
	return u.Scheme + "://" + u.Host
}

// handler answers a request.
type handler = func(*restful.Request) (any, error)

// forPeople answers with a page where h fails and the client is a browser.
func (s *Server) forPeople(h handler) handler {
	return func(req *restful.Request) (any, error) {
		v, err := h(req)
		if err == nil || !wantsHTML(req.Request) {
			return v, err
		}
		return nil, s.asPage(err)
	}
}

// wantsHTML tells browsers from programs.
func wantsHTML(r *http.Request) bool { return strings.Contains(r.Header.Get("Accept"), "text/html") }

// static serves the files that pages refer to. Their names change with what is in them.
func (s *Server) static(req *restful.Request) (any, error) {
	f := s.deps.book.Assets().File(req.PathParameter("file"))
	if f == nil {
		return nil, problem(http.StatusNotFound, page.Say("error.missing"), nil)
	}
	return file{f}, nil
}

type file struct{ *page.Asset }

// Respond writes the file.
func (f file) Respond(w http.ResponseWriter, r *http.Request) {
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
