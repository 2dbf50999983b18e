// Package oidc logs users in at an OpenID Connect provider (OpenID Connect Core 1.0) by the code flow.
package oidc

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"kapis.dev/ks-apiserver/pkg/idp"
	"kapis.dev/ks-apiserver/pkg/idp/upstream"
)

// Name is the name of the type in configurations.
const Name = "OIDCIdentityProvider"

// Type returns the type of provider.
func Type() idp.Type {
	return idp.Type{Name: Name, Open: func(raw []byte, o idp.OpenOptions) (idp.Provider, error) {
		var s Settings
		if err := idp.Decode(raw, &s); err != nil {
			return nil, err
		}
		return opened(Open(s, Preset{}, o))
	}}
}

// opened returns an interface that is nil if there is an error.
func opened(p *Provider, err error) (idp.Provider, error) {
	if err != nil {
		return nil, err
	}
	return p, nil
}

// Settings are the keys of the type.
type Settings struct {
	// Issuer is the provider's issuer identifier, which its ID tokens contain, and its address.
	Issuer string `json:"issuer"`
	// ClientID and ClientSecret are those that this server is registered with. A public client has no secret.
	ClientID     string     `json:"clientID"`
	ClientSecret idp.Secret `json:"clientSecret"`
	// Endpoint takes precedence over the published metadata. With AuthURL, TokenURL and JWKSURL the metadata is not read.
	Endpoint Endpoint `json:"endpoint"`
	// RedirectURL is where browsers return to; "" for this server's own address.
	RedirectURL string `json:"redirectURL"`
	// Scopes are the requested scopes; by default openid, profile and email. openid is always requested.
	Scopes []string `json:"scopes"`
	// GetUserInfo reads the userinfo endpoint in addition to the ID token.
	GetUserInfo bool `json:"getUserInfo"`
	// EmailKey, PreferredUsernameKey and GroupsKey are the claims with these values; by default email, preferred_username, and none for
	// groups. A dot leads into an object.
	EmailKey             string `json:"emailKey"`
	PreferredUsernameKey string `json:"preferredUsernameKey"`
	GroupsKey            string `json:"groupsKey"`
	// GroupsPrefix is put before the names of groups.
	GroupsPrefix string `json:"groupsPrefix"`
	// TrustEmail accepts an e-mail that the provider does not mark as verified.
	TrustEmail bool `json:"trustEmail"`
	// BearerAudiences are the audiences (aud) of tokens of this provider that authenticate requests, sent as bearer tokens; none.
	BearerAudiences []string `json:"bearerAudiences"`
	// PostLogoutRedirectURI is where browsers return to after a logout; "" for this server's own address.
	PostLogoutRedirectURI string `json:"postLogoutRedirectURI"`

	upstream.Settings
}

// Endpoint are the addresses of a provider.
type Endpoint struct {
	AuthURL       string `json:"authURL"`
	TokenURL      string `json:"tokenURL"`
	UserInfoURL   string `json:"userInfoURL"`
	JWKSURL       string `json:"jwksURL"`
	EndSessionURL string `json:"endSessionURL"`
}

// Preset has the properties of a certain service.
type Preset struct {
	// Extra are parameters of its authorization endpoint.
	Extra url.Values
	// Again is the prompt that asks for another login, for a provider that can be asked but does not report when it happened; ""
	// for login, with max_age.
	Again string
	// Accept checks the claims of a verified ID token. It returns idp.ErrRefused for a user who may not log in.
	Accept func(claims upstream.Claims) error
}

// Open makes a Provider. It makes no call.
func Open(s Settings, preset Preset, o idp.OpenOptions) (*Provider, error) {
	if err := s.check(o.AllowLoopback); err != nil {
		return nil, err
	}
	client, err := upstream.NewClient(s.Settings, o)
	if err != nil {
		return nil, err
	}
	p := &Provider{
		client: client, settings: s, preset: preset, loopback: o.AllowLoopback, now: time.Now,
		grant: &upstream.Grant{Client: client, ID: s.ClientID, Secret: s.ClientSecret},
	}
	now := func() time.Time { return p.now() }
	p.documents = &upstream.Cached[*document]{Fetch: p.discover, Timeout: client.Timeout(), Life: time.Hour, Stale: true, Now: now}
	p.keys = &upstream.Cached[*keySet]{Fetch: p.fetchKeys, Timeout: client.Timeout(), Life: time.Hour, Now: now}
	return p, nil
}

func (s *Settings) check(loopback bool) error {
	if strings.ContainsAny(s.Issuer, "{}") {
		return fmt.Errorf("the key %q holds a placeholder such as {tenantid}: issuers of many tenants are not supported; set the issuer of"+
			" one tenant", "issuer")
	}
	if err := upstream.Address("issuer", s.Issuer, loopback); err != nil {
		return err
	}
	if strings.Contains(s.Issuer, "?") {
		return fmt.Errorf("the key %q holds an address with a query, which no issuer has (OpenID Connect Discovery 1.0, 3)", "issuer")
	}
	if s.ClientID == "" {
		return fmt.Errorf("the key %q is missing", "clientID")
	}
	for _, a := range [][2]string{{"endpoint.authURL", s.Endpoint.AuthURL}, {"endpoint.tokenURL", s.Endpoint.TokenURL},
		{"endpoint.userInfoURL", s.Endpoint.UserInfoURL},
		{"endpoint.jwksURL", s.Endpoint.JWKSURL}, {"endpoint.endSessionURL", s.Endpoint.EndSessionURL}, {"redirectURL", s.RedirectURL},
		{"postLogoutRedirectURI", s.PostLogoutRedirectURI}} {
		if a[1] != "" {
			if err := upstream.Address(a[0], a[1], loopback); err != nil {
				return err
			}
		}
	}
	if s.GroupsPrefix != "" && s.GroupsKey == "" {
		return fmt.Errorf("the key %q has no effect without the key %q", "groupsPrefix", "groupsKey")
	}
	if err := upstream.Prefix("groupsPrefix", s.GroupsPrefix); err != nil {
		return err
	}
	if slices.Contains(s.BearerAudiences, "") {
		return fmt.Errorf("the key %q holds an empty audience", "bearerAudiences")
	}
	if len(s.Scopes) == 0 {
		s.Scopes = []string{"openid", "profile", "email"}
	} else if !slices.Contains(s.Scopes, "openid") {
		s.Scopes = append([]string{"openid"}, s.Scopes...)
	}
	if s.PreferredUsernameKey == "" {
		s.PreferredUsernameKey = "preferred_username"
	}
	return upstream.Scopes("scopes", s.Scopes)
}
