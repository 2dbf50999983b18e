package oauth

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/emicklei/go-restful/v3"

	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/oauth/page"
	"kapis.dev/ks-apiserver/pkg/token"
)

const (
	// formLife is how long a page can be used, and resultLife how long what a person has shown so far counts.
	formLife   = time.Hour
	resultLife = 10 * time.Minute
)

// formState goes with each form, sealed and bound to the browser that was given it: it is the form's protection against other
// sites (RFC 6749, 10.12) and other browsers (S38), and what the server would have to remember of a login in progress else.
type formState struct {
	// Binding is the hash of the login cookie, Session the browser's session that the page was made for; "" for none.
	Binding []byte    `json:"b"`
	Session string    `json:"n,omitempty"`
	At      time.Time `json:"t"`
	// Request is what a client asked for; nil where the person came by himself.
	Request *authorization `json:"a,omitempty"`
	Console *consoleLogin  `json:"h,omitempty"`
	Result  *sealedResult  `json:"p,omitempty"`
	// Challenge is what a passkey has to answer, Enrolment the secret of a new authenticator app.
	Challenge string     `json:"c,omitempty"`
	Enrolment *enrolment `json:"e,omitempty"`
	// Again says that the person is to prove himself for a change on his own page.
	Again bool `json:"f,omitempty"`
	// Farewell is where a logout leads.
	Logout *logoutRequest `json:"w,omitempty"`
	// UserCode is the device's that the page asks about.
	UserCode string `json:"d,omitempty"`
}

// sealedResult is an iam.AuthnResult on its way through the browser.
type sealedResult struct {
	User, UID string `json:",omitempty"`
	// Credential has a change of the password end it.
	Credential   string            `json:",omitempty"`
	Registration *iam.Registration `json:",omitempty"`
	Provider     string            `json:",omitempty"`
	Subject      string            `json:",omitempty"`
	Groups       []string          `json:",omitempty"`
	Hint         string            `json:",omitempty"`
	Refresh      string            `json:",omitempty"`
	Methods      []string          `json:",omitempty"`
	At           time.Time
	// Authenticated is that of the proof.
	Authenticated time.Time `json:",omitzero"`
	Pending       bool      `json:",omitempty"`
}

func sealResult(p *iam.AuthnResult) *sealedResult {
	out := &sealedResult{Registration: p.Registration, Provider: p.Provider, Subject: p.Subject, Groups: p.Groups, Hint: p.Hint, Refresh: p.Refresh,
		Methods: p.Methods, At: p.At, Authenticated: p.Authenticated, Pending: p.Pending}
	if p.User != nil {
		out.User, out.UID, out.Credential = p.User.Name, p.User.UID, p.User.Credential()
	}
	return out
}

// unpack returns the proof with the User as he is now.
func (s *Server) unpack(in *sealedResult) (*iam.AuthnResult, error) {
	if in == nil || s.Now().Sub(in.At) > resultLife {
		return nil, stale(errors.New("what was proved is too long ago"))
	}
	p := &iam.AuthnResult{Registration: in.Registration, Provider: in.Provider, Subject: in.Subject, Groups: in.Groups, Hint: in.Hint, Refresh: in.Refresh,
		Methods: in.Methods, At: in.At, Authenticated: in.Authenticated, Pending: in.Pending}
	if in.User == "" {
		return p, nil
	}
	if p.User = s.deps.users(in.User); p.User == nil || p.User.UID != in.UID || p.User.Credential() != in.Credential {
		return nil, stale(errors.New("the user is gone, or has another password"))
	}
	return p, nil
}

// client is the OAuth client that the person logs in to; "" for none.
func (p *formState) client() string {
	if p.Request == nil {
		return ""
	}
	return p.Request.Client
}

// mustBeFresh tells whether a login counts only of somebody who proves himself for it: for a change on his own page, or because the client
// wants it.
func (p *formState) mustBeFresh() bool {
	return p.Again || p.Request != nil && (has(p.Request.Prompt, promptLogin) || p.Request.MaxAge >= 0)
}

