// Package client is the registry of OAuth clients: their configuration, redirect URIs and scopes, and how they authenticate.
package client

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"sigs.k8s.io/yaml"

	"kapis.dev/ks-apiserver/pkg/iam/session"
)

// Client is an OAuth client. Its fields and their names are those of configuration.yaml in a Secret.
type Client struct {
	// Name is the client_id.
	Name string `json:"name"`
	// Secret is the client_secret. A client without one is public, and can't be trusted.
	Secret Secret `json:"secret,omitempty"`
	// Trusted clients are the platform's own. Only they may take users' passwords.
	Trusted bool `json:"trusted,omitempty"`
	// GrantMethod is how consent is asked for: auto, prompt or deny; "" is auto.
	GrantMethod string `json:"grantMethod,omitempty"`
	// RespondWithChallenges is read for compatibility.
	RespondWithChallenges bool `json:"respondWithChallenges,omitempty"`
	// ScopeRestrictions are the scopes that the client may have; none means all. Without api among them, access tokens are for the
	// userinfo endpoint only (ForAPI).
	ScopeRestrictions []string `json:"scopeRestrictions,omitempty"`
	// RedirectURIs are where codes may be sent.
	RedirectURIs []string `json:"redirectURIs,omitempty"`
	// PostLogoutRedirectURIs are where users may be redirected after a logout.
	PostLogoutRedirectURIs []string `json:"postLogoutRedirectURIs,omitempty"`
	// AccessTokenMaxAgeSeconds and AccessTokenInactivityTimeoutSeconds, where both are above 0,
	// stand for those of the server.
	AccessTokenMaxAgeSeconds            int64 `json:"accessTokenMaxAgeSeconds,omitempty"`
	AccessTokenInactivityTimeoutSeconds int64 `json:"accessTokenInactivityTimeoutSeconds,omitempty"`
}

// IsDenied reports whether the client is given nothing, in whatever way it asks.
func (c *Client) IsDenied() bool { return c.GrantMethod == grantDeny }

const grantDeny = "deny"

// Secret is a client's secret. It prints as nothing, and is not written to JSON.
type Secret string

// String returns that there is a secret, but not the secret.
func (Secret) String() string { return "[secret]" }

// GoString returns the same as String.
func (Secret) GoString() string { return "[secret]" }

// MarshalJSON writes no secret.
func (Secret) MarshalJSON() ([]byte, error) { return []byte(`""`), nil }

// credential returns a fingerprint of the secret, to be compared with others of the same client. It has 16 bits only: enough to
// notice a change, and too few to recover a weak secret from.
func (c *Client) credential() string {
	sum := sha256.Sum256([]byte("kapis.dev client credential 1\x00" + c.Name + "\x00" + string(c.Secret)))
	return hex.EncodeToString(sum[:2])
}

// maxURIs bounds the redirect URIs of a client.
const maxURIs = 64

// LeastSecret is how long a secret should be at least, in bytes. A client with a shorter secret can't act for itself.
const LeastSecret = 16

// maxClientFile bounds configuration.yaml, in bytes.
const maxClientFile = 64 << 10

// parseClient reads configuration.yaml. An unknown key is an error, since it would have no effect.
func parseClient(b []byte) (*Client, error) {
	if len(b) == 0 || len(b) > maxClientFile {
		return nil, fmt.Errorf("configuration.yaml has %d bytes; 1 to %d are expected", len(b), maxClientFile)
	}
	var c Client
	if err := yaml.UnmarshalStrict(b, &c); err != nil {
		return nil, fmt.Errorf("configuration.yaml: %w", clientProblem(b))
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	return &c, nil
}

// clientProblem describes what is wrong with a file. The parser's own error may quote the secret.
func clientProblem(b []byte) error {
	var loose Client
	if yaml.Unmarshal(b, &loose) == nil {
		return errors.New("it has a key that nothing reads, or one twice; the keys are name, secret, trusted, grantMethod, " +
			"respondWithChallenges, scopeRestrictions, redirectURIs, postLogoutRedirectURIs, " +
			"accessTokenMaxAgeSeconds, accessTokenInactivityTimeoutSeconds")
	}
	return errors.New("it is not the YAML of an OAuth client; see that each key has a value of its type")
}

// check returns an error for a client that is not valid.
func (c *Client) check() error {
	switch {
	case c.Name == "" || len(c.Name) > 253 || !printable(c.Name):
		return errors.New("name: a client needs a name of at most 253 printable characters")
	case c.Trusted && c.Secret == "":
		return errors.New("trusted: a client without a secret can't be trusted, since anyone can pass for it")
	case !slices.Contains([]string{"", "auto", "prompt", grantDeny}, c.GrantMethod):
		return fmt.Errorf("grantMethod: %q is none of auto, prompt, deny", c.GrantMethod)
	case c.AccessTokenMaxAgeSeconds < 0 || c.AccessTokenInactivityTimeoutSeconds < 0:
		return errors.New("accessTokenMaxAgeSeconds, accessTokenInactivityTimeoutSeconds: an age can't be below 0")
	}
	if len(c.RedirectURIs) > maxURIs || len(c.PostLogoutRedirectURIs) > maxURIs {
		return fmt.Errorf("redirectURIs, postLogoutRedirectURIs: at most %d are expected", maxURIs)
	}
	for _, s := range c.PostLogoutRedirectURIs {
		u, err := url.Parse(s)
		if err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" || u.Fragment != "" || u.User != nil {
			return errors.New("postLogoutRedirectURIs: an absolute http(s) URL without a fragment is expected")
		}
	}
	return nil
}

// problems describes the redirect URIs that are left out, since they may not be registered.
func (c *Client) problems() []string {
	var out []string
	for i, uri := range c.RedirectURIs {
		if err := checkRedirectURI(uri, c.Secret == ""); err != nil {
			out = append(out, fmt.Sprintf("OAuth client %q: redirectURIs[%d] is left out: %v", c.Name, i, err))
		}
	}
	return out
}

// lifetime returns how long the client's sessions and tokens live, given the server's default.
func (c *Client) lifetime(otherwise session.Lifetime) session.Lifetime {
	if c.AccessTokenMaxAgeSeconds > 0 && c.AccessTokenInactivityTimeoutSeconds > 0 {
		otherwise.MaxAge = time.Duration(c.AccessTokenMaxAgeSeconds) * time.Second
		otherwise.Inactivity = time.Duration(c.AccessTokenInactivityTimeoutSeconds) * time.Second
	}
	return otherwise
}
