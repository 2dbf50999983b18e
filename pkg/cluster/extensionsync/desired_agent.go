package extensionsync

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/chart"
	"kapis.dev/ks-apiserver/pkg/chart/source"
	"kapis.dev/ks-apiserver/pkg/cluster"
	"kapis.dev/ks-apiserver/pkg/cluster/exchange"
	"kapis.dev/ks-apiserver/pkg/extension/permission"
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
			if err = json.Unmarshal([]byte(record.JSON.String()), d.plan); err != nil {
				err = fmt.Errorf("read the InstallPlan %s: %w", ref.Name, err)
				return false
			}
		}
		read[ref.Name] = d
		if d.plan.Spec.ClusterScheduling != nil || len(d.plan.Status.ClusterSchedulingStatuses) > 0 {
			out = append(out, d.plan)
		}
		return true
	})
	h.decoded = read
	h.forget(out)
	return out, err
}

// decoded is a plan of the caches. It has what hundreds of members say of their agents, so it is decoded once for all of them, and nobody
// changes it.
type decoded struct {
	record *index.Record
	plan   *v1alpha1.InstallPlan
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
	snap, err := h.Caches.Snapshot(ctx, clusterv1alpha1.SchemeGroupVersion.WithResource("clusters"))
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

// wanted returns the agent that a member is to have by a plan, nil for none. Hold says that the member keeps what it has: the plan has one
// there, and what it asks for now is not approved, not installed on the hub, or can't be read, of which why says the reason.
func (h *Hub) wanted(ctx context.Context, m *cluster.Member, p *v1alpha1.InstallPlan) (want *Agent, hold bool, why string) {
	if !p.PlacedOn(m.Name, m.Labels) {
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

// whyHeld says why the chart of a plan is not sent, as far as people may be told.
func whyHeld(plan, version string, err error) string {
	if errors.Is(err, errNotApproved) {
		return fmt.Sprintf("nobody has approved on the hub that this cluster gets this chart with these values: who may approve the plan, "+
			"approves it there by `kubectl annotate installplan %s %s=yes`", plan, v1alpha1.AnnotationApprove)
	}
	why, failed := "the log of ks-apiserver says why", (*source.Failure)(nil)
	if errors.As(err, &failed) {
		why = failed.Message
	}
	return status.Clip(fmt.Sprintf("the chart of %s can't be read on the hub, and is tried again: %s", version, why), maxMessage)
}

// judged is the chart of a plan, as far as it was approved.
type judged struct {
	sync.Mutex
	key    string
	digest string
	parts  int
	err    error
	until  time.Time
}

var errNotApproved = errors.New("the chart with these values is not what was approved")

// judge finds out whether what a plan asks for is what was approved on the hub. A chart is read once for what can change that.
func (h *Hub) judge(ctx context.Context, p *v1alpha1.InstallPlan, v *v1alpha1.ExtensionVersion) (*judged, error) {
	if p.Annotations[v1alpha1.AnnotationApprovedPlacement] != permission.PlacementOf(&p.Spec) {
		return nil, errNotApproved
	}
	key, err := json.Marshal([]any{p.UID, p.Spec, p.Annotations[v1alpha1.AnnotationApproved], v.UID, v.Spec})
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	if h.judged == nil {
		h.judged = map[string]*judged{}
	}
	j := h.judged[p.Name]
	if j == nil {
		j = &judged{}
		h.judged[p.Name] = j
	}
	h.mu.Unlock()
	j.Lock()
	defer j.Unlock()
	sum := sha256.Sum256(key)
	if id := string(sum[:]); j.key != id || j.err != nil && !errors.Is(j.err, errNotApproved) && h.Now().After(j.until) {
		j.key, j.until = id, h.Now().Add(judgeAgain)
		j.digest, j.parts, j.err = h.approved(ctx, p, v)
		if j.err != nil && !errors.Is(j.err, errNotApproved) {
			klog.V(2).InfoS("The chart of an agent can't be read", "extensionVersion", v.Name, "error", j.err)
		}
	}
	return &judged{digest: j.digest, parts: j.parts}, j.err
}

func (h *Hub) approved(ctx context.Context, p *v1alpha1.InstallPlan, v *v1alpha1.ExtensionVersion) (digest string, n int, err error) {
	ctx, cancel := context.WithTimeout(ctx, chartWait)
	defer cancel()
	raw, err := h.Charts.Load(ctx, v)
	if err != nil {
		return "", 0, err
	}
	request, _, err := permission.RequestOf(p, v, raw)
	if err != nil {
		return "", 0, err
	}
	if p.Annotations[v1alpha1.AnnotationApproved] != request.Stamp() {
		return "", 0, errNotApproved
	}
	return chart.Digest(raw), exchange.Parts(len(raw)), nil
}

// sharedChart is a chart that is being sent: it is in memory once, to however many members it goes.
type sharedChart struct {
	sync.Mutex
	users int
	raw   []byte
}

// chart returns the chart of an agent, and what is to be called when it has been sent.
func (h *Hub) chart(ctx context.Context, a *Agent) (raw []byte, done func(), err error) {
	digest := a.Version.Digest
	h.mu.Lock()
	if h.sent == nil {
		h.sent = map[string]*sharedChart{}
	}
	c := h.sent[digest]
	if c == nil {
		c = &sharedChart{}
		h.sent[digest] = c
	}
	c.users++
	h.mu.Unlock()
	done = func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if c.users--; c.users == 0 {
			delete(h.sent, digest)
		}
	}
	c.Lock()
	defer c.Unlock()
	if c.raw == nil {
		v := &v1alpha1.ExtensionVersion{Spec: a.Version}
		loading, cancel := context.WithTimeout(ctx, chartWait)
		defer cancel()
		raw, err := h.Charts.Load(loading, v)
		if err == nil && chart.Digest(raw) != digest {
			err = errNotApproved
		}
		if err != nil {
			done()
			return nil, nil, fmt.Errorf("read the chart of %s %s: %w", a.Extension, a.Version.Version, err)
		}
		c.raw = raw
	}
	return c.raw, done, nil
}
