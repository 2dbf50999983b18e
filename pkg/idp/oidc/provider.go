package oidc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"time"

	"kapis.dev/ks-apiserver/pkg/idp"
	"kapis.dev/ks-apiserver/pkg/idp/upstream"
)

// Provider is an OpenID Connect provider: an idp.Redirect, an idp.Refresher and an idp.EndSession.
type Provider struct {
	client    *upstream.Client
	grant     *upstream.Grant
	settings  Settings
	preset    Preset
	loopback  bool
	now       func() time.Time
	documents *upstream.Cached[*document]
	keys      *upstream.Cached[*keySet]
}

// Check reads the provider's metadata and its keys, and checks whether the provider knows the client.
func (p *Provider) Check(ctx context.Context) error {
	ctx, cancel := p.client.Bound(ctx)
	defer cancel()
	d, err := p.document(ctx)
	if err == nil && p.settings.Endpoint.JWKSURL == "" {
		d, err = p.discover(ctx) // the current document, not a cached one
	}
	if err == nil {
		_, err = p.fetchKeys(ctx)
	}
	if err == nil {
		err = p.grant.Probe(ctx, d.TokenURL, p.settings.RedirectURL, d.style())
	}
	return upstream.Checked(err)
}

// Begin returns where to send the browser (OpenID Connect Core 1.0, 3.1.2.1).
func (p *Provider) Begin(ctx context.Context, b idp.Begin) (string, error) {
	ctx, cancel := p.client.Bound(ctx)
	defer cancel()
	d, err := p.document(ctx)
	if err != nil {
		return "", err
	}
	extra := maps.Clone(p.preset.Extra)
	if extra == nil {
		extra = url.Values{}
	}
	if b.LoginHint != "" {
		extra.Set("login_hint", b.LoginHint)
	}
	if b.Again {
		extra.Set("prompt", cmp.Or(p.preset.Again, "login"))
		if p.ProvesFreshLogin() {
			extra.Set("max_age", "0") // then the ID token has to contain the time of authentication (OpenID Connect Core 1.0, 2)
		}
	}
	return p.grant.Begin(upstream.Request{AuthURL: d.AuthURL, Callback: p.settings.RedirectURL, Scopes: p.settings.Scopes, PKCE: d.pkce(),
		Nonce: true, Extra: extra}, b)
}

// Finish redeems the code, and verifies the ID token.
func (p *Provider) Finish(ctx context.Context, c idp.Callback) (*idp.Identity, error) {
	ctx, cancel := p.client.Bound(ctx)
	defer cancel()
	d, err := p.document(ctx)
	if err != nil {
		return nil, err
	}
	if iss := c.Values["iss"]; len(iss) > 1 || len(iss) == 1 && iss[0] != p.settings.Issuer || len(iss) == 0 && d.SendsIssuer {
		return nil, refused("the answer is not of this provider (iss; RFC 9207, 2.4)")
	}
	code, err := upstream.Code(c.Values, "code")
	if err != nil {
		return nil, err
	}
	verifier := c.Verifier
	if !d.pkce() {
		verifier = ""
	} else if verifier == "" {
		return nil, refused("the login has no verifier (RFC 7636)")
	}
	callback := c.Callback
	if p.settings.RedirectURL != "" {
		callback = p.settings.RedirectURL
	}
	t, err := p.grant.Redeem(ctx, d.TokenURL, code, callback, verifier, d.style())
	if err != nil {
		return nil, err
	}
	claims, err := p.verify(ctx, d, t, &c.Nonce)
	if err != nil {
		return nil, err
	}
	authenticated, err := p.authenticated(claims) // of the ID token, which is signed
	if err != nil {
		return nil, err
	}
	if p.settings.GetUserInfo {
		if claims, err = p.userInfo(ctx, d, t.Access, claims); err != nil {
			return nil, err
		}
	}
	who := p.identity(claims, t)
	who.Authenticated = authenticated
	return who, nil
}

// ProvesFreshLogin reports whether the provider can make users authenticate again, as all providers can that follow
// OpenID Connect Core 1.0, 3.1.2.1.
func (p *Provider) ProvesFreshLogin() bool { return p.preset.Again == "" }

// errOther is the error for an answer about another user.
var errOther = refused("it names another user (sub)")

