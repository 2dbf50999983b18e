package fleetsync

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/cluster"
	"kapis.dev/ks-apiserver/pkg/cluster/exchange"
)

// FollowNames asks a member, until ctx ends, which names its own bindings have besides those that Bound tells. It is called when the first
// link of the member is open.
func FollowNames(ctx context.Context, m *cluster.Member) {
	for told := ""; ; {
		wait, err := learnNames(ctx, m)
		if ctx.Err() != nil {
			return
		}
		if err != nil && err.Error() != told {
			klog.ErrorS(err, "Which groups a member cluster binds is not known; it is asked again", "cluster", m.Name)
		}
		if told = ""; err != nil {
			told = err.Error()
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// learnNames asks a member once, and returns when to ask again. Where it fails, what was said last counts.
func learnNames(ctx context.Context, m *cluster.Member) (again time.Duration, err error) {
	names, err := askNames(ctx, m)
	var refused *exchange.Refused
	switch {
	case errors.As(err, &refused) && refused.Code < http.StatusInternalServerError && refused.Code != http.StatusTooManyRequests:
		m.SetBoundNames(nil) // it is of an older release
		return olderEvery, nil
	case err != nil:
		return retryEvery, err
	}
	m.SetBoundNames(names)
	return boundEvery, nil
}

// askNames returns which names a member's own bindings have. The error says that this is not known.
func askNames(ctx context.Context, m *cluster.Member) (*cluster.BoundNames, error) {
	out := &cluster.BoundNames{}
	q := exchange.Request{Method: http.MethodGet, Path: PathBoundNames, Timeout: askTimeout, MaxAnswer: maxAnswer}
	if err := q.Send(ctx, m, out); err != nil {
		return nil, err
	}
	if names, bytes := out.Size(); names > mostBound || bytes > mostBoundBytes {
		return nil, fmt.Errorf("the cluster's bindings have %d names, in %d bytes: %d, in %d bytes, are the most that this server keeps; remove"+
			" bindings of groups and users who are gone there", names, bytes, mostBound, mostBoundBytes)
	}
	return out, nil
}
