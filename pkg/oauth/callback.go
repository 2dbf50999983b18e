package oauth

import (
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/emicklei/go-restful/v3"

	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/idp"
	"kapis.dev/ks-apiserver/pkg/oauth/page"
	"kapis.dev/ks-apiserver/pkg/token"
)

const (
	// providerLoginLife is how long a person may take at his provider.
	providerLoginLife = 30 * time.Minute
	// maxCookie is as much of a cookie as every browser keeps (RFC 6265, 6.1), less its name and attributes.
	maxCookie = 3900
	// providerCookie begins the name of the cookie of a login at a provider.
	providerCookie = "ks-idp-"
)

// providerLogin is a login at a provider that is under way. It lies sealed in a cookie of that provider, so that it is bound to
// the browser that began it, and the server keeps nothing.
type providerLogin struct {
	State    string         `json:"s"`
	Nonce    string         `json:"n"`
	Verifier string         `json:"v"`
	At       time.Time      `json:"t"`
	Request  *authorization `json:"a,omitempty"`
	Console  *consoleLogin  `json:"h,omitempty"`
	// Again says that the provider was asked to have the person prove himself anew, and Fresh that nothing else counts.
	Again bool `json:"f,omitempty"`
	Fresh bool `json:"m,omitempty"`
}

func providerPurpose(provider string) token.Purpose { return token.Purpose("provider " + provider) }

func providerCookieName(provider string) string {
	sum := sha256.Sum256([]byte(provider))
	return providerCookie + hex.EncodeToString(sum[:8])
}

// providerLoginCookie makes the cookie. A provider may send the browser back with a form, which is a request from another site;
// that carries only cookies that say so, and browsers want those to be Secure. The state protects it.
func (s *Server) providerLoginCookie(r *http.Request, provider, value string) *http.Cookie {
	c := s.cookie(r, providerCookieName(provider), value)
	if c.Secure {
		c.SameSite = http.SameSiteNoneMode
	}
	c.MaxAge = int(providerLoginLife / time.Second)
	if value == "" {
		c.MaxAge = -1
	}
	return c
}

// redirectProvider returns a provider that people are sent to.
func (s *Server) redirectProvider(name string) (*idp.Entry, idp.Redirect, error) {
	e := s.deps.directory.Entry(name)
	if e != nil && !e.Disabled {
		if p, ok := e.Provider.(idp.Redirect); ok {
			return e, p, nil
		}
	}
	return nil, nil, problem(http.StatusNotFound, page.Say("error.provider"), nil)
}

// callbackURL is the address that a provider sends people back to. Each has its own, so that the answer of one can't be
// passed off as that of another (RFC 9700, 4.4).
func (s *Server) callbackURL(provider string) string {
	return strings.TrimSuffix(s.Issuer, "/") + "/oauth/callback/" + url.PathEscape(provider)
}

// loginAt sends the browser to a provider.
func (s *Server) loginAt(req *restful.Request) (any, error) {
	r := req.Request
	if err := s.guardTransport(r); err != nil {
		return nil, err
	}
	e, provider, err := s.redirectProvider(req.PathParameter("provider"))
	if err != nil {
		return nil, err
	}
	// State, nonce and verifier have 256 bits each (S43).
	j := providerLogin{State: random(), Nonce: random(), Verifier: random(), At: s.Now()}
	begin := idp.Begin{Callback: s.callbackURL(e.Name), State: j.State, Nonce: j.Nonce, Verifier: j.Verifier}
	switch q := r.URL.Query(); {
	case q.Get("form") != "":
		p, err := s.openForm(r, formLogin, q.Get("form"))
		if err != nil {
			return nil, err
		}
		if j.Request = p.Request; j.Request != nil {
			begin.LoginHint = j.Request.LoginHint
		}
		if j.Fresh = p.mustBeFresh(); j.Fresh && !provesFreshLogin(provider) {
			return nil, s.upstreamFault(e, errNotFresh)
		}
	case q.Get("redirect_uri") != "":
		if j.Console, err = s.beginConsoleLogin(e.Name, q.Get("redirect_uri"), q.Get("state")); err != nil {
			return nil, err
		}
		j.Console.Ticket = q.Has("ticket")
	}
	b, err := s.loggedIn(r)
	if err != nil {
		return nil, err
	}
	begin.Again = j.Fresh || b != nil // who is logged in is to be seen by the provider, and not his cookie there
	j.Again = begin.Again
	sealed, err := s.seal(providerPurpose(e.Name), j)
	if err != nil {
		return nil, err
	}
	if len(sealed) > maxCookie {
		return nil, problem(http.StatusBadRequest, page.Say("error.long"), nil)
	}
	to, err := provider.Begin(r.Context(), begin)
	if err != nil {
		return nil, s.upstreamFault(e, err)
	}
	return withCookies{[]*http.Cookie{s.providerLoginCookie(r, e.Name, sealed)}, redirect(to)}, nil
}

