package controllermanager

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/discovery"
)

// clusterVersionFor is how long a version of the cluster is remembered: an upgrade counts after that.
const clusterVersionFor = 10 * time.Minute

// clusterVersion asks the cluster for its version.
type clusterVersion struct {
	from discovery.ServerVersionInterface
	now  func() time.Time

	mu    sync.Mutex
	last  string
	until time.Time
}

func (c *clusterVersion) get(context.Context) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now().Before(c.until) {
		return c.last, nil
	}
	info, err := c.from.ServerVersion()
	if err != nil {
		return "", fmt.Errorf("ask the cluster for its version: %w", err)
	}
	c.last, c.until = info.GitVersion, c.now().Add(clusterVersionFor)
	return c.last, nil
}
