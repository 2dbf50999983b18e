package releasesync

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	"kapis.dev/ks-apiserver/pkg/status"
)

// maxMessage bounds what is kept of what a member says of a release, in bytes.
const maxMessage = 4 << 10

// changing are the states of releases in a member in which something is done, and settled those in which nothing is.
var (
	changing = []string{v2.ReleaseCreating, v2.ReleaseCreated, v2.ReleaseUpgrading, v2.ReleaseUpgraded, v2.ReleaseDeleting}
	settled  = []string{v2.ReleaseActive, v2.ReleaseFailed, v2.ReleaseDeployFailed, v2.ReleaseTimeout}
)

// isSettled reports whether a member has done what it can for a release.
func (i *Installed) isSettled() bool { return i.Done && slices.Contains(settled, i.State) }

// isHeld reports whether a release that is deleted stays until its member has removed it.
func isHeld(rel *v2.ApplicationRelease) bool {
	return slices.Contains(rel.Finalizers, v2.FinalizerRelease)
}

// status returns what the hub's release says where a member says this of it, cut to what that may have.
func (i *Installed) status(rel *v2.ApplicationRelease, id string) v2.ApplicationReleaseStatus {
	out := v2.ApplicationReleaseStatus{State: i.State, Message: status.Clip(i.Message, maxMessage), LastUpdate: i.LastUpdate,
		SpecHash: rel.Status.SpecHash}
	if !slices.Contains(changing, i.State) && !slices.Contains(settled, i.State) { // it has not begun, or says nothing known
		out.State = v2.ReleaseCreating
	}
	if i.Done {
		out.SpecHash = id
	}
	return out
}

// say notes a state that is the hub's to say.
func (r *round) say(ctx context.Context, rel *v2.ApplicationRelease, state, message string) error {
	next := v2.ApplicationReleaseStatus{State: state, Message: status.Clip(message, maxMessage), LastUpdate: rel.Status.LastUpdate,
		SpecHash: rel.Status.SpecHash}
	if rel.Status.State != state {
		now := metav1.NewTime(r.Now())
		next.LastUpdate = &now
	}
	return r.note(ctx, rel, next)
}

// note writes the state of a release, if that has changed.
func (r *round) note(ctx context.Context, rel *v2.ApplicationRelease, next v2.ApplicationReleaseStatus) error {
	now := v2.ApplicationReleaseStatus{State: rel.Status.State, Message: rel.Status.Message, LastUpdate: rel.Status.LastUpdate,
		SpecHash: rel.Status.SpecHash}
	if equality.Semantic.DeepEqual(now, next) {
		return nil
	}
	var at any // a merge patch has to say of each field that it is gone
	if next.LastUpdate != nil {
		at = next.LastUpdate
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": rel.UID}, "status": map[string]any{
		"state": next.State, "message": next.Message, "lastUpdate": at, "specHash": next.SpecHash}})
	if err != nil {
		return fmt.Errorf("encode the state of a release: %w", err)
	}
	_, err = r.Releases.Patch(ctx, rel.Name, types.MergePatchType, body, metav1.PatchOptions{}, "status")
	return seen(err, "write the state of the ApplicationRelease", rel.Name)
}

// letGo lets a release go that is deleted, and gone in its member.
func (r *round) letGo(ctx context.Context, rel *v2.ApplicationRelease) error {
	if !isHeld(rel) {
		return nil
	}
	left := slices.DeleteFunc(slices.Clone(rel.Finalizers), func(f string) bool { return f == v2.FinalizerRelease })
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": rel.UID, "resourceVersion": rel.ResourceVersion,
		"finalizers": left}})
	if err != nil {
		return fmt.Errorf("encode the finalizers of a release: %w", err)
	}
	_, err = r.Releases.Patch(ctx, rel.Name, types.MergePatchType, body, metav1.PatchOptions{})
	return seen(err, "let the ApplicationRelease go:", rel.Name)
}

// seen returns the error of a write: what has ended, or become another one meanwhile, is looked at next.
func seen(err error, what, name string) error {
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return fmt.Errorf("%s %s: %w", what, name, err)
}
