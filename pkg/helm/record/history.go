// Package record has the records of the revisions of a release, as Helm stores them in Secrets: read, bounded, and held to what they were.
package record

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	rcommon "helm.sh/helm/v4/pkg/release/common"
	release "helm.sh/helm/v4/pkg/release/v1"
	releaseutil "helm.sh/helm/v4/pkg/release/v1/util"
	"helm.sh/helm/v4/pkg/storage"
	"helm.sh/helm/v4/pkg/storage/driver"

	"kapis.dev/ks-apiserver/pkg/helm"
)

// ErrNone is that there is no record of a release.
var ErrNone = errors.New("there is no record of the release")

// History returns the records of a release, the oldest first; none where there is no release.
func History(s *storage.Storage, name string) ([]*release.Release, error) {
	found, err := s.History(name)
	if errors.Is(err, driver.ErrReleaseNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	all := make([]*release.Release, 0, len(found))
	for _, f := range found {
		r, ok := f.(*release.Release)
		if !ok || r.Info == nil {
			return nil, fmt.Errorf("a record of the release %s that can't be read", name)
		}
		all = append(all, r)
	}
	releaseutil.SortByRevision(all)
	return all, nil
}

// LastDeployed returns the newest revision before another one that has been deployed, and not been uninstalled since; nil where there
// is none.
func LastDeployed(all []*release.Release, before int) *release.Release {
	for _, want := range []rcommon.Status{rcommon.StatusDeployed, rcommon.StatusSuperseded} {
		for _, r := range slices.Backward(all) {
			if r.Info.Status == rcommon.StatusUninstalled {
				break
			}
			if r.Version < before && r.Info.Status == want {
				return r
			}
		}
	}
	return nil
}

// Base returns the revision that the next operation works from: the newest one, or, where that has failed, the one that was deployed
// before it; nil for none.
func Base(all []*release.Release) *release.Release {
	newest := all[len(all)-1]
	if newest.Info.Status == rcommon.StatusUninstalling { // what an uninstallation has begun with
		return newest
	}
	return LastDeployed(all, newest.Version+1)
}

// EndPending marks what a killed process left as failed, so that an operation can begin again.
func EndPending(s *storage.Storage, all []*release.Release) error {
	for _, r := range all {
		if r.Info.Status.IsPending() || r.Info.Status == rcommon.StatusUninstalling {
			r.SetStatus(rcommon.StatusFailed, "Interrupted while "+string(r.Info.Status))
			if err := s.Update(r); err != nil {
				return fmt.Errorf("mark the revision %d of the release as failed: %w", r.Version, err)
			}
		}
	}
	return nil
}

// described begins the description of a revision that an operation with an ID deployed. A label would not do: upgrades by Helm's CLI
// keep those.
const described = "Operation "

// Description returns what a revision that an operation deployed is described by; "" for an operation without an ID.
func Description(id string) string {
	if id == "" {
		return ""
	}
	return described + id
}

// View returns what the records of a release say; nil where there is none.
func View(all []*release.Release) *helm.Release {
	if len(all) == 0 {
		return nil
	}
	r := all[len(all)-1]
	v := &helm.Release{Name: r.Name, Namespace: r.Namespace, Revision: r.Version, RecordDigest: Digest(r),
		Status: string(r.Info.Status), Description: r.Info.Description, Updated: r.Info.LastDeployed}
	if id, ok := strings.CutPrefix(r.Info.Description, described); ok {
		v.ID = id
	}
	if base := Base(all); base != nil {
		v.BaseDigest, v.BaseDeployed = Digest(base), base.Info.Status == rcommon.StatusDeployed
	}
	if r.Chart != nil && r.Chart.Metadata != nil {
		m := r.Chart.Metadata
		v.Chart, v.ChartVersion, v.AppVersion = m.Name, m.Version, m.AppVersion
	}
	return v
}
