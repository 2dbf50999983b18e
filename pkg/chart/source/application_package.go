package source

import (
	"cmp"
	"context"
	"time"

	applicationv2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
	"kapis.dev/ks-apiserver/pkg/chart"
)

// Repos are the Repos that packages come from.
type Repos interface {
	// Repo returns a Repo with its credential; nil where there is none.
	Repo(ctx context.Context, name string) (*applicationv2.Repo, error)
}

// Packages reads the packages of ApplicationVersions that come from a Repo, when they are asked for. It is safe for concurrent use.
type Packages struct {
	client *Client
	repos  Repos
	once   *Once[[]byte]
}

// NewPackages returns a reader of packages.
func NewPackages(client *Client, repos Repos, now func() time.Time) *Packages {
	return &Packages{client, repos, NewOnce[[]byte](now)}
}

// Get returns the package of a version of an application, which the caller must not change. A Failure says what is wrong with it or its
// repository; ErrBusy says to try again; any other error is of the cluster.
func (p *Packages) Get(ctx context.Context, v *applicationv2.ApplicationVersion) ([]byte, error) {
	of := Content{Repo: v.Labels[applicationv2.LabelRepo], Digest: v.Spec.Digest}
	return p.once.Get(ctx, of, Attempt{v.Name, v.ResourceVersion}, func(ctx context.Context) (Made[[]byte], error) {
		raw, err := p.read(ctx, v, of.Repo)
		return Made[[]byte]{Value: raw, Size: len(raw), Of: Content{of.Repo, chart.Digest(raw)}}, err
	})
}

func (p *Packages) read(ctx context.Context, v *applicationv2.ApplicationVersion, from string) ([]byte, error) {
	if from == "" || from == applicationv2.RepoUpload {
		return nil, failure(ReasonInvalid, "the version is from no repository")
	}
	r, err := p.repos.Repo(ctx, from)
	if err != nil {
		return nil, err
	}
	access := &Access{}
	// A credential is for the versions that the Repo itself has, and not for what another workspace names after it.
	if r != nil && workspace(r.Labels) == workspace(v.Labels) {
		if access, err = AccessOfRepo(r); err != nil {
			return nil, err
		}
	} else if access.base, err = parse("spec.pullUrl", v.Spec.PullURL); err != nil {
		return nil, err
	}
	at, err := access.Resolve(v.Spec.PullURL)
	if err != nil {
		return nil, err
	}
	return p.client.Chart(ctx, access, at, v.Spec.Digest)
}

// workspace returns the one that an object with these labels is of.
func workspace(labels map[string]string) string {
	return cmp.Or(labels[tenantv1beta1.LabelWorkspace], tenantv1beta1.SystemWorkspace)
}
