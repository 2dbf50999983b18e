package oauth

import (
	"cmp"
	"net/url"
	"slices"
	"strings"

	restful "github.com/emicklei/go-restful/v3"
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

// Console returns the client_id of the platform's console, and the address that it has registered for people who come back from a provider:
// one that ends in /redirect/{provider}; "" where it has none. Logins at the provider that begin with it are handed over to the console.
func (s *Server) Console(provider string) (client, redirect string) {
	c := s.firstParty()
	if c == nil {
		return "", ""
	}
	for _, uri := range c.RedirectURIs {
		if u, err := url.Parse(uri); err == nil && u.Host != "" && strings.HasSuffix(u.Path, "/redirect/"+provider) {
			return c.Name, uri
		}
	}
	return c.Name, ""
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
