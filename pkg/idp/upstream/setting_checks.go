package upstream

import (
	"cmp"
	"fmt"
	"net/netip"
	"net/url"
	"strings"

	"kapis.dev/ks-apiserver/pkg/idp"
)

// Address checks the address of a provider in a setting: https, with a host, without credentials and fragment. A loopback address
// may be http, if it is allowed at all.
func Address(key, address string, allowLoopback bool) error {
	if address == "" {
		return fmt.Errorf("the key %q is missing: it holds an address that begins with https://", key)
	}
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "" || u.Hostname() == "" || u.Opaque != "" || strings.ContainsAny(address, " \\\r\n\t"):
		return fmt.Errorf("the key %q holds no address that begins with https://", key)
	case u.User != nil:
		return fmt.Errorf("the key %q holds an address with a name or password in it, which is not sent", key)
	case u.Fragment != "" || strings.Contains(address, "#"):
		return fmt.Errorf("the key %q holds an address with a fragment (#)", key)
	case u.Scheme == "https", u.Scheme == "http" && allowLoopback && loopback(u.Hostname()):
		return nil
	}
	return fmt.Errorf("the key %q holds an address that does not begin with https://; what is sent there is secret", key)
}

// Redirect checks the address that a provider sends browsers back to, which a configuration may leave out.
func Redirect(address string, allowLoopback bool) error {
	if address == "" {
		return nil
	}
	return Address("redirectURL", address, allowLoopback)
}

// Endpoint is the setting with the addresses of a provider that publishes no metadata.
type Endpoint struct {
	AuthURL     string `json:"authURL"`
	TokenURL    string `json:"tokenURL"`
	UserInfoURL string `json:"userInfoURL"`
}

// Check checks the three addresses.
func (e *Endpoint) Check(allowLoopback bool) error {
	return cmp.Or(
		Address("endpoint.authURL", e.AuthURL, allowLoopback),
		Address("endpoint.tokenURL", e.TokenURL, allowLoopback),
		Address("endpoint.userInfoURL", e.UserInfoURL, allowLoopback),
	)
}

func loopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.IsLoopback()
}

// Extend adds parameters to a URL, which may have some already.
func Extend(address string, q url.Values) (string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", fmt.Errorf("%w: one of its addresses is not valid", ErrSettings)
	}
	all := u.Query()
	for k, v := range q {
		all[k] = v
	}
	u.RawQuery = all.Encode()
	return u.String(), nil
}

// Prefix checks a prefix of groups: names with it must not be reserved here.
func Prefix(key, prefix string) error {
	if prefix != "" && !idp.GroupAllowed(prefix+"x") {
		return fmt.Errorf("the key %q holds what no name of a group can begin with", key)
	}
	return nil
}

// Scopes checks scopes (RFC 6749, 3.3).
func Scopes(key string, scopes []string) error {
	for _, s := range scopes {
		if s == "" || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' }) {
			return fmt.Errorf("the key %q holds what is no scope; each scope is one line of the list", key)
		}
	}
	return nil
}
