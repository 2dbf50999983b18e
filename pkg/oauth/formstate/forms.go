package formstate

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
	"net/url"
	"time"

	restful "github.com/emicklei/go-restful/v3"

	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/oauth/browser"
	"kapis.dev/ks-apiserver/pkg/oauth/page"
	"kapis.dev/ks-apiserver/pkg/oauth/protocol"
	"kapis.dev/ks-apiserver/pkg/token"
)

// Forms seals and opens the state of forms.
type Forms struct {
	Logins *browser.Logins
	Sealer token.Sealer
	// Users returns the user with a name; nil if there is none.
	Users func(name string) *iam.User
	Now   func() time.Time
}

// OpenOwn opens a form state that was sealed for the user who is logged in now.
func (f *Forms) OpenOwn(r *http.Request, name Name, sealed string) (*browser.Login, *State, error) {
	p, err := f.Open(r, name, sealed)
	if err != nil {
		return nil, nil, err
	}
	b, err := f.Logins.Of(r)
	if err != nil {
		return nil, nil, err
	}
	if b == nil || b.Session.Name != p.Session {
		return nil, nil, Stale(errors.New("another user is logged in than the page was made for, or none"))
	}
	return b, p, nil
}

// seal seals a value, and refuses one that is too long to be opened again.
func (f *Forms) seal(purpose token.Purpose, v any) (string, error) {
	out, err := f.Sealer.Seal(purpose, v)
	if err == nil && len(out) > token.MaxSealed {
		return "", protocol.Problem(http.StatusBadRequest, page.Say("error.long"), nil)
	}
	return out, err
}

// Seal seals a form state for a request's browser. The cookie has to be set unless it is nil.
func (f *Forms) Seal(r *http.Request, name Name, p State) (sealed string, set *http.Cookie, err error) {
	if err := f.Logins.Cookies.RequireTLS(r); err != nil {
		return "", nil, err
	}
	secret, set := f.Logins.Cookies.Binding(r)
	sum := sha256.Sum256([]byte(secret))
	p.Binding, p.At = sum[:], f.Now()
	sealed, err = f.seal(name.Purpose(), p)
	return sealed, set, err
}

// Open opens the form state that was sent with a form. It has to be sealed for this browser.
func (f *Forms) Open(r *http.Request, name Name, sealed string) (*State, error) {
	c, err := r.Cookie(f.Logins.Cookies.Name(r, browser.BindingCookie))
	if err != nil {
		return nil, Stale(errors.New("the browser sends no login cookie"))
	}
	var p State
	if err := f.Sealer.Open(name.Purpose(), sealed, &p); err != nil {
		return nil, Stale(err)
	}
	sum := sha256.Sum256([]byte(c.Value))
	switch {
	case subtle.ConstantTimeCompare(sum[:], p.Binding) != 1:
		return nil, Stale(errors.New("the form was given to another browser"))
	case f.Now().Sub(p.At) > Life:
		return nil, Stale(errors.New("the form is too old"))
	}
	return &p, nil
}

// Stale returns the error for a form of another browser, or one that is too old.
func Stale(cause error) *protocol.Error {
	return protocol.Problem(http.StatusForbidden, page.Say("error.stale"), cause)
}

// ReadPost reads the form of a page. Requests from other sites are refused.
func (f *Forms) ReadPost(req *restful.Request) (protocol.Form, error) {
	if err := f.Logins.Cookies.RequireTLS(req.Request); err != nil {
		return nil, err
	}
	if !sameSite(req.Request) {
		return nil, protocol.Problem(http.StatusForbidden, page.Say("error.origin"), nil)
	}
	return protocol.ReadForm(req.Request)
}

// sameSite reports whether a request comes from a page of this server (Fetch Metadata; RFC 6454, 7). The origin is "null" for pages
// without a referrer, such as these: then the form state alone decides.
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
