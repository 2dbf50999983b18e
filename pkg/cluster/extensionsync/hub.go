package extensionsync

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/cluster"
	"kapis.dev/ks-apiserver/pkg/cluster/exchange"
	"kapis.dev/ks-apiserver/pkg/cluster/fleetsync"
	"kapis.dev/ks-apiserver/pkg/status"
)

// Charts reads the packed chart of a version. source.Loader does.
type Charts interface {
	Load(ctx context.Context, v *v1alpha1.ExtensionVersion) ([]byte, error)
}

// Hub tells members which agents they are to have, and writes into the plans what the members say.
type Hub struct {
	Caches fleetsync.Snapshots
	// Known returns nil while Caches have all objects of some kinds, as they are now: what they have not seen yet would be undone in members.
	Known  func(kinds ...schema.GroupVersionResource) error
	Charts Charts
	// Plans writes InstallPlans.
	Plans dynamic.ResourceInterface
	// UID is that of this cluster's kube-system.
	UID string
	// Current returns the member of a UID as it is now, nil for none.
	Current func(uid string) *cluster.Member
	Now     func() time.Time

	mu     sync.Mutex
	judged map[string]*judged
	sent   map[string]*sharedChart

	reading sync.Mutex // of decoded, by the names of plans
	decoded map[string]decoded
}

// round is what is known of one member while it is linked.
type round struct {
	*Hub
	uid string
	// remove are the agents that the member is told to remove with the next request.
	remove []string
	// brought are the agents that were sent. One whose plan ended while it was on its way is removed.
	brought map[string]bool
	refused exchange.Refusals
}

func (h *Hub) newRound(uid string) *round {
	return &round{Hub: h, uid: uid, brought: map[string]bool{}, refused: exchange.Refusals{Now: h.Now}}
}

// Follow keeps the agents of a member as they are to be, until ctx ends. It is called when the first link of a member is open.
func (h *Hub) Follow(ctx context.Context, m *cluster.Member) {
	var seen dependencies
	(&exchange.Rounds{
		Run: h.newRound(m.UID).run,
		Now: h.Now,
		Changed: func(ctx context.Context) bool {
			was := seen
			seen = h.dependencies(ctx, m.UID)
			return !seen.equal(&was)
		},
		Failed: func(err error) {
			klog.ErrorS(err, "A member cluster is not told of extensions; it is tried again", "cluster", m.Name)
		},
	}).Follow(ctx)
}

// dependencies are what the agents of a member depend on: states of the caches, 0 for one that is not there, and the labels of its Cluster.
type dependencies struct {
	plans, versions uint64
	member          bool
	labels          map[string]string
}

func (d *dependencies) equal(other *dependencies) bool {
	return d.plans == other.plans && d.versions == other.versions && d.member == other.member && maps.Equal(d.labels, other.labels)
}

func (h *Hub) dependencies(ctx context.Context, uid string) (out dependencies) {
	for kind, into := range map[schema.GroupVersionResource]*uint64{plansKind: &out.plans, versionsKind: &out.versions} {
		if snap, err := h.Caches.Snapshot(ctx, kind); err == nil {
			*into = snap.Generation()
		}
	}
	if m := h.Current(uid); m != nil {
		out.member, out.labels = true, m.Labels
	}
	return out
}

// know returns nil while this hub knows which agents are to be in members, as it is now.
func (h *Hub) know() error {
	if err := h.Known(plansKind, versionsKind, clustersKind); err != nil {
		return fmt.Errorf("know which extensions are to be in member clusters: %w", err)
	}
	return nil
}

