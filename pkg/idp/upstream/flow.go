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

// Flow is the login at a provider that says, to whoever has an access token, whose it is. It is an idp.Redirect and an idp.Refresher.
//
// What such a provider is asked by is the access token that it gave for the code, over TLS; nothing that a browser brings
// is believed.
type Flow struct {
	Grant *Grant
	// Request is what logins begin with, TokenURL where codes are redeemed, and Style how.
	Request  Request
	TokenURL string
	Style    Style
	// Hint is the parameter for the name that the person typed, "" for none. Again are the parameters that ask him to prove himself anew.
	Hint  string
	Again url.Values
	// Lasting says that access tokens do not expire, so that they can be asked by again where there is no refresh token.
	Lasting bool
	// Person asks whose an access token is. Its errors are idp.ErrRefused, for somebody who may not log in, and idp.ErrUnavailable.
	Person func(ctx context.Context, access string) (*idp.Identity, error)
}

// errToken says that an access token is not taken.
var errToken = errors.New("it does not take the access token")

// Check has the provider recognise the client.
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

// Finish redeems the code, and asks whose the access token is.
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

// What is remembered of a login is a token of one of two kinds.
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

// Refresh asks about the person again.
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
		return nil, err
	case who.Subject != subject:
		return nil, fmt.Errorf("%w: asked by his token, it speaks of another person", idp.ErrGone)
	}
	who.Refresh = f.remember(t)
	return who, nil
}

// Ask asks a provider's API by an access token, and reads the JSON that it answers.
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

// Nobody is the error for an answer that does not say who the person is.
func Nobody(key string) error {
	return fmt.Errorf("%w: %w: it names nobody: %q is not there, or no text or whole number", idp.ErrUnavailable, ErrSettings, key)
}
