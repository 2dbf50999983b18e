package repo

import (
	"context"
	"errors"
	"net/http"
	"time"

	"k8s.io/klog/v2"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	"kapis.dev/ks-apiserver/pkg/chart/source"
	"kapis.dev/ks-apiserver/pkg/inflight"
	"kapis.dev/ks-apiserver/pkg/status"
)

const (
	// maxProbes is how many indexes are looked at at once, maxOfUser how many of one user's, and probeTimeout how long one may take.
	maxProbes, maxOfUser = 8, 2
	probeTimeout         = 20 * time.Second
)

// Prober looks at the index of a repository. source.Client is one.
type Prober interface {
	Probe(ctx context.Context, a *source.Access) error
}

// probes looks at the indexes of repositories, a few at once.
type probes struct {
	prober Prober
	limit  *inflight.Limit[string] // by inflight.OwnerOf the user
}

func newProbes(p Prober) *probes { return &probes{p, inflight.NewByUser(maxProbes, maxOfUser)} }

// check returns an error if a Repo with this spec can't be reached, or has no index.
func (p *probes) check(ctx context.Context, user string, spec *v2.RepoSpec) error {
	access, err := source.AccessOfRepo(&v2.Repo{Spec: *spec})
	if err != nil {
		return status.BadRequestf("%v", err)
	}
	leave, err := p.limit.Enter(inflight.OwnerOf(user))
	if err != nil {
		return status.RetryAfter(1, status.Errorf(http.StatusServiceUnavailable, "too many repositories are looked at at this moment"))
	}
	defer leave()
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	err = p.prober.Probe(ctx, access)
	var failed *source.Failure
	if errors.As(err, &failed) {
		klog.V(2).InfoS("the index of a repository can't be read", "user", user, "error", failed, "cause", failed.Cause)
		return status.Errorf(http.StatusBadGateway, "the index of the repository can't be read: %s", failed.Message)
	}
	return err
}

// Package returns the package of a version that comes from a Repo, as packages reads it.
func Package(ctx context.Context, packages *source.Packages, v *v2.ApplicationVersion) ([]byte, error) {
	raw, err := packages.Get(ctx, v)
	var failed *source.Failure
	switch {
	case errors.Is(err, source.ErrBusy):
		return nil, status.RetryAfter(1, status.Errorf(http.StatusServiceUnavailable, "%v", err))
	case errors.As(err, &failed):
		klog.V(2).InfoS("the package of a version can't be read", "version", v.Name, "error", failed, "cause", failed.Cause)
		return nil, status.Errorf(http.StatusBadGateway, "the package of %s can't be read: %s", v.Name, failed.Message)
	}
	return raw, err
}
