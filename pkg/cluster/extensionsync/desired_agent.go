package extensionsync

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/cluster"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/store/index"
)

const (
	// chartWait bounds the time to read a chart, and judgeAgain is when one that could not be read is read again.
	chartWait  = time.Minute
	judgeAgain = time.Minute
)

// plans returns the plans that have, or had, agents.
func (h *Hub) plans(ctx context.Context) (out []*v1alpha1.InstallPlan, err error) {
	snap, err := h.Caches.Snapshot(ctx, plansKind)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the InstallPlans: %w", err)
	}
	h.reading.Lock()
	defer h.reading.Unlock()
	read := map[string]decoded{}
	snap.ByName(index.All()).Walk(0, false, func(ref *index.Ref) bool {
		d, record := h.decoded[ref.Name], snap.Record(ref)
		if d.record != record {
			d = decoded{record: record, plan: &v1alpha1.InstallPlan{}}
			if err := json.Unmarshal([]byte(record.JSON.String()), d.plan); err != nil {
				klog.ErrorS(err, "An InstallPlan can't be read: its agents in member clusters stay as they are", "installPlan", ref.Name)
				d.plan = nil
			}
		}
		if read[ref.Name] = d; d.plan == nil {
			return true
		}
		if d.plan.Spec.ClusterScheduling != nil || len(d.plan.Status.ClusterSchedulingStatuses) > 0 {
			out = append(out, d.plan)
		}
		return true
	})
	h.decoded = read
	h.forget(out)
	return out, nil
}

// unread reports whether there is a plan that can't be read.
func (h *Hub) unread(name string) bool {
	h.reading.Lock()
	defer h.reading.Unlock()
	d, found := h.decoded[name]
	return found && d.plan == nil
}

// decoded is a plan of the caches. It has what hundreds of members say of their agents, so it is decoded once for all of them, and nobody
// changes it.
type decoded struct {
	record *index.Record
	plan   *v1alpha1.InstallPlan // nil for one that can't be read
}

// forget forgets the charts of plans that are gone.
func (h *Hub) forget(plans []*v1alpha1.InstallPlan) {
	names := map[string]bool{}
	for _, p := range plans {
		names[p.Name] = true
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	maps.DeleteFunc(h.judged, func(name string, _ *judged) bool { return !names[name] })
}

// gone returns the extensions whose plans ended while a member was away.
func (h *Hub) gone(ctx context.Context, m *cluster.Member) []string {
	snap, err := h.Caches.Snapshot(ctx, clustersKind)
	if err != nil {
		return nil
	}
	record, found := snap.Get("", m.Name)
	if !found {
		return nil
	}
	var o metav1.PartialObjectMetadata
	if json.Unmarshal([]byte(record.JSON.String()), &o) != nil {
		return nil
	}
	return v1alpha1.RemovedExtensions(o.Annotations)
}

func (h *Hub) recorded(ctx context.Context, m *cluster.Member) bool { return len(h.gone(ctx, m)) > 0 }

// isNoted reports whether a plan says something of a member that is to have an agent, or was before the selector could not be read.
func isNoted(p *v1alpha1.InstallPlan, m *cluster.Member) bool {
	placed, err := p.PlacedOn(m.Name, m.Labels)
	_, was := p.Status.ClusterSchedulingStatuses[m.Name]
	return placed || err != nil && was
}

// wanted returns the agent that a member is to have by a plan, nil for none. Hold says that the member keeps what it has: the plan has one
// there, and what it asks for now is not approved, not installed on the hub, or can't be read, as its selector may be; why says the reason.
func (h *Hub) wanted(ctx context.Context, m *cluster.Member, p *v1alpha1.InstallPlan) (want *Agent, hold bool, why string) {
	if placed, err := p.PlacedOn(m.Name, m.Labels); err != nil {
		return nil, true, status.Clip(err.Error(), maxMessage)
	} else if !placed {
		return nil, false, ""
	}
	version := &v1alpha1.ExtensionVersion{}
	snap, err := h.Caches.Snapshot(ctx, versionsKind)
	switch {
	case p.Status.Version == "":
		return nil, true, "the extension is not installed on the hub yet"
	case err != nil:
		return nil, true, "the hub has not read the versions of its extensions yet"
	}
	record, found := snap.Get("", v1alpha1.ExtensionVersionName(p.Name, p.Status.Version))
	if !found || json.Unmarshal([]byte(record.JSON.String()), version) != nil {
		return nil, true, fmt.Sprintf("the version %.64s, which is installed on the hub, is not among its versions any more", p.Status.Version)
	}
	if of, ok := version.Is(); !ok || of != p.Name { // the name joins two texts
		return nil, true, fmt.Sprintf("the ExtensionVersion %s is none of this extension", version.Name)
	}
	if version.Spec.InstallationMode != v1alpha1.InstallationMulticluster {
		return nil, false, ""
	}
	of, err := h.judge(ctx, p, version)
	if err != nil {
		return nil, true, whyHeld(p.Name, version.Name, err)
	}
	config, err := valuesOf(p.Spec.Config, p.Spec.ClusterScheduling.Overrides[m.Name])
	if err != nil {
		return nil, true, err.Error()
	}
	a := &Agent{Hub: h.UID, Extension: p.Name, Cluster: m.Name, Version: version.Spec, Enabled: p.Spec.Enabled, Config: config,
		Approver: p.Annotations[v1alpha1.AnnotationApprovedBy], Retry: p.Annotations[v1alpha1.AnnotationRetry],
		OnFailure: p.Annotations[v1alpha1.AnnotationOnFailure], Parts: of.parts}
	a.Version.Digest, a.Version.Icon, a.Version.Screenshots = of.digest, "", nil
	text, err := json.Marshal(a)
	if err != nil { // texts have a JSON text
		panic(fmt.Sprintf("encode an agent: %v", err))
	}
	sum := sha256.Sum256(text)
	a.Hash = hex.EncodeToString(sum[:16])
	return a, false, ""
}
