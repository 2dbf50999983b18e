package oauth

import (
	"cmp"
	"net/url"
	"slices"
	"strings"

	"github.com/emicklei/go-restful/v3"
)

// All returns the registered clients, by name. They are shared, and not to be changed.
func (c *Clients) All() []*Client {
	t := c.table.Load()
	out := make([]*Client, 0, len(t.clients))
	for _, cl := range t.clients {
		out = append(out, cl)
	}
	slices.SortFunc(out, func(a, b *Client) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// Console returns the client_id of the platform's console, a trusted client, and the address that it has registered for people who come back from a provider:
// one that ends in /redirect/{provider}; "" where none has. Logins at the provider that begin with it are handed over to the console.
func (s *Server) Console(provider string) (client, redirect string) {
	if c, uri := s.console(func(uri string) bool { return isConsoles(uri, provider) }); c != nil {
		return c.Name, uri
	}
	return "", ""
}

// consoleAt returns the client that has registered an address as a console does for logins at a provider; nil for none.
func (s *Server) consoleAt(provider, address string) *Client {
	c, _ := s.console(func(uri string) bool { return uri == address && isConsoles(uri, provider) })
	return c
}

// console returns the first trusted client, by name, with a redirect URI that is wanted, and the URI; nil for none. The platform may have other
// trusted clients than its console.
func (s *Server) console(wanted func(uri string) bool) (*Client, string) {
	for _, c := range s.Clients.All() {
		if !c.Trusted {
			continue
		}
		if i := slices.IndexFunc(c.RedirectURIs, wanted); i >= 0 {
			return c, c.RedirectURIs[i]
		}
	}
	return nil, ""
}

// isConsoles tells whether an address is one that consoles have for people who come back from a provider.
func isConsoles(uri, provider string) bool {
	u, err := url.Parse(uri)
	return err == nil && u.Host != "" && strings.HasSuffix(u.Path, "/redirect/"+provider)
}

// loginAtAsCAS begins a login for the console by the address that a CAS server would have (CAS Protocol 3.0, 2.1): what it calls service is
// where the console wants its people back, with a ticket.
func (s *Server) loginAtAsCAS(req *restful.Request) (any, error) {
	q := req.Request.URL.Query()
	again := req.Request.Clone(req.Request.Context())
	again.URL.RawQuery = url.Values{"redirect_uri": {q.Get("service")}, "ticket": {"1"}}.Encode()
	in := *req
	in.Request = again
	return s.loginAt(&in)
}
