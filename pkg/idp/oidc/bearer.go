package oidc

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"

	gooidc "github.com/coreos/go-oidc/v3/oidc"

	"kapis.dev/ks-apiserver/pkg/idp"
	"kapis.dev/ks-apiserver/pkg/idp/upstream"
)

var _ idp.Bearer = (*Provider)(nil)

// Issued implements idp.Bearer: a JWT whose claims name this issuer, where tokens of any audience are accepted.
func (p *Provider) Issued(token string) bool {
	if len(p.settings.BearerAudiences) == 0 {
		return false
	}
	_, rest, _ := strings.Cut(token, ".")
	payload, signature, ok := strings.Cut(rest, ".")
	if !ok || signature == "" {
		return false
	}
	text, err := base64.RawURLEncoding.DecodeString(payload)
	if err != nil {
		return false
	}
	var claims struct {
		Issuer string `json:"iss"`
	}
	return json.Unmarshal(text, &claims) == nil && claims.Issuer == p.settings.Issuer
}

// Remote implements idp.Bearer: tokens are verified here, by keys that are cached.
func (p *Provider) Remote() bool { return false }

// Bearer implements idp.Bearer: it verifies signature, issuer, times, and that the token was issued for an audience of BearerAudiences
// (RFC 7519, 4.1; RFC 9068, 4).
func (p *Provider) Bearer(ctx context.Context, token string) (*idp.Identity, error) {
	ctx, cancel := p.client.Bound(ctx)
	defer cancel()
	d, err := p.document(ctx)
	if err != nil {
		return nil, err
	}
	claims, parsed, err := p.signed(ctx, d, token, &gooidc.Config{SkipClientIDCheck: true})
	if err != nil {
		return nil, err
	}
	switch {
	case !slices.ContainsFunc(parsed.Audience, func(a string) bool { return slices.Contains(p.settings.BearerAudiences, a) }):
		return nil, refused("the token is for another audience")
	case parsed.IssuedAt.After(p.now().Add(leeway)):
		return nil, refused("the token is of the future")
	case claims.Subject("sub") == "":
		return nil, refused("the token names nobody (sub)")
	}
	if p.preset.Accept != nil {
		if err := p.preset.Accept(claims); err != nil {
			return nil, err
		}
	}
	return p.identity(claims, &upstream.Tokens{}), nil
}
