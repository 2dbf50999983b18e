package fleetsync

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"kapis.dev/ks-apiserver/pkg/cluster"
	"kapis.dev/ks-apiserver/pkg/cluster/exchange"
	"kapis.dev/ks-apiserver/pkg/status"
)

// Health is what a member finds wrong with itself.
type Health struct {
	// KubeAPIServer says what is wrong with its kube-apiserver, "" for nothing.
	KubeAPIServer string `json:"kubeAPIServer,omitempty"`
}

const (
	// probeEvery is how often a member is asked, and probeAgain how soon after something was wrong. With the time that a member gives its
	// kube-apiserver, failuresAtMost of them take less than 20 seconds.
	probeEvery, probeAgain = 5 * time.Second, 2 * time.Second
	failuresAtMost         = 3
	// olderEvery is how often a member is asked that does not know the question: it may be upgraded while it is linked.
	olderEvery = time.Minute
	// probeTimeout bounds one request, and maxHealth its answer, in bytes.
	probeTimeout = 8 * time.Second
	maxHealth    = 4 << 10
	// maxFault bounds what is repeated of a member's words.
	maxFault = 200
)

// Prober asks members what is wrong with them, while they are linked: a link says only that the two programs reach each other.
type Prober struct {
	// Every and Again are how often a member is asked, and how soon after something was wrong; 0 for the usual.
	Every, Again time.Duration
}

// Follow asks a member until ctx ends. It is called when the first link of a member is open. The member is degraded after some failures in
// a row, and is not any more after one success.
func (p Prober) Follow(ctx context.Context, m *cluster.Member) {
	for failures := 0; ; {
		wait := cmp.Or(p.Every, probeEvery)
		why, err := probe(ctx, m)
		var refused *exchange.Refused
		switch {
		case errors.As(err, &refused):
			wait, failures = cmp.Or(p.Every, olderEvery), 0
			m.SetDegradedWhile(ctx, "")
		case err != nil: // it has no link, or no room for a request
		case why == "":
			failures = 0
			m.SetDegradedWhile(ctx, "")
		default:
			wait = cmp.Or(p.Again, probeAgain)
			// What is said first stays: a member whose words change has its condition written once.
			if failures++; failures == failuresAtMost {
				m.SetDegradedWhile(ctx, why)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// silent is what is wrong with a member that does not answer over a link.
const silent = "its ks-apiserver does not answer what it is asked over its link. See its log there, and whether it has the processor" +
	" and the memory that it needs"

// probe returns what is wrong with a member, and what to look at; "" for nothing. The error says that this is not known.
func probe(ctx context.Context, m *cluster.Member) (why string, err error) {
	var h Health
	var refused *exchange.Refused
	q := exchange.Request{Method: http.MethodGet, Path: PathHealth, Timeout: probeTimeout, MaxAnswer: maxHealth}
	switch err := q.Send(ctx, m, &h); {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case errors.Is(err, cluster.ErrBusy), errors.Is(err, cluster.ErrUnlinked), errors.As(err, &refused):
		return "", err
	case err != nil:
		return silent, nil //nolint:nilerr // it is what is wrong
	case h.KubeAPIServer != "":
		return "its kube-apiserver " + status.Clip(h.KubeAPIServer, maxFault) + ", so that its writes, /api and /apis fail, and its lists" +
			" may be old. See its kube-apiserver and etcd", nil
	}
	return "", nil
}