// upstreamFault is what a person is told of a provider that failed.
func (s *Server) upstreamFault(e *idp.Entry, err error) error {
	code, say, ok := loginFault(err, label(e))
	if !ok {
		return err
	}
	return problem(code, say, err)
}

// callback is where a provider sends the browser back to. Without a state it is the console, which redeems what it was given.
func (s *Server) callback(req *restful.Request) (any, error) {
	r := req.Request
	values, err := callbackValues(r)
	if err != nil {
		return nil, err
	}
	if values.Get("state") == "" && r.Method == http.MethodGet && !wantsHTML(r) {
		return s.redeemConsoleCode(req, cmp.Or(values.Get("code"), values.Get("ticket")))
	}
	if err := s.guardTransport(r); err != nil {
		return nil, err
	}
	name := req.PathParameter("provider")
	j, err := s.openProviderLogin(r, name, values["state"])
	if err != nil {
		return nil, err
	}
	over := s.providerLoginCookie(r, name, "") // it counts once, whatever comes of it
	answer, err := s.finishProviderLogin(r, name, j, values)
	return s.withSession(over)(answer, err)
}

// openProviderLogin returns the login that this browser has begun. The state of another browser, an old one, or none is refused (S41).
func (s *Server) openProviderLogin(r *http.Request, provider string, state []string) (*providerLogin, error) {
	bad := func(cause error) error { return problem(http.StatusBadRequest, page.Say("error.state"), cause) }
	c, err := r.Cookie(s.cookieName(r, providerCookieName(provider)))
	if err != nil || len(state) != 1 || state[0] == "" {
		return nil, bad(errors.New("the browser has begun no login at the provider, or the state is missing"))
	}
	var j providerLogin
	if err := s.open(providerPurpose(provider), c.Value, &j); err != nil {
		return nil, bad(err)
	}
	if subtle.ConstantTimeCompare([]byte(j.State), []byte(state[0])) != 1 || s.Now().Sub(j.At) > providerLoginLife {
		return nil, bad(errors.New("the state is another one, or too old"))
	}
	return &j, nil
}

// finishProviderLogin takes the person that a provider vouches for.
func (s *Server) finishProviderLogin(r *http.Request, name string, j *providerLogin, values url.Values) (any, error) {
	e, provider, err := s.redirectProvider(name)
	if err != nil {
		return nil, err
	}
	p := &formState{Request: j.Request, Console: j.Console, Again: j.Fresh && j.Request == nil}
	shown := loginState{provider: name}
	id, err := provider.Finish(r.Context(), idp.Callback{Values: values, Callback: s.callbackURL(name), Nonce: j.Nonce, Verifier: j.Verifier, Again: j.Again})
	if err == nil && j.Fresh {
		err = j.verifyFresh(id)
	}
	if err != nil {
		if j.Console != nil {
			return nil, s.upstreamFault(e, err)
		}
		return s.failedLogin(r, p, err, shown)
	}
	if s.deps.authenticator == nil {
		return nil, iam.ErrUnavailable
	}
	proof, err := s.deps.authenticator.Identity(r.Context(), name, id, s.originOf(r))
	if err != nil {
		if j.Console != nil {
			return nil, s.upstreamFault(e, err)
		}
		return s.failedLogin(r, p, err, shown)
	}
	return s.advance(r, p, proof)
}

// freshLeeway is how far a provider's clock may be behind ours.
const freshLeeway = 30 * time.Second

// errNotFresh says that a provider did not have the person prove himself anew, or does not say so.
var errNotFresh = errors.New("the identity provider does not vouch for a fresh login")

// provesFreshLogin tells whether a provider can vouch for a fresh login.
func provesFreshLogin(p idp.Provider) bool {
	r, ok := p.(idp.Reauthentication)
	return ok && r.ProvesFreshLogin()
}

// verifyFresh refuses an identity of somebody who did not prove himself since the login at the provider began.
func (j *providerLogin) verifyFresh(id *idp.Identity) error {
	if id.Authenticated.IsZero() || id.Authenticated.Before(j.At.Add(-freshLeeway)) {
		return errNotFresh
	}
	if id.Authenticated.Before(j.At) { // clocks differ: he was sent there after that
		id.Authenticated = j.At
	}
	return nil
}

// callbackValues reads what the browser came back with. It is the provider's, and may have a name twice.
func callbackValues(r *http.Request) (url.Values, error) {
	if r.Method != http.MethodPost {
		return r.URL.Query(), nil
	}
	return readValues(nil, r)
}
