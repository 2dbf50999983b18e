package oidc

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"kapis.dev/ks-apiserver/pkg/idp"
	"kapis.dev/ks-apiserver/pkg/idp/upstream"
)

// algorithms are those that an ID token may be signed with. All of them are asymmetric, so a public key is never taken
// for a shared secret (RFC 8725, 3.1).
var algorithms = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}

// document has the metadata of a provider (OpenID Connect Discovery 1.0, 3) that this package uses.
type document struct {
	Issuer           string   `json:"issuer"`
	AuthURL          string   `json:"authorization_endpoint"`
	TokenURL         string   `json:"token_endpoint"`
	UserInfoURL      string   `json:"userinfo_endpoint"`
	JWKSURL          string   `json:"jwks_uri"`
	EndSessionURL    string   `json:"end_session_endpoint"`
	Algorithms       []string `json:"id_token_signing_alg_values_supported"`
	ChallengeMethods []string `json:"code_challenge_methods_supported"`
	AuthMethods      []string `json:"token_endpoint_auth_methods_supported"`
	SendsIssuer      bool     `json:"authorization_response_iss_parameter_supported"`
}

// document returns the addresses of the provider: the configured ones, and for the rest the published ones.
func (p *Provider) document(ctx context.Context) (*document, error) {
	if e := p.settings.Endpoint; e.AuthURL != "" && e.TokenURL != "" && e.JWKSURL != "" {
		return p.complete(&document{Issuer: p.settings.Issuer})
	}
	return p.documents.Get(ctx)
}

// discover reads the published metadata.
func (p *Provider) discover(ctx context.Context) (*document, error) {
	a, err := p.client.Get(ctx, strings.TrimSuffix(p.settings.Issuer, "/")+"/.well-known/openid-configuration", "", "application/json")
	if err != nil {
		return nil, err
	}
	var d document
	if err := a.JSON(&d); err != nil {
		return nil, err
	}
	if strings.ContainsAny(d.Issuer, "{}") {
		return nil, fmt.Errorf("%w: %w: it is an issuer of many tenants ({tenantid}), which is not supported; set the issuer of one tenant",
			idp.ErrUnavailable, upstream.ErrSettings)
	}
	if d.Issuer != p.settings.Issuer {
		return nil, fmt.Errorf("%w: %w: it calls itself by another issuer; the key %q has to be the same to the letter, with or without a"+
			" slash at its end", idp.ErrUnavailable, upstream.ErrSettings, "issuer")
	}
	return p.complete(&d)
}

// complete replaces published values by configured ones, and checks the result.
func (p *Provider) complete(d *document) (*document, error) {
	e := p.settings.Endpoint
	for _, a := range []struct {
		name, configured string
		into             *string
		optional         bool
	}{
		{"authURL", e.AuthURL, &d.AuthURL, false}, {"tokenURL", e.TokenURL, &d.TokenURL, false}, {"jwksURL", e.JWKSURL, &d.JWKSURL, false},
		{"userInfoURL", e.UserInfoURL, &d.UserInfoURL, !p.settings.GetUserInfo}, {"endSessionURL", e.EndSessionURL, &d.EndSessionURL, true},
	} {
		if a.configured != "" {
			*a.into = a.configured
		}
		if *a.into == "" && a.optional {
			continue
		}
		if upstream.Address(a.name, *a.into, p.loopback) != nil {
			return nil, fmt.Errorf("%w: %w: it publishes no address for %s that begins with https://; set the key %q", idp.ErrUnavailable,
				upstream.ErrSettings, a.name, "endpoint."+a.name)
		}
	}
	if len(d.Algorithms) > 0 {
		d.Algorithms = slices.DeleteFunc(slices.Clone(algorithms), func(a string) bool { return !slices.Contains(d.Algorithms, a) })
		if len(d.Algorithms) == 0 {
			return nil, fmt.Errorf("%w: %w: it signs ID tokens by no algorithm with a public key; have it sign by RS256", idp.ErrUnavailable,
				upstream.ErrSettings)
		}
	} else {
		d.Algorithms = algorithms
	}
	if d.AuthMethods != nil && !p.settings.ClientSecret.IsZero() && d.style() == upstream.StyleUnknown {
		return nil, fmt.Errorf("%w: %w: it takes neither client_secret_basic nor client_secret_post of clients", idp.ErrUnavailable,
			upstream.ErrSettings)
	}
	return d, nil
}

// style returns how the client authenticates at the token endpoint.
func (d *document) style() upstream.Style {
	switch {
	case slices.Contains(d.AuthMethods, "client_secret_basic"):
		return upstream.StyleBasic
	case slices.Contains(d.AuthMethods, "client_secret_post"):
		return upstream.StyleForm
	}
	return upstream.StyleUnknown
}

// pkce reports whether the challenge is sent: always, unless the provider is known not to support it.
func (d *document) pkce() bool {
	return len(d.ChallengeMethods) == 0 || slices.Contains(d.ChallengeMethods, "S256")
}
