package fleet

import (
	"context"
	"time"

	"k8s.io/client-go/dynamic"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	"kapis.dev/ks-apiserver/pkg/chart/source"
	"kapis.dev/ks-apiserver/pkg/cluster/releasesync"
	"kapis.dev/ks-apiserver/pkg/egress"
)

// Files returns the packages of applications by their names.
type Files interface {
	Get(ctx context.Context, name string) ([]byte, error)
}

// releasesOf returns the hub that brings releases of the store to members.
func releasesOf(h *Hub, o Options, objects dynamic.Interface, uid string) *releasesync.Hub {
	packages := &releasesync.Packages{Files: o.Files, Repos: source.NewPackages(source.New(egress.Options{AllowLoopback: o.AllowLoopback}),
		source.Kube{Client: o.Client}, time.Now)}
	return &releasesync.Hub{Caches: o.Caches, Known: o.areCurrent, Package: packages.Load, UID: uid, Current: h.Members.ByUID, Now: time.Now,
		Releases: objects.Resource(v2.SchemeGroupVersion.WithResource("applicationreleases"))}
}
