package releasesync

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/klog/v2"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	"kapis.dev/ks-apiserver/pkg/appstore/release"
	"kapis.dev/ks-apiserver/pkg/cluster"
	"kapis.dev/ks-apiserver/pkg/cluster/exchange"
	"kapis.dev/ks-apiserver/pkg/cluster/fleetsync"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/store/index"
)

// Hub tells members which releases they are to have, and writes into the hub's what the members say.
type Hub struct {
	Caches fleetsync.Snapshots
	// Known returns nil while Caches have all objects of some kinds, as they are now: what they have not seen yet would be undone in members.
	Known func(kinds ...schema.GroupVersionResource) error
	// Package reads the package of a version.
	Package func(ctx context.Context, v *v2.ApplicationVersion) ([]byte, error)
	// Releases writes ApplicationReleases.
	Releases dynamic.ResourceInterface
	// UID is that of this cluster's kube-system.
	UID string
	// Current returns the member of a UID as it is now, nil for none.
	Current func(uid string) *cluster.Member
	Now     func() time.Time

	once sync.Once
	room *semaphore.Weighted // of the packages in memory
}

// round is what is known of one member while it is linked.
type round struct {
	*Hub
	uid     string
	refused exchange.Refusals
	// sent are the releases that were sent. One whose end was seen while it was on its way is removed.
	sent map[string]bool
}

func (h *Hub) newRound(uid string) *round {
	return &round{Hub: h, uid: uid, refused: exchange.Refusals{Now: h.Now}, sent: map[string]bool{}}
}

// Follow keeps the releases of a member as they are to be, until ctx ends. It is called when the first link of a member is open.
func (h *Hub) Follow(ctx context.Context, m *cluster.Member) {
	seen := uint64(0)
	(&exchange.Rounds{
		Run: h.newRound(m.UID).run,
		Now: h.Now,
		Changed: func(ctx context.Context) bool {
			was := seen
			seen = h.generation(ctx)
			return seen != was
		},
		Failed: func(err error) {
			klog.ErrorS(err, "A member cluster is not told of releases; it is tried again", "cluster", m.Name)
		},
	}).Follow(ctx)
}

// generation changes with every release.
func (h *Hub) generation(ctx context.Context) uint64 {
	snap, err := h.Caches.Snapshot(ctx, releasesKind)
	if err != nil {
		return 0
	}
	return snap.Generation()
}

// releases returns those that are in a member, and by name why others can't be read, which stay as they are.
func (h *Hub) releases(ctx context.Context, member string) (out []*v2.ApplicationRelease, unread map[string]error, err error) {
	snap, err := h.Caches.Snapshot(ctx, releasesKind)
	if apierrors.IsNotFound(err) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read the ApplicationReleases: %w", err)
	}
	unread = map[string]error{}
	snap.ByCreated(index.HasLabel(v2.LabelCluster, member)).Walk(0, false, func(ref *index.Ref) bool {
		rel := &v2.ApplicationRelease{}
		if err := json.Unmarshal([]byte(snap.Record(ref).JSON.String()), rel); err != nil {
			unread[ref.Name] = fmt.Errorf("read the ApplicationRelease %s: %w", ref.Name, err)
		} else if !release.IsSent(rel) { // a hub is no member
			out = append(out, rel)
		}
		return true
	})
	return out, unread, nil
}

// know returns nil while this hub knows which releases are to be in members, and all objects of more kinds, as it is now.
func (h *Hub) know(more ...schema.GroupVersionResource) error {
	if err := h.Known(append(more, releasesKind, clustersKind)...); err != nil {
		return fmt.Errorf("know which releases are to be in member clusters: %w", err)
	}
	return nil
}

// run brings a member up to date, as far as that is possible now, and reports whether something is being done there.
func (r *round) run(ctx context.Context) (busy bool, err error) {
	m := r.Current(r.uid)
	if m == nil || m.Leaving || m.Lite || m.Trouble != "" { // ks-controller-manager says so
		return false, nil
	}
	all, unread, err := r.releases(ctx, m.Name)
	if err != nil || len(all) == 0 && len(unread) == 0 && len(r.sent) == 0 {
		return false, err
	}
	if err := r.know(); err != nil {
		return false, err
	}
	report := &Report{}
	if err := exchange.Ask(ctx, m, PathState, &State{Hub: r.UID}, report); err != nil {
		return false, err
	}
	if err := r.know(); err != nil { // the member may have taken its time
		return false, err
	}
	failed := []error{r.late(ctx, m, all, unread, report)}
	for _, name := range slices.Sorted(maps.Keys(unread)) {
		failed = append(failed, unread[name])
	}
	for _, rel := range all {
		has, found := report.Releases[rel.Name]
		works, err := r.one(ctx, m, rel, has, found)
		busy = busy || works
		failed = append(failed, err)
	}
	return busy, errors.Join(failed...)
}

