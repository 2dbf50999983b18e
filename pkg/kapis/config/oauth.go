package config

import (
	"net/url"
	"strings"
	"time"

	restful "github.com/emicklei/go-restful/v3"

	"kapis.dev/ks-apiserver/pkg/idp"
)

// OAuth answers the login page of the console, without a login: how to log in, and no setting of a provider or a client that could be
// a secret. It shows what is in the types below, and nothing else.
type OAuth struct {
	Issuer Issuer
	// Clients returns the registered clients.
	Clients func() []Client
	// Providers are the identity providers.
	Providers *idp.Directory
	// Console returns the client_id of the console, and its registered address for logins at a provider; "" where it has none.
	Console func(provider string) (client, redirect string)
}

// Issuer is who issues tokens. Durations are in nanoseconds.
type Issuer struct {
	URL                          string        `json:"url"`
	AccessTokenMaxAge            time.Duration `json:"accessTokenMaxAge"`
	AccessTokenInactivityTimeout time.Duration `json:"accessTokenInactivityTimeout"`
	MaximumClockSkew             time.Duration `json:"maximumClockSkew"`
}

// Client is a registered client, as anyone may see it.
type Client struct {
	Name                                string   `json:"name"`
	Trusted                             bool     `json:"trusted,omitempty"`
	GrantMethod                         string   `json:"grantMethod,omitempty"`
	RespondWithChallenges               bool     `json:"respondWithChallenges,omitempty"`
	ScopeRestrictions                   []string `json:"scopeRestrictions,omitempty"`
	RedirectURIs                        []string `json:"redirectURIs,omitempty"`
	AccessTokenMaxAgeSeconds            int64    `json:"accessTokenMaxAgeSeconds,omitempty"`
	AccessTokenInactivityTimeoutSeconds int64    `json:"accessTokenInactivityTimeoutSeconds,omitempty"`
}

// oauthConfig is the answer.
type oauthConfig struct {
	Issuer            Issuer   `json:"issuer"`
	IdentityProviders []entry  `json:"identityProviders"`
	Clients           []Client `json:"clients"`
}

// entry is an identity provider, as the login page of the console reads it.
type entry struct {
	Name          string      `json:"name"`
	MappingMethod idp.Mapping `json:"mappingMethod"`
	Type          string      `json:"type"`
	Hidden        bool        `json:"hidden"`
	Disabled      bool        `json:"disabled"`
	DisplayName   string      `json:"displayName,omitempty"`
	Provider      button      `json:"provider"`
}

// button describes a provider's button, or form, in the console. The addresses of a login are this server's: state, nonce and verifier
// are then its own, and the browser's (S41). Of the provider's addresses only its logout page is shown.
type button struct {
	Endpoint     *endpoint `json:"endpoint,omitempty"`
	ClientID     string    `json:"clientID,omitempty"`
	RedirectURL  string    `json:"redirectURL,omitempty"`
	Scopes       []string  `json:"scopes,omitempty"`
	CASServerURL string    `json:"casServerURL,omitempty"`
	// Host marks a provider whose users give a password; its value is the provider's title.
	Host string `json:"host,omitempty"`
}

type endpoint struct {
	AuthURL string `json:"authURL"`
	// EndSessionURL is where the console sends people after they have logged out here; "" where the provider has no such page, or has
	// never been reached yet.
	EndSessionURL string `json:"endSessionURL,omitempty"`
}

// casType is the type whose button uses CAS: it leads to casServerURL + "/login?service=" + redirectURL.
const casType = "CASIdentityProvider"

func (o *OAuth) show(*restful.Request) (any, error) {
	out := oauthConfig{Issuer: o.Issuer, IdentityProviders: []entry{}, Clients: o.Clients()}
	if out.Clients == nil {
		out.Clients = []Client{}
	}
	for _, e := range o.Providers.Entries() {
		if e.Provider == nil {
			continue // logins there fail, and the reason is for administrators
		}
		shown := entry{Name: e.Name, MappingMethod: e.Mapping, Type: e.Type, Hidden: e.Hidden, Disabled: e.Disabled, DisplayName: e.DisplayName}
		if !e.Hidden && !e.Disabled {
			shown.Provider = o.button(e)
		}
		out.IdentityProviders = append(out.IdentityProviders, shown)
	}
	return out, nil
}

// button returns the button of a provider that is in use. It is empty where the console has registered no address to return to.
func (o *OAuth) button(e *idp.Entry) button {
	if _, ok := e.Provider.(idp.Password); ok {
		label := e.DisplayName
		if label == "" {
			label = e.Name
		}
		return button{Host: label}
	}
	client, redirect := o.Console(e.Name)
	if _, ok := e.Provider.(idp.Redirect); !ok || redirect == "" {
		return button{}
	}
	start := strings.TrimSuffix(o.Issuer.URL, "/") + "/oauth/login/" + url.PathEscape(e.Name)
	if e.Type == casType {
		return button{CASServerURL: start, RedirectURL: redirect}
	}
	at := &endpoint{AuthURL: start}
	if p, ok := e.Provider.(idp.EndSession); ok {
		at.EndSessionURL = p.EndSession()
	}
	return button{Endpoint: at, ClientID: client, RedirectURL: redirect, Scopes: []string{"openid"}}
}