// targets are where the browser may be sent when the form has been answered.
func (p *formState) targets() []string {
	var out []string
	if p.Request != nil && p.Request.RedirectURI != "" {
		out = append(out, source(p.Request.RedirectURI))
	}
	if p.Console != nil {
		out = append(out, source(p.Console.Redirect))
	}
	if p.Logout != nil && p.Logout.To != "" {
		out = append(out, source(p.Logout.To))
	}
	return slices.DeleteFunc(out, func(s string) bool { return s == "" })
}

// envelope seals what travels in a form, and refuses what would not be opened again.
func (s *Server) envelope(purpose token.Purpose, v any) (string, error) {
	out, err := s.seal(purpose, v)
	if err == nil && len(out) > token.MaxSealed {
		return "", problem(http.StatusBadRequest, page.Say("error.long"), nil)
	}
	return out, err
}

// formName is the name of a form; what is sealed for one is not taken by another.
type formName string

// The forms.
const (
	formLogin    formName = "login"
	formPasskey  formName = "passkey"
	formFactor   formName = "factor"
	formPassword formName = "password"
	formRegister formName = "register"
	formConsent  formName = "consent"
	formDevice   formName = "device"
	formAnswer   formName = "device-answer"
	formLogout   formName = "logout"
	formAccount  formName = "account"
	formTotp     formName = "totp"
	formEnrolled formName = "enrolled"
	formAdd      formName = "passkey-add"
)

func (n formName) purpose() token.Purpose { return token.Purpose("form " + string(n)) }

// sealForm seals a form state for this browser. The cookie is to be set where it is not nil.
func (s *Server) sealForm(r *http.Request, name formName, p formState) (sealed string, set *http.Cookie, err error) {
	if err := s.guardTransport(r); err != nil {
		return "", nil, err
	}
	secret, set := s.binding(r)
	sum := sha256.Sum256([]byte(secret))
	p.Binding, p.At = sum[:], s.Now()
	sealed, err = s.envelope(name.purpose(), p)
	return sealed, set, err
}

// openForm opens the form state that came with a form. It has to be this browser's.
func (s *Server) openForm(r *http.Request, name formName, sealed string) (*formState, error) {
	c, err := r.Cookie(s.cookieName(r, loginCookie))
	if err != nil {
		return nil, stale(errors.New("the browser sends no login cookie"))
	}
	var p formState
	if err := s.open(name.purpose(), sealed, &p); err != nil {
		return nil, stale(err)
	}
	sum := sha256.Sum256([]byte(c.Value))
	switch {
	case subtle.ConstantTimeCompare(sum[:], p.Binding) != 1:
		return nil, stale(errors.New("the form was given to another browser"))
	case s.Now().Sub(p.At) > formLife:
		return nil, stale(errors.New("the form is too old"))
	}
	return &p, nil
}

// stale refuses a form that is not this browser's, or no longer.
func stale(cause error) *Error { return problem(http.StatusForbidden, page.Say("error.stale"), cause) }

// readPostedForm reads the form of a page. Only our own pages may send one.
func (s *Server) readPostedForm(req *restful.Request) (form, error) {
	if err := s.guardTransport(req.Request); err != nil {
		return nil, err
	}
	if !sameSite(req.Request) {
		return nil, problem(http.StatusForbidden, page.Say("error.origin"), nil)
	}
	return readForm(nil, req.Request)
}

// sameSite tells whether a request that changes something comes from a page of ours (Fetch Metadata; RFC 6454, 7). A browser
// sends the origin "null" from pages that tell nobody where they are, as ours: then the form state alone decides.
func sameSite(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "same-origin", "none":
		return true
	case "":
		from := r.Header.Get("Origin")
		if from == "" || from == "null" {
			return true
		}
		u, err := url.Parse(from)
		return err == nil && u.Host == r.Host
	}
	return false
}

// show answers with a page.
func (s *Server) show(code int, d page.Data, targets []string, set ...*http.Cookie) any {
	v := &htmlResponse{book: s.deps.book, code: code, data: d, targets: targets}
	set = slices.DeleteFunc(set, func(c *http.Cookie) bool { return c == nil })
	if len(set) == 0 {
		return v
	}
	return withCookies{set, v}
}
