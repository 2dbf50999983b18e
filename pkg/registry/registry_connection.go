package registry

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// session is an operation at one registry, logged in.
type session struct {
	base   url.URL
	client *http.Client
	// basic is sent as HTTP Basic, where client does not log in itself.
	basic Account
}

// open logs in at a registry, for the scopes of its token server where it has one.
func (c *Client) open(ctx context.Context, reg name.Registry, who Account, insecure bool, scopes []string) (*session, error) {
	t, err := transport.NewWithContext(ctx, reg, who.authenticator(), c.guard(reg.RegistryStr(), insecure), scopes)
	if err != nil {
		return nil, err
	}
	return &session{
		base:   url.URL{Scheme: reg.Scheme(), Host: reg.RegistryStr()}, // t takes the scheme that answered
		client: &http.Client{Transport: t, CheckRedirect: limitRedirects},
	}, nil
}

// get returns a body and, of a list, the query of its next page. Nothing else of the link to it is used, so that it can't lead elsewhere
// (RFC 8288).
func (s *session) get(ctx context.Context, path, query string) (body []byte, next string, err error) {
	u := s.base
	u.Path, u.RawQuery = path, query
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return nil, "", err
	}
	if s.basic != (Account{}) {
		req.SetBasicAuth(s.basic.Username, s.basic.Password)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	if err := transport.CheckError(resp, http.StatusOK); err != nil {
		return nil, "", err
	}
	if body, err = io.ReadAll(resp.Body); err != nil {
		return nil, "", err
	}
	return body, nextQuery(resp.Header.Get("Link")), nil
}

func nextQuery(link string) string {
	target, params, ok := strings.Cut(strings.TrimPrefix(link, "<"), ">")
	if !ok || !strings.Contains(params, `rel="next"`) && !strings.Contains(params, "rel=next") {
		return ""
	}
	u, err := url.Parse(target)
	if err != nil {
		return ""
	}
	return u.RawQuery
}
