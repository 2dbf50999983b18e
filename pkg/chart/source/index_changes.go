package source

import (
	"context"

	"kapis.dev/ks-apiserver/pkg/chart"
)

// State is what is remembered of the last read of a repository, so that the next one reads only what has changed. The zero State is empty.
type State struct {
	validators Validators
	// manifests are the manifests that were read from a registry.
	manifests map[content]manifest
}

// content is a manifest of a repository in a registry.
type content struct{ repository, digest string }

// Seen is the index of a repository that was taken over. The zero Seen is of none: the next one is taken over, whatever it has.
type Seen struct {
	since  State
	digest string
}

// Catalogue returns the index of a repository, or an index of the charts below its path in a registry with the depth highest versions of
// each. It is nil if the repository has not changed since the given State. The returned State is for the next read, also after an error.
func (c *Client) Catalogue(ctx context.Context, a *Access, depth int, since State) (*chart.Index, State, error) {
	if a.base.Scheme == schemeOCI {
		return c.registryCatalogue(ctx, a, depth, since)
	}
	raw, validators, err := c.Index(ctx, a, since.validators)
	if err != nil || raw == nil {
		return nil, since, err
	}
	index, err := chart.ReadIndex(raw)
	if err != nil {
		return nil, since, &Failure{Reason: ReasonInvalid, Message: err.Error()}
	}
	return index, State{validators: validators}, nil
}

// Next reads as Catalogue does. It returns the index if it is another one than was seen, nil if it is not, and what was seen once the
// index is taken over.
func (s *Seen) Next(ctx context.Context, c *Client, a *Access, depth int) (*chart.Index, Seen, error) {
	index, since, err := c.Catalogue(ctx, a, depth, s.since)
	switch {
	case err != nil:
		s.since = since
		return nil, *s, err
	case index == nil:
		return nil, *s, nil
	case index.Digest == s.digest:
		s.since = since
		return nil, *s, nil
	}
	return index, Seen{since: since, digest: index.Digest}, nil
}
