package extensionsync

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/chart"
	"kapis.dev/ks-apiserver/pkg/chart/source"
	"kapis.dev/ks-apiserver/pkg/cluster/exchange"
	"kapis.dev/ks-apiserver/pkg/extension/permission"
	"kapis.dev/ks-apiserver/pkg/status"
)

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
