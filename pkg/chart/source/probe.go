package source

import (
	"context"
	"errors"
	"strings"

	"kapis.dev/ks-apiserver/pkg/chart"
)

// maxHead is how much of an index Probe looks at, in bytes.
const maxHead = 1 << 20

// Probe reads as much of a repository's index as tells that there is one, or of a registry as tells that it has something at the path, in
// little memory.
func (c *Client) Probe(ctx context.Context, a *Access) error {
	if a.base.Scheme == schemeOCI {
		return c.probeRegistry(ctx, a)
	}
	head, whole, err := c.head(ctx, a, a.base.JoinPath("index.yaml"), maxHead, whatIndex)
	if err != nil {
		return err
	}
	if whole {
		_, err = chart.ReadIndex(head)
	} else if text := string(head); !strings.Contains(text, "apiVersion") || !strings.Contains(text, "entries") {
		err = errors.New("what the repository has as index.yaml is no index of charts")
	}
	if err != nil {
		return &Failure{Reason: ReasonInvalid, Message: err.Error()}
	}
	return nil
}
