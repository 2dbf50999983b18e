package releasesync

import (
	"context"
	"fmt"
	"net/http"

	"golang.org/x/sync/semaphore"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	"kapis.dev/ks-apiserver/pkg/appstore/release"
	"kapis.dev/ks-apiserver/pkg/chart"
	"kapis.dev/ks-apiserver/pkg/chart/source"
	"kapis.dev/ks-apiserver/pkg/cluster/exchange"
	"kapis.dev/ks-apiserver/pkg/status"
)

// Packages reads the package of a version: its file, or what the repository has that it is from.
type Packages struct {
	Files interface {
		Get(ctx context.Context, name string) ([]byte, error)
	}
	Repos *source.Packages
}

// Load returns the package of a version.
func (p *Packages) Load(ctx context.Context, v *v2.ApplicationVersion) ([]byte, error) {
	raw, err := p.Files.Get(ctx, v.Name)
	switch {
	case err != nil && v.Spec.PullURL != "": // also where files are away, which it has none of
		return p.Repos.Get(ctx, v)
	case err != nil:
		return nil, err
	case v.Spec.Digest != "" && !source.IsOf(raw, v.Spec.Digest):
		return nil, release.Invalidf("the package of the version is not the one that was reviewed: its digest is another one")
	}
	return raw, nil
}

// mostInMemory bounds the packages that a hub has in memory at once, in bytes, to however many members they go: each of these has its own
// pace, and a slow one has two minutes.
const mostInMemory = 16 * chart.MaxArchive

// read reads the package of a version, once there is room for it, until done is called.
func (h *Hub) read(ctx context.Context, v *v2.ApplicationVersion) (raw []byte, done func(), err error) {
	h.once.Do(func() { h.room = semaphore.NewWeighted(mostInMemory) })
	if err := h.room.Acquire(ctx, chart.MaxArchive); err != nil {
		return nil, nil, err //nolint:wrapcheck // the end of ctx
	}
	reading, cancel := context.WithTimeout(ctx, packageWait)
	defer cancel()
	if raw, err = h.Package(reading, v); err == nil && len(raw) > chart.MaxArchive {
		err = release.Invalidf("the package of the version %s has more than %d MiB", v.Name, chart.MaxArchive>>20)
	} else if err != nil {
		err = fmt.Errorf("read the package of the version %s: %w", v.Name, err)
	}
	if err != nil {
		h.room.Release(chart.MaxArchive)
		return nil, nil, err
	}
	size := int64(len(raw))
	h.room.Release(chart.MaxArchive - size)
	return raw, func() { h.room.Release(size) }, nil
}

// Brought reads the packages that a hub has brought, in a member.
type Brought struct{ Kube source.Kube }

// Load returns the package of a release.
func (b Brought) Load(ctx context.Context, s *release.Sent) ([]byte, error) {
	if !release.IsSentFile(s.File) || s.Parts > exchange.Parts(chart.MaxArchive) {
		return nil, release.Invalidf("%.100q in %d parts is no package of a release", s.File, s.Parts)
	}
	var raw []byte
	for i := range s.Parts {
		name := exchange.PartName(s.File, i)
		part, err := b.Kube.ConfigMapKey(ctx, release.InventoryNamespace, name, release.SentKey)
		if err != nil {
			return nil, err
		}
		if part == nil {
			return nil, status.Errorf(http.StatusNotFound, "the package is lost, of which the ConfigMap %s had a part: save the release again on "+
				"the hub", name)
		}
		if raw = append(raw, part...); len(raw) > chart.MaxArchive {
			break
		}
	}
	if chart.Digest(raw) != s.Digest {
		// The next one may be on its way.
		return nil, status.Errorf(http.StatusConflict, "the package is another one than the release names")
	}
	return raw, nil
}
