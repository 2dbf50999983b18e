// Package google logs users in at Google: it is OpenID Connect with Google's issuer, and checks the domain of the user's organization.
// Google reports no groups.
package google

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"kapis.dev/ks-apiserver/pkg/idp"
	"kapis.dev/ks-apiserver/pkg/idp/oidc"
	"kapis.dev/ks-apiserver/pkg/idp/upstream"
)

// Name is the name of the type in configurations.
const Name = "GoogleIdentityProvider"

const issuer = "https://accounts.google.com"

// Type returns the type of provider.
func Type() idp.Type { return typeAt(func() string { return issuer }) }

// typeAt returns the type with another issuer, for tests.
func typeAt(issuer func() string) idp.Type {
	return idp.Type{Name: Name, Open: func(raw []byte, o idp.OpenOptions) (idp.Provider, error) {
		var s settings
		if err := idp.Decode(raw, &s); err != nil {
			return nil, err
		}
		p, err := s.open(issuer(), o)
		if err != nil {
			return nil, err
		}
		return p, nil
	}}
}

type settings struct {
	// HostedDomains are the domains of Google Workspace whose users may log in; none for all users with a Google account.
	HostedDomains []string `json:"hostedDomains"`
	// Offline requests a refresh token, so that a user who was removed at Google loses the session here at its next refresh.
	Offline bool `json:"offline"`

	upstream.Registration
}

func (s settings) open(issuer string, o idp.OpenOptions) (*oidc.Provider, error) {
	if err := s.Confidential(); err != nil {
		return nil, err
	}
	preset := oidc.Preset{Extra: url.Values{}, Again: "select_account"}
	if s.Offline {
		preset.Extra.Set("access_type", "offline")
		preset.Extra.Set("prompt", "consent") // without it, Google gives a refresh token at the first login only
		preset.Again = "select_account consent"
	}
	switch len(s.HostedDomains) {
	case 0:
	case 1:
		preset.Extra.Set("hd", s.HostedDomains[0])
	default:
		preset.Extra.Set("hd", "*")
	}
	for _, d := range s.HostedDomains {
		if d == "" || d == "*" || strings.ContainsAny(d, "@ /") {
			return nil, fmt.Errorf("the key %q holds what is no domain", "hostedDomains")
		}
	}
	preset.Accept = func(c upstream.Claims) error {
		// The browser can change the parameter. The claim is signed.
		if hd := c.Text("hd"); len(s.HostedDomains) > 0 && (hd == "" ||
			!slices.ContainsFunc(s.HostedDomains, func(d string) bool { return strings.EqualFold(d, hd) })) {
			return fmt.Errorf("%w: the person is of no domain that may log in (hd)", idp.ErrRefused)
		}
		return nil
	}
	return oidc.Open(oidc.Settings{Issuer: issuer, ClientID: s.ClientID, ClientSecret: s.ClientSecret, RedirectURL: s.RedirectURL,
		Scopes: s.Scopes, Settings: s.Settings}, preset, o)
}
