package registry

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"kapis.dev/ks-apiserver/pkg/status"
)

// maxFound is how many repositories a search returns.
const maxFound = 100

// Found is the outcome of a search.
type Found struct {
	// Total is how many there are, as far as the registry says, Entries the names of the first.
	Total   int
	Entries []string
}

// Search looks for repositories by a part of their names: in the one registry of creds, which has to be a Harbor (API 2.0), or in Docker
// Hub where creds has none, or Docker Hub's. The error of a registry that can't be searched is a Status of code 404, any other one of
// code 400.
func (c *Client) Search(ctx context.Context, text string, creds *Credentials) (*Found, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if len(text) > maxName {
		return nil, status.BadRequestf("a search is for at most %d bytes of text", maxName)
	}
	hosts := creds.Registries()
	switch {
	case len(hosts) == 0 || len(hosts) == 1 && hosts[0] == dockerHub:
		out, err := c.searchHub(ctx, text)
		return out, failure(ctx, "Docker Hub", "search", err)
	case len(hosts) > 1:
		return nil, status.BadRequestf("the Secret has %d registries: a search is in one", len(hosts))
	}
	reg, err := registryAt(hosts[0], creds.Insecure)
	if err != nil {
		return nil, err
	}
	out, err := c.searchHarbor(ctx, reg, text, creds)
	return out, failure(ctx, hosts[0], "search", err)
}

// searchHub asks as `docker search` does. Public names need no account, so none is sent.
func (c *Client) searchHub(ctx context.Context, text string) (*Found, error) {
	base, err := url.Parse(c.hub)
	if err != nil {
		return nil, err
	}
	g := c.guard(base.Host, base.Scheme == "http")
	s := &session{base: *base, client: &http.Client{Transport: g, CheckRedirect: limitRedirects}}
	body, _, err := s.get(ctx, "/v1/search", url.Values{"q": {text}, "n": {strconv.Itoa(maxFound)}}.Encode())
	if err != nil {
		return nil, err
	}
	var answer struct {
		Total   int `json:"num_results"`
		Results []struct {
			Name string `json:"name"`
		} `json:"results"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, err
	}
	names := make([]string, 0, len(answer.Results))
	for _, r := range answer.Results {
		names = append(names, r.Name)
	}
	return found(answer.Total, names), nil
}

// searchHarbor asks Harbor's own API, which accepts an account as HTTP Basic.
func (c *Client) searchHarbor(ctx context.Context, reg name.Registry, text string, creds *Credentials) (*Found, error) {
	g := c.guard(reg.RegistryStr(), creds.Insecure)
	s := &session{
		base:   url.URL{Scheme: "https", Host: reg.RegistryStr()},
		client: &http.Client{Transport: g, CheckRedirect: limitRedirects},
		basic:  creds.Account(reg.RegistryStr()),
	}
	if creds.Insecure {
		ping, err := transport.Ping(ctx, reg, g)
		if err != nil {
			return nil, err
		}
		if ping.Insecure {
			s.base.Scheme = "http"
		}
	}
	body, _, err := s.get(ctx, "/api/v2.0/search", url.Values{"q": {text}}.Encode())
	var answer struct {
		Repository *[]struct {
			Name string `json:"repository_name"`
		} `json:"repository"`
	}
	if isNotFound(err) || err == nil && (json.Unmarshal(body, &answer) != nil || answer.Repository == nil) {
		return nil, noSearch(reg.RegistryStr())
	}
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(*answer.Repository))
	for _, r := range *answer.Repository {
		names = append(names, r.Name)
	}
	return found(len(names), names), nil
}

func found(total int, names []string) *Found {
	if len(names) > maxFound {
		names = names[:maxFound]
	}
	return &Found{Total: max(total, len(names)), Entries: names}
}

func isNotFound(err error) bool {
	var answer *transport.Error
	return errors.As(err, &answer) && answer.StatusCode == http.StatusNotFound
}

func noSearch(host string) error {
	return status.Errorf(http.StatusNotFound, "the registry %s can't be searched: only Harbor (2.0 and later) and Docker Hub can", host)
}