// run brings a member up to date, as far as that is possible now, and reports whether something is being done there.
func (r *round) run(ctx context.Context) (busy bool, err error) {
	m := r.Current(r.uid)
	if m == nil || m.Leaving {
		return false, nil
	}
	plans, err := r.plans(ctx)
	if err != nil || len(plans) == 0 && len(r.remove) == 0 && len(r.brought) == 0 && !r.recorded(ctx, m) {
		return false, err
	}
	r.remove = slices.DeleteFunc(r.remove, func(name string) bool { return r.stays(ctx, m, plans, name) })
	if err := r.know(); err != nil {
		return false, err
	}
	report := &Report{}
	if err := exchange.Ask(ctx, m, PathState, &State{Hub: r.UID, Remove: r.remove}, report); err != nil {
		return false, err
	}
	r.remove = nil
	if err := r.know(); err != nil { // the member may have taken its time
		return false, err
	}
	r.late(ctx, m, plans, report)
	busy = len(r.remove) > 0
	var failed []error
	for _, p := range plans {
		has, found := report.Agents[p.Name]
		want, hold, why := r.wanted(ctx, m, p)
		var trouble string
		switch {
		case hold && !found: // who waits for the first one is told why; what is there goes on
			trouble = why
		case hold || want == nil && !found:
		case want == nil:
			r.remove = append(r.remove, p.Name)
		case found && has.Leaving:
			trouble = "the former one is still being removed"
		default:
			trouble, err = r.bring(ctx, m, want, has, slices.Contains(report.Charts, want.Version.Digest))
			if err != nil { // the other plans are not known either
				return false, errors.Join(append(failed, err)...)
			}
		}
		if found && !isSettled(&has) || len(r.remove) > 0 || trouble != "" && !hold {
			busy = true
		}
		next := entryOf(found, &has, want != nil || hold && isNoted(p, m), trouble)
		failed = append(failed, r.note(ctx, p, m.Name, next))
	}
	return busy, errors.Join(failed...)
}

// late notes for removal what a member has although its plan has ended, while the member was away or the agent on its way.
func (r *round) late(ctx context.Context, m *cluster.Member, plans []*v1alpha1.InstallPlan, report *Report) {
	for _, name := range slices.Concat(r.gone(ctx, m), slices.Sorted(maps.Keys(r.brought))) {
		_, found := report.Agents[name]
		p := planOf(plans, name)
		switch {
		case r.unread(name):
		case p != nil:
			if _, noted := p.Status.ClusterSchedulingStatuses[m.Name]; found && noted { // it does not end before the agent is gone
				delete(r.brought, name)
			}
		case found:
			r.remove = append(r.remove, name)
		default:
			delete(r.brought, name)
		}
	}
}

// stays reports whether an agent that was to be removed is not to be any more: the member may not have been told for long.
func (r *round) stays(ctx context.Context, m *cluster.Member, plans []*v1alpha1.InstallPlan, name string) bool {
	p := planOf(plans, name)
	if p == nil {
		return r.unread(name)
	}
	want, hold, _ := r.wanted(ctx, m, p)
	return want != nil || hold
}

// planOf returns the plan of an extension, nil for none.
func planOf(plans []*v1alpha1.InstallPlan, extension string) *v1alpha1.InstallPlan {
	for _, p := range plans {
		if p.Name == extension {
			return p
		}
	}
	return nil
}

// bring sends an agent that a member has not got, and returns why that was not possible. The error is what this hub does not know.
func (r *round) bring(ctx context.Context, m *cluster.Member, want *Agent, has Installed, hasChart bool) (trouble string, err error) {
	lost := lacksChart(&has.Status)
	if has.Hash == want.Hash && !lost {
		r.refused.Forget(want.Extension)
		return "", nil
	}
	if reason, early := r.refused.Of(want.Extension, want.Hash); early {
		return reason, nil
	}
	if !hasChart || lost {
		err = r.sendChart(ctx, m, want)
	}
	if err == nil {
		if err := r.know(); err != nil { // reading and sending a chart may take minutes
			return "", err
		}
		r.brought[want.Extension] = true // also where the answer is lost
		err = exchange.Ask(ctx, m, PathAgent, want, nil)
	}
	if err == nil {
		r.refused.Forget(want.Extension)
		if !lost {
			return "", nil
		}
		err = errors.New("the chart was lost in the cluster, and is sent again")
	}
	trouble = status.Clip(err.Error(), maxMessage)
	r.refused.Add(want.Extension, want.Hash, trouble)
	return trouble, nil
}

func (r *round) sendChart(ctx context.Context, m *cluster.Member, want *Agent) error {
	raw, done, err := r.chart(ctx, want)
	if err != nil {
		return err
	}
	defer done()
	query := url.Values{"hub": {r.UID}, "digest": {want.Version.Digest}}
	return exchange.SendFile(ctx, m, PathChart, query, raw)
}
