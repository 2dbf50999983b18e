package formstate

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
	"time"

	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/oauth/browser"
	"kapis.dev/ks-apiserver/pkg/oauth/page"
	"kapis.dev/ks-apiserver/pkg/oauth/protocol"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/token"
)

// Forms seals and opens the state of forms.
type Forms struct {
	Logins *browser.Logins
	Sealer token.Sealer
	// Users returns the user with a name and a UID; nil if there is none. It fails where that is not known now.
	Users func(name, uid string) (*iam.User, error)
	// Origins are those of pages besides this server's whose forms are accepted: of the console, which passes forms on.
	Origins request.Origins
	Now     func() time.Time
}

// OpenOwn opens a form state that was sealed for the user who is logged in now.
func (f *Forms) OpenOwn(r *http.Request, name Name, sealed string) (*browser.Login, *State, error) {
	p, err := f.unseal(name, sealed)
	if err == nil && !p.ByToken {
		err = f.checkBinding(r, p)
	}
	if err != nil {
		return nil, nil, err
	}
	of := f.Logins.Of
	if p.ByToken {
		of = f.Logins.OfToken
	}
	b, err := of(r)
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

// Seal seals a form state for a request's browser. The cookie has to be set unless it is nil. A form that is sent with an access token
// needs no cookie: only OpenOwn opens it.
func (f *Forms) Seal(r *http.Request, name Name, p State) (sealed string, set *http.Cookie, err error) {
	if p.ByToken {
		p.At = f.Now()
		sealed, err = f.seal(name.Purpose(), p)
		return sealed, nil, err
	}
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
	p, err := f.unseal(name, sealed)
	switch {
	case err != nil:
		return nil, err
	case p.ByToken:
		return nil, Stale(errors.New("the form belongs to an access token"))
	}
	return p, f.checkBinding(r, p)
}

// unseal opens a form state, whatever it is bound to.
func (f *Forms) unseal(name Name, sealed string) (*State, error) {
	var p State
	if err := f.Sealer.Open(name.Purpose(), sealed, &p); err != nil {
		return nil, Stale(err)
	}
	if f.Now().Sub(p.At) > Life {
		return nil, Stale(errors.New("the form is too old"))
	}
	return &p, nil
}

// checkBinding returns an error unless the form state was sealed for the browser of the request.
func (f *Forms) checkBinding(r *http.Request, p *State) error {
	c, err := r.Cookie(f.Logins.Cookies.Name(r, browser.BindingCookie))
	if err != nil {
		return Stale(errors.New("the browser sends no login cookie"))
	}
	sum := sha256.Sum256([]byte(c.Value))
	if subtle.ConstantTimeCompare(sum[:], p.Binding) != 1 {
		return Stale(errors.New("the form was given to another browser"))
	}
	return nil
}

// Stale returns the error for a form of another browser, or one that is too old.
func Stale(cause error) *protocol.Error {
	return protocol.Problem(http.StatusForbidden, page.Say("error.stale"), cause)
}
