package login

import (
	"context"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"golang.org/x/oauth2"
)

// provider is the metadata of the issuer (OpenID Connect Discovery 1.0, 3; RFC 8414, 2).
type provider struct {
	Issuer        string   `json:"issuer"`
	Authorization string   `json:"authorization_endpoint"`
	Token         string   `json:"token_endpoint"`
	Device        string   `json:"device_authorization_endpoint"`
	Revocation    string   `json:"revocation_endpoint"`
	UserInfo      string   `json:"userinfo_endpoint"`
	Challenges    []string `json:"code_challenge_methods_supported"`
	// NamesItself says that each authorization response has the issuer (RFC 9207, 3).
	NamesItself bool `json:"authorization_response_iss_parameter_supported"`
}

// Discover returns the issuer that a server names; it trusts the server's certificate for that. Callers have to ask that
// issuer again, as New does: other servers' statements are not used.
func Discover(ctx context.Context, server string, roots *x509.CertPool, insecure bool) (issuer string, err error) {
	p, err := fetch(ctx, newHTTP(roots, insecure), server)
	if err != nil {
		return "", err
	}
	if u, err := url.Parse(p.Issuer); err != nil || u.Host == "" {
		return "", fmt.Errorf("ask %s for its issuer: it names %q, which is no URL", server, plain(p.Issuer))
	}
	return p.Issuer, nil
}

// discover reads the issuer's metadata.
func (s *Session) discover(ctx context.Context) (*provider, error) {
	p, err := fetch(ctx, s.http, s.Issuer)
	if err != nil {
		return nil, s.explain(err)
	}
	if p.Issuer != s.Issuer { // RFC 8414, 3.3
		return nil, fmt.Errorf("the server at %s calls itself %q: use that address as the issuer, letter by letter", s.Issuer, plain(p.Issuer))
	}
	for name, address := range map[string]string{
		"token_endpoint": p.Token, "authorization_endpoint": p.Authorization, "device_authorization_endpoint": p.Device,
		"revocation_endpoint": p.Revocation, "userinfo_endpoint": p.UserInfo,
	} {
		u, err := url.Parse(address)
		if address == "" && name != "token_endpoint" {
			continue
		}
		if err != nil || u.Host == "" || u.Scheme != "https" && (u.Scheme != "http" || !IsLoopback(u.Hostname())) {
			return nil, fmt.Errorf("the issuer %s has a %s that is not an https URL", s.Issuer, name)
		}
	}
	return p, nil
}

func fetch(ctx context.Context, client *http.Client, issuer string) (*provider, error) {
	address := strings.TrimSuffix(issuer, "/") + "/.well-known/openid-configuration"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, fmt.Errorf("ask %s what it offers: %w", issuer, err)
	}
	var p provider
	if err := call(client, req, &p); err != nil {
		return nil, fmt.Errorf("ask %s what it offers: %w", issuer, err)
	}
	return &p, nil
}

// config returns how a client without a secret uses the provider.
func (p *provider) config(s *Session) *oauth2.Config {
	return &oauth2.Config{ClientID: s.Client, Scopes: s.Scopes, Endpoint: oauth2.Endpoint{
		AuthURL: p.Authorization, TokenURL: p.Token, DeviceAuthURL: p.Device, AuthStyle: oauth2.AuthStyleInParams}}
}