// late removes what has reached a member although its release had ended by then: another replica had seen the end first.
func (r *round) late(ctx context.Context, m *cluster.Member, all []*v2.ApplicationRelease, unread map[string]error, report *Report) error {
	var failed []error
	for name := range r.sent {
		has, found := report.Releases[name]
		switch {
		case unread[name] != nil:
		case slices.ContainsFunc(all, func(rel *v2.ApplicationRelease) bool { return rel.Name == name }):
			if found { // it does not end before the member has removed it, unless by force, which leaves it there
				delete(r.sent, name)
			}
		case found && !has.Leaving:
			failed = append(failed, r.askToRemove(ctx, m, name))
		default:
			delete(r.sent, name)
		}
	}
	return errors.Join(failed...)
}

// one brings one release to a member, or away, and reports whether something is being done there.
func (r *round) one(ctx context.Context, m *cluster.Member, rel *v2.ApplicationRelease, has Installed, found bool) (bool, error) {
	if !rel.DeletionTimestamp.IsZero() {
		return true, r.remove(ctx, m, rel, has, found)
	}
	if !isHeld(rel) { // it has to be seen to end before it is sent anywhere
		return false, nil
	}
	id := release.OperationID(rel)
	if found && has.Leaving {
		return true, r.say(ctx, rel, v2.ReleaseCreating, "the former one is still being removed in the cluster")
	}
	if found && has.Hash == id {
		r.refused.Forget(rel.Name)
		return !has.isSettled(), r.note(ctx, rel, has.status(rel, id))
	}
	if reason, early := r.refused.Of(rel.Name, id); early {
		return true, r.say(ctx, rel, v2.ReleaseFailed, reason)
	}
	message, err := r.bring(ctx, m, rel, id)
	if err != nil {
		return false, err
	}
	if message == "" {
		r.refused.Forget(rel.Name)
		r.sent[rel.Name] = true
		if release.IsUntouched(rel) { // nothing is done there
			return true, nil
		}
		state := v2.ReleaseCreating
		if rel.Status.SpecHash != "" {
			state = v2.ReleaseUpgrading
		}
		return true, r.say(ctx, rel, state, "")
	}
	message = status.Clip(message, maxMessage)
	r.refused.Add(rel.Name, id, message)
	return true, r.say(ctx, rel, v2.ReleaseFailed, message)
}

// remove removes a release from a member, and lets the hub's go once it is gone there.
func (r *round) remove(ctx context.Context, m *cluster.Member, rel *v2.ApplicationRelease, has Installed, found bool) error {
	r.refused.Forget(rel.Name)
	if !found {
		return r.removeUnknown(ctx, m, rel)
	}
	if err := r.noteKnown(ctx, rel); err != nil {
		return err
	}
	if !has.Leaving {
		err := r.askToRemove(ctx, m, rel.Name)
		var no *exchange.Refused
		if err != nil && !errors.As(err, &no) {
			return err
		}
		if err != nil {
			return r.say(ctx, rel, v2.ReleaseDeleting, err.Error())
		}
		return r.say(ctx, rel, v2.ReleaseDeleting, "")
	}
	return r.say(ctx, rel, v2.ReleaseDeleting, has.Message)
}

// askToRemove asks a member to remove a release, unless there is another one of its name by now: what the member was sent before may have
// taken minutes.
func (r *round) askToRemove(ctx context.Context, m *cluster.Member, name string) error {
	if err := r.know(); err != nil {
		return err
	}
	now := &metav1.PartialObjectMetadata{}
	err := r.cached(ctx, releasesKind, name, now)
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	if err == nil && now.DeletionTimestamp.IsZero() && now.Labels[v2.LabelCluster] == m.Name {
		return nil
	}
	return exchange.Ask(ctx, m, PathRemove, &Removal{Hub: r.UID, Name: name}, nil)
}
