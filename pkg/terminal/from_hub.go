package terminal

import (
	"context"

	"kapis.dev/ks-apiserver/pkg/cluster/link"
)

// FromHub reports whether the hub of the fleet has sent a request: its user is one of the hub's, and may be none of this cluster's.
func FromHub(ctx context.Context) bool { return link.FromHub(ctx) }
