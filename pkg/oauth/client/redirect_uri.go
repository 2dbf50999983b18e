package client

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// maxRedirectURI bounds a redirect URI, in bytes.
const maxRedirectURI = 2048

// checkRedirectURI returns an error unless a URI may be registered: absolute, without a fragment (RFC 6749, 3.1.2), over TLS except
// for loopback (RFC 9700, 2.6), or, for public clients, with a scheme in reverse domain name notation (RFC 8252, 7.1). URIs that
// parsers read differently are refused.
func checkRedirectURI(s string, public bool) error {
	if s == "" || len(s) > maxRedirectURI {
		return fmt.Errorf("1 to %d bytes are expected", maxRedirectURI)
	}
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c > '~' || strings.IndexByte(`\"<>^{|}*`+"`", c) >= 0 {
			return errors.New("it has characters that a URI can't have, or a wildcard")
		}
	}
	u, err := url.Parse(s)
	switch {
	case err != nil: // the error quotes the URI
		return errors.New("it is not a URI")
	case strings.Contains(s, "#"):
		return errors.New("it has a fragment (RFC 6749, 3.1.2)")
	case u.User != nil || strings.Contains(u.Host, "@"):
		return errors.New("it has a user")
	}
	switch u.Scheme {
	case "https", "http":
		if u.Host == "" || u.Hostname() == "" {
			return errors.New("it has no host")
		}
		if _, ok := cutLoopback(s); u.Scheme == "http" && !ok {
			return errors.New("http is for loopback addresses only; use https (RFC 9700, 2.6)")
		}
		return nil
	}
	if strings.Contains(u.Scheme, ".") && public {
		return nil
	}
	return errors.New("a scheme other than https is for clients without a secret, and has the form of a domain name turned round, " +
		"such as com.example.app (RFC 8252, 7.1)")
}

// RedirectURI returns the redirect URI of an authorization request: the requested one if it is registered, or the only registered one
// if none is requested.
func (c *Client) RedirectURI(requested string) (string, bool) {
	good := c.redirects()
	if requested == "" {
		if len(good) != 1 {
			return "", false
		}
		return good[0], true
	}
	if slices.Contains(good, requested) {
		return requested, true
	}
	rest, ok := cutLoopback(requested)
	if !ok || checkRedirectURI(requested, c.Secret == "") != nil {
		return "", false
	}
	ok = slices.ContainsFunc(good, func(registered string) bool {
		other, ok := cutLoopback(registered)
		return ok && other == rest
	})
	return requested, ok
}

// redirects returns the registered URIs that are valid.
func (c *Client) redirects() []string {
	return slices.DeleteFunc(slices.Clone(c.RedirectURIs), func(s string) bool { return checkRedirectURI(s, c.Secret == "") != nil })
}

// cutLoopback returns an http URI on a loopback address without its port, since applications listen on any free port (RFC 8252, 7.3).
// It works on the text and trusts no parser.
func cutLoopback(s string) (rest string, ok bool) {
	for _, host := range []string{"http://127.0.0.1", "http://[::1]", "http://localhost"} {
		after, found := strings.CutPrefix(s, host)
		if !found {
			continue
		}
		if digits, found := strings.CutPrefix(after, ":"); found {
			after = strings.TrimLeft(digits, "0123456789")
			if n := len(digits) - len(after); n == 0 || n > 5 {
				return "", false
			}
		}
		if after != "" && after[0] != '/' && after[0] != '?' {
			return "", false
		}
		return host + after, true
	}
	return "", false
}

// OnMachine reports whether a redirect URI leads to an application on the user's machine, rather than to a site with a certificate.
// Any application on the machine can pass for that one.
func OnMachine(uri string) bool {
	rest, site := strings.CutPrefix(uri, "https://")
	_, loopback := cutLoopback("http://" + rest)
	return !site || loopback
}

// origin returns the origin of a URI of the web, as browsers write it (RFC 6454, 6.2); "" for any other.
func origin(uri string) string {
	u, err := url.Parse(uri)
	if err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" {
		return ""
	}
	host := strings.ToLower(u.Host)
	if port := u.Port(); port == "443" && u.Scheme == "https" || port == "80" && u.Scheme == "http" {
		host = strings.TrimSuffix(host, ":"+port)
	}
	return u.Scheme + "://" + host
}
