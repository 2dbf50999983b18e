package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"time"
)

// Who asks users to log in.
const (
	LoginPageOwn     = "own"
	LoginPageConsole = "console"
)

// Authentication is the section authentication.
type Authentication struct {
	// Issuer is the token issuer.
	Issuer Issuer `json:"issuer"`
	// MultipleLogin allows one user several sessions at once; true. With false a login ends the user's other sessions.
	MultipleLogin bool `json:"multipleLogin"`
	// Clients are OAuth clients besides those in Secrets (v3.4: oauthOptions.clients); none.
	Clients []Client `json:"clients"`
	// PasswordGrant lets trusted clients, such as the console, accept users' passwords (grant_type=password); true.
	PasswordGrant bool `json:"passwordGrant"`
	// IdentityProviders authenticate users, besides those in Secrets (v3.4: oauthOptions.identityProviders); none.
	IdentityProviders []IdentityProvider `json:"identityProviders"`

	// AuthenticateRateLimiterMaxTries is how many wrong passwords one source may send for one user within
	// AuthenticateRateLimiterDuration; 5 and 30m.
	AuthenticateRateLimiterMaxTries int      `json:"authenticateRateLimiterMaxTries"`
	AuthenticateRateLimiterDuration Duration `json:"authenticateRateLimiterDuration"`
	// LoginHistoryRetentionPeriod is how long records of logins are stored, and LoginHistoryMaximumEntries how many of one user; 168h and
	// 100.
	LoginHistoryRetentionPeriod Duration `json:"loginHistoryRetentionPeriod"`
	LoginHistoryMaximumEntries  int      `json:"loginHistoryMaximumEntries"`
	// TrustedProxies are the addresses, or ranges such as 10.244.0.0/16, of proxies (the console is one) that are trusted about the
	// source of a login: X-Forwarded-For, or else, where the console itself logs a user in, X-Client-Ip; none.
	TrustedProxies []string `json:"trustedProxies"`
	// TrustedOrigins are origins of pages, as in https://console.example:30880, besides the issuer's, that count as this server's own: their
	// WebSockets may use the console's cookie, and their forms are accepted; none.
	TrustedOrigins []string `json:"trustedOrigins"`
	// LoginPage is who asks users to log in for a client: own is this server's page, console the platform's console at the issuer's
	// address, which passes /oauth/ on to this server without cookies; own.
	LoginPage string `json:"loginPage"`
	// Order is which credential counts where a request has several: proxy (the headers of an authenticating proxy), token and certificate,
	// each once; in this order. One that is refused ends the request, whatever comes after it.
	Order []string `json:"order"`
	// SecondFactor is off, optional (users who have one are asked for it) or required; optional.
	SecondFactor string `json:"secondFactor"`
	// APIKeyMaximumAge is the longest life of an API key; 8760h.
	APIKeyMaximumAge Duration `json:"apiKeyMaximumAge"`

	KubectlImage any `json:"kubectlImage" config:"unread"`
}

// DefaultIssuerURL is the issuer where none is configured: the name of the Service, which can't be reached from outside the cluster.
const DefaultIssuerURL = "https://ks-apiserver.kubesphere-system.svc"

// Issuer is the section authentication.issuer.
type Issuer struct {
	// URL is the iss of tokens and the base of the endpoints in the discovery document; https://ks-apiserver.kubesphere-system.svc. An http
	// URL is for a loopback address: tokens, passwords and codes would cross a network in the clear.
	URL string `json:"url"`
	// AllowInsecureURL allows URL to be http at any address, as configurations of older installations have it; false.
	AllowInsecureURL bool `json:"allowInsecureURL"`
	// AccessTokenMaxAge is the life of an access token; 2h. 0 means: as long as its session.
	AccessTokenMaxAge Duration `json:"accessTokenMaxAge"`
	// AccessTokenInactivityTimeout is how long after the end of an access token its refresh token
	// still works; 2h.
	AccessTokenInactivityTimeout Duration `json:"accessTokenInactivityTimeout"`
	// AuthorizationCodeMaxAge is how long an authorization code is valid; 1m. At most 10m (RFC 6749, 4.1.2).
	AuthorizationCodeMaxAge Duration `json:"authorizationCodeMaxAge"`
	// MaximumClockSkew is how far the clocks of replicas may differ; 30s.
	MaximumClockSkew Duration `json:"maximumClockSkew"`

	// SigningKeyRotation is how long a key signs tokens before a new one replaces it; 2160h. 0 means forever.
	SigningKeyRotation Duration `json:"signingKeyRotation"`

	// JWTSecret is the key with which an older installation signed its tokens; read only with AcceptLegacyTokensUntil.
	JWTSecret Secret `json:"jwtSecret"`
	// AcceptLegacyTokensUntil, a time as in 2027-01-31T00:00:00Z, accepts tokens of the older installation until then; "" accepts none.
	AcceptLegacyTokensUntil string `json:"acceptLegacyTokensUntil"`

	SignKey     any    `json:"signKey" config:"unread"`
	SignKeyData Secret `json:"signKeyData" config:"unread"`
}

