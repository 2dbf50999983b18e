package registry

import (
	"context"
	"encoding/json"
	"strconv"

	"github.com/google/go-containerregistry/pkg/name"

	"kapis.dev/ks-apiserver/pkg/status"
)

// Tags are the tags of a repository.
type Tags struct {
	// Registry is the address, Repository the path in it.
	Registry, Repository string
	// Tags are in the order of the registry.
	Tags []string
	// More says that the registry has more than are listed.
	More bool
}

// Tags returns the tags of a repository. Errors are as for Image.
func (c *Client) Tags(ctx context.Context, repository string, creds *Credentials) (*Tags, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	repo, err := name.NewRepository(repository, options(creds.Insecure)...)
	if err != nil || len(repository) > maxName || !isRepository(repo) {
		return nil, status.BadRequestf("%q is not the name of a repository, such as nginx or registry.example.com/team/app", excerpt(repository))
	}
	host := repo.RegistryStr()
	out := &Tags{Registry: host, Repository: repo.RepositoryStr(), Tags: []string{}}
	s, err := c.open(ctx, repo.Registry, creds.Account(host), creds.Insecure, []string{repo.Scope("pull")})
	if err == nil {
		err = out.list(ctx, s)
	}
	if err != nil {
		return nil, failure(ctx, host, "list the tags of "+excerpt(repository), err)
	}
	return out, nil
}

// list reads page by page (OCI distribution specification 1.1, "Listing Tags").
func (t *Tags) list(ctx context.Context, s *session) error {
	query := "n=" + strconv.Itoa(tagsPerPage)
	for range maxPages {
		body, next, err := s.get(ctx, "/v2/"+t.Repository+"/tags/list", query)
		if err != nil {
			return err
		}
		var page struct {
			Tags []string `json:"tags"`
		}
		if err := json.Unmarshal(body, &page); err != nil {
			return err
		}
		t.Tags = append(t.Tags, page.Tags...)
		if len(t.Tags) > maxTags {
			t.Tags, t.More = t.Tags[:maxTags], true
			return nil
		}
		if next == "" || len(page.Tags) == 0 {
			return nil
		}
		query = next
	}
	t.More = true
	return nil
}

// Bounds of a list of tags.
const (
	tagsPerPage = 1000
	maxPages    = 20
	maxTags     = 20_000
)
