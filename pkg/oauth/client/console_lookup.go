package client

import (
	"net/url"
	"slices"
	"strings"
)

// Console returns the client_id and the redirect URI of the platform's console for logins at a provider; "" if there is none. The
// console is the trusted client with a redirect URI that ends in /redirect/{provider}.
func (r *Registry) Console(provider string) (client, redirect string) {
	if c, uri := r.findConsole(func(uri string) bool { return isConsoles(uri, provider) }); c != nil {
		return c.Name, uri
	}
	return "", ""
}

// ConsoleAt returns the console that registered a redirect URI for logins at a provider; nil if there is none.
func (r *Registry) ConsoleAt(provider, address string) *Client {
	c, _ := r.findConsole(func(uri string) bool { return uri == address && isConsoles(uri, provider) })
	return c
}

// findConsole returns the first trusted client, by name, that is not denied and has a wanted redirect URI, and the URI; nil if there is
// none. There may be other trusted clients than the console.
func (r *Registry) findConsole(wanted func(uri string) bool) (*Client, string) {
	for _, c := range r.All() {
		if !c.Trusted || c.IsDenied() {
			continue
		}
		if i := slices.IndexFunc(c.RedirectURIs, wanted); i >= 0 {
			return c, c.RedirectURIs[i]
		}
	}
	return nil, ""
}

// isConsoles reports whether a redirect URI is one of a console for a provider.
func isConsoles(uri, provider string) bool {
	u, err := url.Parse(uri)
	return err == nil && u.Host != "" && strings.HasSuffix(u.Path, "/redirect/"+provider)
}
