package upstream

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"

	"kapis.dev/ks-apiserver/pkg/idp"
)

// Flow is the login at a provider that returns the user of an access token. It is an idp.Redirect and an idp.Refresher.
//
// The provider is asked over TLS, with the access token that it issued for the code; nothing that a browser sends is trusted.
type Flow struct {
	Grant *Grant
	// Request describes the authorization request, TokenURL is where codes are redeemed, and Style how the client authenticates there.
	Request  Request
	TokenURL string
	Style    Style
	// Hint is the parameter for the user name as typed, "" for none. Again are the parameters that ask the user to authenticate again.
	Hint  string
	Again url.Values
	// Lasting says that access tokens do not expire, so that they can be used for a refresh if there is no refresh token.
	Lasting bool
	// Person returns the user of an access token. Its errors are idp.ErrRefused, for a user who may not log in, and idp.ErrUnavailable.
	Person func(ctx context.Context, access string) (*idp.Identity, error)
}

// errToken says that an access token is not accepted.
var errToken = errors.New("it does not take the access token")

// PersonAt has the flow read the person from the claims at an address, such as that of a userinfo endpoint.
func (f *Flow) PersonAt(address string, person func(Claims) (*idp.Identity, error)) {
	f.Person = func(ctx context.Context, access string) (*idp.Identity, error) {
		claims := Claims{}
		if err := f.Ask(ctx, address, access, &claims); err != nil {
			return nil, err
		}
		return person(claims)
	}
}

// Check checks whether the provider knows the client.
func (f *Flow) Check(ctx context.Context) error {
	ctx, cancel := f.Grant.Client.Bound(ctx)
	defer cancel()
	return Checked(f.Grant.Probe(ctx, f.TokenURL, f.Request.Callback, f.Style))
}

// Begin returns where to send the browser.
func (f *Flow) Begin(_ context.Context, b idp.Begin) (string, error) {
	r := f.Request
	if r.Extra = maps.Clone(r.Extra); r.Extra == nil {
		r.Extra = url.Values{}
	}
	if b.Again {
		maps.Copy(r.Extra, f.Again)
	}
	if b.LoginHint != "" && f.Hint != "" {
		r.Extra.Set(f.Hint, b.LoginHint)
	}
	return f.Grant.Begin(r, b)
}

// Finish redeems the code, and asks for the user of the access token.
func (f *Flow) Finish(ctx context.Context, c idp.Callback) (*idp.Identity, error) {
	ctx, cancel := f.Grant.Client.Bound(ctx)
	defer cancel()
	code, err := Code(c.Values, "code")
	if err != nil {
		return nil, err
	}
	if c.Verifier == "" {
		return nil, fmt.Errorf("%w: the login has no verifier (RFC 7636)", idp.ErrRefused)
	}
	t, err := f.Grant.Redeem(ctx, f.TokenURL, code, or(f.Request.Callback, c.Callback), c.Verifier, f.Style)
	if err != nil {
		return nil, err
	}
	who, err := f.Person(ctx, t.Access)
	if err != nil {
		return nil, err
	}
	who.Refresh = f.remember(t)
	return who, nil
}

// What is stored of a login is a token of one of two kinds.
const (
	kindAccess  = "a:"
	kindRefresh = "r:"
)

func (f *Flow) remember(t *Tokens) string {
	switch {
	case t.Refresh != "":
		return kindRefresh + t.Refresh
	case f.Lasting:
		return kindAccess + t.Access
	}
	return ""
}

// Refresh asks about the user again.
func (f *Flow) Refresh(ctx context.Context, subject, refresh string) (*idp.Identity, error) {
	ctx, cancel := f.Grant.Client.Bound(ctx)
	defer cancel()
	t := &Tokens{}
	if old, ok := strings.CutPrefix(refresh, kindRefresh); ok {
		var err error
		if t, err = f.Grant.Renew(ctx, f.TokenURL, old, f.Style); err != nil {
			return nil, err
		}
	} else if t.Access, ok = strings.CutPrefix(refresh, kindAccess); !ok {
		return nil, fmt.Errorf("%w: it gave nothing to ask with", idp.ErrUnaskable)
	}
	who, err := f.Person(ctx, t.Access)
	switch {
	case errors.Is(err, idp.ErrRefused), errors.Is(err, errToken) && t.Refresh == "":
		return nil, fmt.Errorf("%w: %s", idp.ErrGone, strings.TrimPrefix(err.Error(), idp.ErrUnavailable.Error()+": "))
	case err != nil:
		return nil, idp.Renewed(refresh, f.remember(t), err)
	case who.Subject != subject:
		return nil, fmt.Errorf("%w: asked with the access token, it names another user", idp.ErrGone)
	}
	who.Refresh = f.remember(t)
	return who, nil
}

// Ask sends an access token to a provider's API, and decodes the JSON of the answer.
func (f *Flow) Ask(ctx context.Context, address, access string, into any) error {
	a, err := f.Grant.Client.Get(ctx, address, access, "application/json")
	if err != nil {
		return err
	}
	if a.Status == http.StatusUnauthorized {
		return fmt.Errorf("%w: %w: %s", idp.ErrUnavailable, errToken, a.where)
	}
	return a.JSON(into)
}

// Nobody returns the error for an answer that does not identify the user.
func Nobody(key string) error {
	return fmt.Errorf("%w: %w: it names nobody: %q is not there, or no text or whole number", idp.ErrUnavailable, ErrSettings, key)
}
