package login

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"html/template"
	"net"
	"net/http"
	"net/url"
	"slices"
	"time"

	"golang.org/x/oauth2"
)

// returned serves the loopback address to which the browser returns after one login.
type returned struct {
	host     string // as the browser has to name it: with another name for this machine, the page is not this program's
	issuer   string
	named    bool // the answer has to contain the issuer
	state    string
	exchange func(code string) (*oauth2.Token, error)
	once     chan struct{} // has room for the one answer that counts
	result   chan result
}

type result struct {
	token *oauth2.Token
	err   error
}

// byBrowser is the authorization code flow of a native application (RFC 8252) with PKCE (RFC 7636).
func (s *Session) byBrowser(ctx context.Context, p *provider) (t *oauth2.Token, nonce string, err error) {
	if p.Authorization == "" || !slices.Contains(p.Challenges, "S256") {
		return nil, "", errors.New("the server has no login by browser with PKCE (S256): try --device")
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", s.Listen)
	if err != nil {
		return nil, "", fmt.Errorf("listen for the browser to come back: %w", err)
	}
	conf := p.config(s)
	conf.RedirectURL = "http://" + l.Addr().String()
	verifier := oauth2.GenerateVerifier()
	nonce = rand.Text()
	r := &returned{host: l.Addr().String(), issuer: s.Issuer, named: p.NamesItself, state: rand.Text(),
		once: make(chan struct{}, 1), result: make(chan result, 1),
		exchange: func(code string) (*oauth2.Token, error) {
			return conf.Exchange(s.client(ctx), code, oauth2.VerifierOption(verifier))
		}}
	server := &http.Server{Handler: r, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 5 * time.Second, MaxHeaderBytes: 64 << 10}
	go func() { _ = server.Serve(l) }() // closed below
	defer func() {
		// The page with the result has still to be sent.
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		if server.Shutdown(last) != nil {
			_ = server.Close()
		}
	}()
	options := []oauth2.AuthCodeOption{oauth2.S256ChallengeOption(verifier), oauth2.SetAuthURLParam("nonce", nonce)}
	if s.User != "" {
		options = append(options, oauth2.SetAuthURLParam("login_hint", s.User))
	}
	address := conf.AuthCodeURL(r.state, options...)
	fmt.Fprintf(s.Tell, "Log in with your browser. If it does not open by itself, go to\n  %s\n", address)
	if err := s.Open(ctx, address); err != nil {
		fmt.Fprintf(s.Tell, "The browser can't be opened: %v\n", err)
	}
	select {
	case got := <-r.result:
		return got.token, nonce, got.err
	case <-ctx.Done():
		return nil, "", context.Cause(ctx)
	}
}

// ServeHTTP takes the answer of the authorization endpoint. A request without the right state is refused, and changes
// nothing: any page in the browser can send a request here.
func (l *returned) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	switch {
	case r.Host != l.host || r.URL.Path != "/":
		http.NotFound(w, r)
		return
	case r.Method != http.MethodGet:
		w.Header().Set("Allow", http.MethodGet)
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	case err != nil || subtle.ConstantTimeCompare([]byte(q.Get("state")), []byte(l.state)) != 1:
		show(w, http.StatusBadRequest, "This is not the answer that is waited for.")
		return
	}
	select {
	case l.once <- struct{}{}:
	default:
		show(w, http.StatusConflict, "This login has ended. You can close this window.")
		return
	}
	got := l.take(q)
	if got.err != nil {
		show(w, http.StatusOK, "The login has failed; the terminal says why. You can close this window.")
	} else {
		show(w, http.StatusOK, "You are logged in. You can close this window and return to the terminal.")
	}
	l.result <- got
}

// take checks an answer that has the right state.
func (l *returned) take(q url.Values) result {
	if iss := q["iss"]; len(iss) > 1 || len(iss) == 0 && l.named || len(iss) == 1 && iss[0] != l.issuer { // RFC 9207, 2.4
		return result{err: errors.New("the answer that the browser brought is not of this issuer")}
	}
	if name := q.Get("error"); name != "" {
		return result{err: fmt.Errorf("the server says %s: %s", plain(name), plain(q.Get("error_description")))}
	}
	if len(q["code"]) != 1 || q.Get("code") == "" {
		return result{err: errors.New("the answer that the browser brought has no code")}
	}
	t, err := l.exchange(q.Get("code"))
	return result{t, err}
}

// page is the whole page that the browser shows. It contains nothing of the answer.
var page = template.Must(template.New("page").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>kubectl login</title></head>
<body><h1>kubectl login</h1><p>{{.}}</p></body></html>
`))

func show(w http.ResponseWriter, code int, text string) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
	h.Set("Connection", "close")
	w.WriteHeader(code)
	_ = page.Execute(w, text) // an error means that the browser has disconnected
}
