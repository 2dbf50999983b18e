package upstream

import (
	"fmt"

	"kapis.dev/ks-apiserver/pkg/idp"
)

// Registration has the keys of providers that this server is registered with as a client of OAuth 2.0.
type Registration struct {
	ClientID     string     `json:"clientID"`
	ClientSecret idp.Secret `json:"clientSecret"`
	// RedirectURL is where browsers return to; "" for this server's own address.
	RedirectURL string `json:"redirectURL"`
	// Scopes are the requested scopes.
	Scopes []string `json:"scopes"`

	Settings
}

// Confidential checks that the client has a name and a secret, which one that is not public has.
func (r *Registration) Confidential() error {
	if r.ClientID == "" {
		return fmt.Errorf("the key %q is missing", "clientID")
	}
	if r.ClientSecret.IsZero() {
		return fmt.Errorf("the key %q is missing", "clientSecret")
	}
	return nil
}

// Flow returns a login of this client at a provider with these addresses, without a Person. It makes no call.
func (r *Registration) Flow(authURL, tokenURL string, o idp.OpenOptions) (*Flow, error) {
	client, err := NewClient(r.Settings, o)
	if err != nil {
		return nil, err
	}
	return &Flow{
		Grant:    &Grant{Client: client, ID: r.ClientID, Secret: r.ClientSecret},
		Request:  Request{AuthURL: authURL, Callback: r.RedirectURL, Scopes: r.Scopes, PKCE: true},
		TokenURL: tokenURL,
	}, nil
}
