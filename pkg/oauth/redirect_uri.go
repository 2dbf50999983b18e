package oauth

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// maxRedirectURI bounds a redirect URI, in bytes.
const maxRedirectURI = 2048

// checkRedirectURI tells whether a URI may be registered: absolute, without a fragment (RFC 6749, 3.1.2), over TLS except on
// this very machine (RFC 9700, 2.6), or of a scheme in the form of a domain name turned round, for applications without a
// secret (RFC 8252, 7.1). Anything that parsers of URIs read in different ways is refused.
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

// redirectURI returns where the answer to a request goes: where the request says, if that very URI is registered, and the
// only one that is registered if it says nothing.
func (c *Client) redirectURI(requested string) (string, bool) {
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

// redirects are the registered URIs that are good.
func (c *Client) redirects() []string {
	return slices.DeleteFunc(slices.Clone(c.RedirectURIs), func(s string) bool { return checkRedirectURI(s, c.Secret == "") != nil })
}

// cutLoopback takes the port out of an http URI on a loopback address: an application listens on whichever port is free
// (RFC 8252, 7.3). Everything else of the URI counts. It looks at the text, so that no parser is to be trusted.
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

// onMachine tells whether a URI that may be registered leads to an application on the person's own machine, whichever it is that listens there or
// has taken the scheme, and not to a site that its certificate names.
func onMachine(uri string) bool {
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

// answerTo adds parameters to a redirect URI, whose own query stays as it is (RFC 6749, 3.1.2).
func answerTo(uri string, pairs ...string) redirect {
	var b strings.Builder
	b.WriteString(uri)
	separator := byte('?')
	if i := strings.IndexByte(uri, '?'); i >= 0 {
		if separator = '&'; i == len(uri)-1 {
			separator = 0
		}
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] == "" {
			continue
		}
		if separator != 0 {
			b.WriteByte(separator)
		}
		separator = '&'
		b.WriteString(pairs[i] + "=" + url.QueryEscape(pairs[i+1]))
	}
	return redirect(b.String())
}
