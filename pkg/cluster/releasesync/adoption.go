package releasesync

import (
	"context"
	"errors"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	"kapis.dev/ks-apiserver/pkg/appstore/release"
	"kapis.dev/ks-apiserver/pkg/cluster"
	"kapis.dev/ks-apiserver/pkg/cluster/exchange"
)

// adopt tells a member of a release that an earlier installation has installed there. That kept releases on the hub alone, so that the
// member has to learn of it, and only notes what is there: that takes no author, no version and no package.
func (r *round) adopt(ctx context.Context, m *cluster.Member, rel *v2.ApplicationRelease, id string) error {
	if err := r.know(); err != nil { // what was sent to the member before may have taken minutes
		return err
	}
	kind := rel.Spec.AppType
	if kind == "" {
		kind = v2.TypeHelm
	}
	return exchange.Ask(ctx, m, PathRelease, &Release{Hub: r.UID, Name: rel.Name, Hash: id, Cluster: rel.Labels[v2.LabelCluster],
		Workspace: rel.Labels[v2.LabelWorkspace], Namespace: rel.Labels[v2.LabelNamespace], Spec: rel.Spec, Adopt: true, Type: kind}, nil)
}

// removeUnknown lets a release go that is deleted, and not in its member. One that an earlier installation has installed there is told to
// the member first, which removes what it has of it.
func (r *round) removeUnknown(ctx context.Context, m *cluster.Member, rel *v2.ApplicationRelease) error {
	if !release.IsAdopted(&rel.Status) || !isHeld(rel) {
		return r.letGo(ctx, rel)
	}
	err := r.adopt(ctx, m, rel, release.OperationID(rel))
	var no *exchange.Refused
	if errors.As(err, &no) {
		return r.say(ctx, rel, v2.ReleaseDeleting, err.Error()+". The annotation "+v2.AnnotationForceDelete+
			" lets it go, and leaves what an earlier installation has installed")
	}
	if err != nil {
		return err
	}
	return r.say(ctx, rel, v2.ReleaseDeleting, "")
}

// noteKnown notes that a member knows a release that is deleted: once it is gone there, there is nothing left to adopt.
func (r *round) noteKnown(ctx context.Context, rel *v2.ApplicationRelease) error {
	if !release.IsAdopted(&rel.Status) {
		return nil
	}
	s := &rel.Status
	next := v2.ApplicationReleaseStatus{State: s.State, Message: s.Message, LastUpdate: s.LastUpdate, SpecHash: release.OperationID(rel)}
	if err := r.note(ctx, rel, next); err != nil {
		return err
	}
	s.SpecHash = next.SpecHash
	return nil
}