// userInfo adds the answer of the userinfo endpoint (OpenID Connect Core 1.0, 5.3) to claims. It has to be about the same user.
func (p *Provider) userInfo(ctx context.Context, d *document, access string, claims upstream.Claims) (upstream.Claims, error) {
	if d.UserInfoURL == "" {
		return nil, fmt.Errorf("%w: %w: it has no userinfo endpoint", idp.ErrUnavailable, upstream.ErrSettings)
	}
	a, err := p.client.Get(ctx, d.UserInfoURL, access, "application/json")
	if err != nil {
		return nil, err
	}
	var info upstream.Claims
	if err := a.JSON(&info); err != nil {
		return nil, err
	}
	if sub := info.Subject("sub"); sub == "" || sub != claims.Subject("sub") {
		return nil, errOther
	}
	out := maps.Clone(claims)
	if info.Has("email") { // the source of the e-mail also says whether it is verified
		delete(out, "email_verified")
	}
	for k, v := range info {
		switch k {
		case "iss", "aud", "exp", "iat", "nonce", "azp", "at_hash":
		default:
			out[k] = v
		}
	}
	return out, nil
}

// identity returns the Identity for the claims of a user (OpenID Connect Core 1.0, 5.1).
func (p *Provider) identity(c upstream.Claims, t *upstream.Tokens) *idp.Identity {
	s := &p.settings
	who := &idp.Identity{
		Subject: c.Subject("sub"), Username: c.First(s.PreferredUsernameKey, "preferred_username", "nickname", "email", "sub"),
		DisplayName: c.First("name", "given_name"), Lang: c.Language("locale"), Hint: t.ID, Refresh: t.Refresh,
	}
	switch unverified := c.Has("email_verified") && !c.True("email_verified"); {
	case s.EmailKey != "" && s.EmailKey != "email": // the administrator knows what this claim is
		if !unverified || s.TrustEmail {
			who.Email = c.Email(s.EmailKey)
		}
	case c.True("email_verified") || s.TrustEmail:
		who.Email = c.Email("email")
	}
	if s.GroupsKey != "" {
		who.Groups = idp.Groups(c.List(s.GroupsKey), s.GroupsPrefix)
	}
	return who
}

// Refresh asks about the user by the refresh token (OpenID Connect Core 1.0, 12).
func (p *Provider) Refresh(ctx context.Context, subject, refresh string) (*idp.Identity, error) {
	if refresh == "" {
		return nil, fmt.Errorf("%w: it gave no refresh token; ask for the scope that it gives one for, such as offline_access", idp.ErrUnaskable)
	}
	ctx, cancel := p.client.Bound(ctx)
	defer cancel()
	d, err := p.document(ctx)
	if err != nil {
		return nil, err
	}
	t, err := p.grant.Renew(ctx, d.TokenURL, refresh, d.style())
	if err != nil {
		return nil, err
	}
	claims := upstream.Claims{"sub": subject}
	if t.ID != "" {
		if claims, err = p.verify(ctx, d, t, nil); err == nil && claims.Subject("sub") != subject {
			err = errOther
		}
	}
	if err == nil && (t.ID == "" || p.settings.GetUserInfo) {
		claims, err = p.userInfo(ctx, d, t.Access, claims)
	}
	switch {
	case errors.Is(err, errOther):
		return nil, fmt.Errorf("%w: asked with the refresh token, it names another user", idp.ErrGone)
	case errors.Is(err, idp.ErrRefused):
		err = fmt.Errorf("%w: asked with the refresh token: %s", idp.ErrUnavailable, err.Error())
	}
	if err != nil {
		return nil, idp.Renewed(refresh, t.Refresh, err)
	}
	return p.identity(claims, t), nil
}

// Logout returns the provider's page (OpenID Connect RP-Initiated Logout 1.0, 2).
func (p *Provider) Logout(ctx context.Context, hint, back, state string) (string, error) {
	ctx, cancel := p.client.Bound(ctx)
	defer cancel()
	d, err := p.document(ctx)
	if err != nil || d.EndSessionURL == "" {
		return "", err
	}
	if p.settings.PostLogoutRedirectURI != "" {
		back = p.settings.PostLogoutRedirectURI
	}
	q := url.Values{"client_id": {p.settings.ClientID}}
	for k, v := range map[string]string{"id_token_hint": hint, "post_logout_redirect_uri": back, "state": state} {
		if v != "" {
			q.Set(k, v)
		}
	}
	return upstream.Extend(d.EndSessionURL, q)
}

// EndSession returns the same page for callers without a hint: the configured one, or the one that the provider published last.
// Browsers return only if a URL for that is configured, since this server's own address expects the state of a logout that began here.
func (p *Provider) EndSession() string {
	address := p.settings.Endpoint.EndSessionURL
	if d, ok := p.documents.Kept(); ok && address == "" {
		address = d.EndSessionURL
	}
	if address == "" {
		return ""
	}
	q := url.Values{"client_id": {p.settings.ClientID}}
	if to := p.settings.PostLogoutRedirectURI; to != "" {
		q.Set("post_logout_redirect_uri", to)
	}
	page, err := upstream.Extend(address, q)
	if err != nil {
		return "" // never, since Open and discovery have checked it
	}
	return page
}