// Client is an OAuth client in the file. Its fields are those of the v4 Secrets.
type Client struct {
	Name                                string   `json:"name"`
	Secret                              Secret   `json:"secret"`
	Trusted                             bool     `json:"trusted"`
	GrantMethod                         string   `json:"grantMethod"`
	RespondWithChallenges               bool     `json:"respondWithChallenges"`
	ScopeRestrictions                   []string `json:"scopeRestrictions"`
	RedirectURIs                        []string `json:"redirectURIs"`
	PostLogoutRedirectURIs              []string `json:"postLogoutRedirectURIs"`
	AccessTokenMaxAgeSeconds            int64    `json:"accessTokenMaxAgeSeconds"`
	AccessTokenInactivityTimeoutSeconds int64    `json:"accessTokenInactivityTimeoutSeconds"`
}

// IdentityProvider is an element of the list authentication.identityProviders, as JSON. It is parsed by the reader of providers in
// Secrets, so that a wrong one affects itself alone. It holds secrets: like Secret, it prints none.
type IdentityProvider []byte

// validateAccounts validates the limits of logins, records and keys.
func (a *Authentication) validateAccounts(fault func(format string, args ...any)) {
	if n := a.AuthenticateRateLimiterMaxTries; n < 1 || n > 1000 {
		fault("authentication.authenticateRateLimiterMaxTries: %d is not from 1 to 1000", n)
	}
	if d := time.Duration(a.AuthenticateRateLimiterDuration); d < time.Second || d > 24*time.Hour {
		fault("authentication.authenticateRateLimiterDuration: %v is not from 1s to 24h", d)
	}
	if d := time.Duration(a.LoginHistoryRetentionPeriod); d < time.Minute {
		fault("authentication.loginHistoryRetentionPeriod: %v is less than 1m", d)
	}
	if n := a.LoginHistoryMaximumEntries; n < 1 {
		fault("authentication.loginHistoryMaximumEntries: %d is less than 1", n)
	}
	if d := time.Duration(a.APIKeyMaximumAge); d < time.Minute {
		fault("authentication.apiKeyMaximumAge: %v is less than 1m", d)
	}
	switch a.SecondFactor {
	case "off", "optional", "required":
	default:
		fault("authentication.secondFactor: %q is not off, optional or required", a.SecondFactor)
	}
	a.validateOrder(fault)
	switch a.LoginPage {
	case LoginPageOwn:
	case LoginPageConsole:
		if a.Issuer.URL == DefaultIssuerURL {
			fault("authentication.loginPage: console needs authentication.issuer.url, the address of the console: browsers are sent there to" +
				" log in")
		}
	default:
		fault("authentication.loginPage: %q is not own or console", a.LoginPage)
	}
	for i, s := range a.TrustedOrigins {
		u, err := url.Parse(s)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || strings.TrimPrefix(s, u.Scheme+"://") != u.Host ||
			strings.ContainsAny(u.Host, "*, ") {
			fault("authentication.trustedOrigins[%d]: %q is no origin: http:// or https://, a host, and a port where it isn't the usual one,"+
				" as in https://console.example:30880", i, s)
		}
	}
	for i, s := range a.TrustedProxies {
		if _, err := netip.ParsePrefix(s); err == nil {
			continue
		}
		if _, err := netip.ParseAddr(s); err != nil {
			fault("authentication.trustedProxies[%d]: %q is neither an address range such as 10.244.0.0/16 nor an address", i, s)
		}
	}
}

// UnmarshalJSON stores the element.
func (p *IdentityProvider) UnmarshalJSON(b []byte) error {
	if len(b) == 0 || b[0] != '{' {
		return errors.New("an element of authentication.identityProviders has to be keys with values")
	}
	*p = append(IdentityProvider(nil), b...)
	return nil
}

// String hides the element.
func (p IdentityProvider) String() string { return "(hidden)" }

// GoString hides the element.
func (p IdentityProvider) GoString() string { return p.String() }

// Format hides the element, for any verb.
func (p IdentityProvider) Format(s fmt.State, _ rune) { _, _ = s.Write([]byte(p.String())) }

// MarshalJSON hides the element.
func (p IdentityProvider) MarshalJSON() ([]byte, error) { return json.Marshal(p.String()) }
