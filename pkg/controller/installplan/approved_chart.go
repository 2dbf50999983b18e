package installplan

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"k8s.io/klog/v2"

	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/chart/source"
	"kapis.dev/ks-apiserver/pkg/extension/permission"
	"kapis.dev/ks-apiserver/pkg/helm"
)

// unapprovedAgain is when a chart that was read, and is not what was approved, is read again although nothing says that it is another one.
const unapprovedAgain = 10 * time.Minute

// chartOf names a chart that was read for a plan.
type chartOf struct{ plan, version string }

// unusable is why nothing could be done with a chart when it was read. It is not read again for each event, as those of the workloads of
// what runs: each time, a repository would be asked for all of it, and one that does not answer would keep a worker.
type unusable struct {
	of    string
	why   *waiting
	since time.Time
	lasts time.Duration
}

// readApproved reads the chart, and returns nil where what it may do is what somebody approved.
func (r *Reconciler) readApproved(ctx context.Context, want *wanted) error {
	at, of, now := chartOf{want.plan.Name, want.version.Spec.Version}, want.chartID(), r.Now()
	if was, ok := r.unusable.Load(at); ok {
		last, _ := was.(*unusable)
		if over := now.Sub(last.since); last.of == of && over >= 0 && over < last.lasts { // a clock may be set back
			why := *last.why
			if why.again > 0 {
				why.again -= over
			}
			return &why
		}
	}
	err := r.readChart(ctx, want)
	if err == nil {
		err = approved(want)
	}
	switch why, waits := asWaiting(err); {
	case waits && why.again > 0:
		r.unusable.Store(at, &unusable{of, why, now, why.again})
	case waits && why.condition == v1alpha1.ConditionApproved:
		r.unusable.Store(at, &unusable{of, why, now, unapprovedAgain})
	default:
		r.unusable.Delete(at)
	}
	return err
}

// chartID identifies everything by which a chart may be another one, or be approved, as far as objects say.
func (w *wanted) chartID() string {
	a := w.plan.Annotations
	text, err := json.Marshal([]any{w.plan.UID, w.plan.Spec, w.version.UID, w.version.Spec, w.secret.Stamp,
		a[v1alpha1.AnnotationApproved], a[v1alpha1.AnnotationApprovedValues], a[v1alpha1.AnnotationUpstreams], a[v1alpha1.AnnotationRetry],
		a[v1alpha1.AnnotationFleetApprover]})
	if err != nil { // texts have a JSON text
		panic(fmt.Sprintf("encode a chart: %v", err))
	}
	sum := sha256.Sum256(text)
	return string(sum[:])
}

// forgetCharts forgets what was read for a plan.
func (r *Reconciler) forgetCharts(plan string) {
	r.unusable.Range(func(key, _ any) bool {
		if at, ok := key.(chartOf); ok && at.plan == plan {
			r.unusable.Delete(key)
		}
		return true
	})
}

// readChart reads the chart, and what it may do.
func (r *Reconciler) readChart(ctx context.Context, want *wanted) (err error) {
	if want.archive != nil {
		return nil
	}
	reading, cancel := context.WithTimeout(ctx, chartTimeout)
	defer cancel()
	if want.raw, err = r.Charts.Load(reading, want.version); err != nil {
		klog.V(2).InfoS("a chart can't be read", "extensionVersion", want.version.Name, "error", err)
		why, failed := "the log of ks-controller-manager says why", (*source.Failure)(nil)
		if errors.As(err, &failed) {
			why = failed.Message
		}
		return waitsFor(chartAgain, v1alpha1.ConditionInitialized, "ChartNotRead", "the chart of %s can't be read, and is tried again: %s",
			want.version.Name, why)
	}
	if want.request, want.archive, err = permission.RequestOf(want.plan, want.version, want.raw); err != nil {
		return chartBroken(err)
	}
	return nil
}

// approved returns nil where what a chart may do is what somebody approved.
func approved(want *wanted) error {
	if want.plan.Annotations[v1alpha1.AnnotationApproved] == want.request.Stamp() {
		return valuesApproved(want)
	}
	who := "nobody has approved this chart with these values, and what it may do"
	if by := want.plan.Annotations[v1alpha1.AnnotationFleetApprover]; by != "" && want.plan.Labels[clusterv1alpha1.LabelFleet] != "" {
		who = helm.Clip(by, maxName) + " approved it on the hub, which counts here, and is looked at again until then, once that is a user of " +
			"the fleet in this cluster who may approve here what the chart may do"
	}
	return waits(v1alpha1.ConditionApproved, "NotApproved", "%s (%s): %s. "+
		"Who holds that, or may approve the plan, approves it by `kubectl annotate installplan %s %s=yes`",
		who, want.request.Level(), want.request, want.plan.Name, v1alpha1.AnnotationApprove)
}

// valuesApproved returns nil where the Secret with values is as somebody approved it: who may write Secrets of the namespace is not who may
// say what is done with the installer's rights.
func valuesApproved(want *wanted) error {
	if want.plan.Annotations[v1alpha1.AnnotationApprovedValues] == want.secret.Stamp {
		return nil
	}
	what := fmt.Sprintf("the Secret %s/%s, which has values of it, is not as somebody approved it", want.namespace, want.secret.Secret)
	if want.secret.Secret == "" {
		what = "the Secret with values that somebody approved is not in " + want.namespace
	}
	return waits(v1alpha1.ConditionApproved, "ValuesNotApproved", "%s: what is installed goes on with the values that it has. "+
		"Who may approve the plan, approves the Secret as it is by `kubectl annotate installplan %s %s=yes`", what, want.plan.Name,
		v1alpha1.AnnotationApprove)
}
