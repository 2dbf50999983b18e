package oidc

import (
	"bytes"
	"context"
	"crypto/rsa"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	gooidc "github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"

	"kapis.dev/ks-apiserver/pkg/idp"
	"kapis.dev/ks-apiserver/pkg/idp/upstream"
)

const (
	// leeway is how far clocks may differ.
	leeway = time.Minute
	// keyPause is the pause between two requests for the keys because of tokens with unknown keys.
	keyPause = 10 * time.Second
	// maxKeys bounds the keys that are cached, maxToken the bytes of an ID token, and minRSA the bits of a key.
	maxKeys  = 64
	maxToken = 128 << 10
	minRSA   = 2048
)

// keySet has the provider's public keys.
type keySet struct{ keys []jose.JSONWebKey }

// fetchKeys reads the provider's keys (RFC 7517, 5). Unusable ones are left out.
func (p *Provider) fetchKeys(ctx context.Context) (*keySet, error) {
	d, err := p.document(ctx)
	if err != nil {
		return nil, err
	}
	a, err := p.client.Get(ctx, d.JWKSURL, "", "application/jwk-set+json, application/json")
	if err != nil {
		return nil, err
	}
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := a.JSON(&set); err != nil {
		return nil, err
	}
	var out keySet
	for _, raw := range set.Keys[:min(len(set.Keys), maxKeys)] {
		var k jose.JSONWebKey
		if k.UnmarshalJSON(raw) == nil && k.Valid() && k.IsPublic() && (k.Use == "" || k.Use == "sig") && !weak(k.Key) {
			out.keys = append(out.keys, k)
		}
	}
	if len(out.keys) == 0 {
		return nil, fmt.Errorf("%w: %w: it publishes no key that ID tokens could be verified with", idp.ErrUnavailable, upstream.ErrSettings)
	}
	return &out, nil
}

func weak(key any) bool {
	k, ok := key.(*rsa.PublicKey)
	return ok && k.N.BitLen() < minRSA
}

// payload returns the payload of a token if one of the matching keys has signed it. known reports whether there is such a key.
func (s *keySet) payload(jws *jose.JSONWebSignature) (payload []byte, known bool) {
	h := jws.Signatures[0].Header
	for _, k := range s.keys {
		if h.KeyID != "" && k.KeyID != h.KeyID || k.Algorithm != "" && k.Algorithm != h.Algorithm {
			continue
		}
		if payload, err := jws.Verify(k); err == nil {
			return payload, true
		}
		known = known || h.KeyID != ""
	}
	return nil, known
}

// verification verifies one token: it is the key set of go-oidc. It keeps the error values that go-oidc turns into text.
type verification struct {
	p       *Provider
	algs    []jose.SignatureAlgorithm
	payload []byte
	err     error
}

// VerifySignature finds the key. For an unknown one the keys are fetched again, but not too often.
func (v *verification) VerifySignature(ctx context.Context, raw string) ([]byte, error) {
	jws, err := jose.ParseSignedCompact(raw, v.algs)
	if err != nil {
		return nil, err
	}
	set, err := v.p.keys.Get(ctx)
	if err != nil {
		v.err = err
		return nil, err
	}
	payload, known := set.payload(jws)
	if payload == nil && !known {
		if set, err = v.p.keys.Renew(ctx, keyPause); err != nil {
			v.err = err
			return nil, err
		}
		payload, _ = set.payload(jws)
	}
	if payload == nil {
		v.err = refused("the ID token is not signed by a key of the provider")
		return nil, v.err
	}
	v.payload = payload
	return payload, nil
}

func refused(why string) error { return fmt.Errorf("%w: %s", idp.ErrRefused, why) }

// verify verifies an ID token (OpenID Connect Core 1.0, 3.1.3.7), and returns its claims. nonce is nil if there is none to compare.
func (p *Provider) verify(ctx context.Context, d *document, t *upstream.Tokens, nonce *string) (upstream.Claims, error) {
	if t.ID == "" || len(t.ID) > maxToken {
		return nil, refused("there is no ID token, or too long a one")
	}
	claims, token, err := p.signed(ctx, d, t.ID, &gooidc.Config{ClientID: p.settings.ClientID})
	if err != nil {
		return nil, err
	}
	return claims, p.checkClaims(token, t, claims, nonce)
}

// signed verifies signature, issuer and end of a token, and its audience as c says, and returns its claims.
func (p *Provider) signed(ctx context.Context, d *document, raw string, c *gooidc.Config) (upstream.Claims, *gooidc.IDToken, error) {
	v := &verification{p: p}
	for _, a := range d.Algorithms {
		v.algs = append(v.algs, jose.SignatureAlgorithm(a))
	}
	c.SupportedSigningAlgs, c.Now = d.Algorithms, func() time.Time { return p.now().Add(-leeway) }
	token, err := gooidc.NewVerifier(p.settings.Issuer, v, c).Verify(ctx, raw)
	if v.err != nil {
		return nil, nil, v.err
	}
	if err != nil { // its text may quote the token
		return nil, nil, refused("the token is expired, of another issuer, for another client, or no signed token at all")
	}
	claims := upstream.Claims{}
	decoder := json.NewDecoder(bytes.NewReader(v.payload))
	decoder.UseNumber()
	if err := decoder.Decode(&claims); err != nil {
		return nil, nil, refused("the token holds no claims")
	}
	return claims, token, nil
}

// authenticated returns when the user authenticated (auth_time); zero if the ID token does not say.
func (p *Provider) authenticated(c upstream.Claims) (time.Time, error) {
	if !c.Has("auth_time") {
		return time.Time{}, nil
	}
	number, _ := c["auth_time"].(json.Number)
	seconds, err := number.Int64()
	now := p.now()
	if at := time.Unix(seconds, 0); err == nil && seconds > 0 && !at.After(now.Add(leeway)) {
		if at.After(now) { // clocks differ
			at = now
		}
		return at, nil
	}
	return time.Time{}, refused("the ID token does not say in seconds when the person logged in, or names a time to come (auth_time)")
}

// checkClaims checks what go-oidc leaves to its caller.
func (p *Provider) checkClaims(token *gooidc.IDToken, t *upstream.Tokens, claims upstream.Claims, nonce *string) error {
	switch azp, _ := claims["azp"].(string); {
	case nonce != nil && (*nonce == "" || subtle.ConstantTimeCompare([]byte(token.Nonce), []byte(*nonce)) != 1):
		return refused("the nonce of the ID token is not that of this login")
	case claims.Has("azp") && azp != p.settings.ClientID, len(token.Audience) > 1 && azp == "":
		return refused("the ID token was made for another client (azp)")
	case slices.Contains(token.Audience, ""), token.IssuedAt.After(p.now().Add(leeway)):
		return refused("the ID token is of the future, or for nobody")
	case claims.Subject("sub") == "":
		return refused("the ID token names nobody (sub)")
	case token.AccessTokenHash != "" && token.VerifyAccessToken(t.Access) != nil:
		return refused("the access token is not that of the ID token (at_hash)")
	}
	if p.preset.Accept != nil {
		return p.preset.Accept(claims)
	}
	return nil
}
