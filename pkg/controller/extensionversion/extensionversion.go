// Package extensionversion reads the chart of each version of an extension, and writes what it says into the ExtensionVersion.
package extensionversion

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/chart"
	"kapis.dev/ks-apiserver/pkg/chart/source"
	"kapis.dev/ks-apiserver/pkg/controller/polling"
	"kapis.dev/ks-apiserver/pkg/controller/retry"
	"kapis.dev/ks-apiserver/pkg/extension"
)

// Name is the controller's name.
const Name = "extensionVersion"

const (
	// firstRetry is the pause after a chart could not be read; it doubles up to lastRetry.
	firstRetry, lastRetry = 30 * time.Second, 30 * time.Minute
	// timeout bounds the read of a chart.
	timeout = 2 * time.Minute
	// parallel is how many charts are read at once: one at a repository that does not answer holds up no other. One takes up to 64 MiB.
	parallel = 3
)

// Setup adds the controller to mgr.
func Setup(_ context.Context, mgr manager.Manager, charts Charts) error {
	r := New(mgr.GetClient(), charts, time.Now)
	return builder.ControllerManagedBy(mgr).Named(Name).For(&v1alpha1.ExtensionVersion{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: parallel}).Complete(r)
}

// Charts reads the chart of an ExtensionVersion. source.Loader is one.
type Charts interface {
	Load(ctx context.Context, v *v1alpha1.ExtensionVersion) ([]byte, error)
}

// New returns the reconciler.
func New(c client.Client, charts Charts, now func() time.Time) *Reconciler {
	return &Reconciler{client: c, charts: charts, now: now}
}

// Reconciler reconciles ExtensionVersions.
type Reconciler struct {
	client client.Client
	charts Charts
	now    func() time.Time

	failed polling.Memory[attempt]
}

// place is where a chart is; another one is tried at once.
type place struct{ url, namespace, name, key, digest, repository string }

func placeOf(s *v1alpha1.ExtensionVersionSpec) place {
	out := place{url: s.ChartURL, digest: s.Digest, repository: s.Repository}
	if ref := s.ChartDataRef; ref != nil {
		out.namespace, out.name, out.key = ref.Namespace, ref.Name, ref.Key
	}
	return out
}

// attempt is a read that failed.
type attempt struct {
	place place
	times int
	next  time.Time
}

// Reconcile reads the chart of one version, where it was not read yet.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	v := &v1alpha1.ExtensionVersion{}
	if err := r.client.Get(ctx, req.NamespacedName, v); err != nil {
		r.failed.Delete(req.Name)
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !v.DeletionTimestamp.IsZero() || isRead(v) {
		return reconcile.Result{}, nil
	}
	at := placeOf(&v.Spec)
	last, _ := r.failed.Get(v.Name)
	if last.place != at {
		last = attempt{place: at}
	}
	if wait := last.next.Sub(r.now()); wait > 0 { // the write of the condition brought it here
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	err := r.read(ctx, v)
	var failed *source.Failure
	if err == nil {
		r.failed.Delete(v.Name)
		return reconcile.Result{}, nil
	}
	if !errors.As(err, &failed) {
		return retry.OnConflict(0, err)
	}
	klog.V(2).InfoS("the chart of an extension can't be read", "version", v.Name, "error", failed, "cause", failed.Cause)
	wait := min(firstRetry<<min(last.times, 10), lastRetry)
	r.failed.Set(v.Name, attempt{place: at, times: last.times + 1, next: r.now().Add(wait)})
	return retry.OnConflict(wait, r.note(ctx, v.Name, failed))
}

// isRead reports whether spec says what the chart does.
func isRead(v *v1alpha1.ExtensionVersion) bool {
	return v.Spec.Digest != "" && v.Status.Digest == v.Spec.Digest &&
		meta.IsStatusConditionTrue(v.Status.Conditions, v1alpha1.ConditionChartRead)
}

// read reads the chart, and writes what it says.
func (r *Reconciler) read(ctx context.Context, v *v1alpha1.ExtensionVersion) error {
	reading, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	raw, err := r.charts.Load(reading, v)
	if err != nil {
		return err
	}
	archive, err := chart.Read(raw)
	if err != nil {
		return invalid(err)
	}
	is, err := archive.Extension()
	if err != nil {
		return invalid(err)
	}
	before := v.DeepCopy()
	if err := fill(v, is, archive); err != nil {
		return invalid(err)
	}
	if err := r.keepIcon(ctx, v, archive.Image(is.Icon)); err != nil {
		return err
	}
	v.Spec.Digest = chart.Digest(raw)
	v.Status.Digest = v.Spec.Digest
	meta.SetStatusCondition(&v.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionChartRead, Status: metav1.ConditionTrue,
		Reason: "Read", Message: "the chart was read"})
	if equality.Semantic.DeepEqual(before, v) {
		return nil
	}
	err = r.client.Patch(ctx, v, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsInvalid(err) {
		return invalid(fmt.Errorf("extension.yaml: what it says is not valid: %.500s", err.Error()))
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write what the chart of %s says: %w", v.Name, err)
	}
	return nil
}

// keepIcon keeps a large icon apart, in a ConfigMap that goes with the version: lists of extensions have a link to it.
func (r *Reconciler) keepIcon(ctx context.Context, v *v1alpha1.ExtensionVersion, image *chart.Image) error {
	if image == nil || len(v.Spec.Icon) <= chart.MaxInlineIcon {
		return nil
	}
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: extension.IconNamespace, Name: extension.IconName(v.Name),
		Labels: map[string]string{v1alpha1.LabelExtension: v.Labels[v1alpha1.LabelExtension]},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "ExtensionVersion", Name: v.Name,
			UID: v.UID}}}, BinaryData: map[string][]byte{extension.IconKey: image.Data}}
	err := r.client.Create(ctx, m)
	if apierrors.IsAlreadyExists(err) {
		err = r.client.Update(ctx, m)
	}
	if err != nil {
		return fmt.Errorf("keep the icon of %s: %w", v.Name, err)
	}
	v.Spec.Icon = extension.IconURL(v.Labels[v1alpha1.LabelExtension], image.Data, image.Suffix)
	return nil
}

func invalid(err error) *source.Failure {
	return &source.Failure{Reason: source.ReasonInvalid, Message: err.Error(), Cause: err}
}

// fill writes what a chart says into an ExtensionVersion, whose name has to be that of the chart.
func fill(v *v1alpha1.ExtensionVersion, is *chart.Extension, archive *chart.Archive) error {
	if of := v.Labels[v1alpha1.LabelExtension]; of != "" && of != is.Name || v.Spec.Version != "" && v.Spec.Version != is.Version ||
		v.Name != is.Name+"-"+is.Version {
		return fmt.Errorf("it is the chart of version %s of the extension %s: another one is expected here", is.Version, is.Name)
	}
	if v.Labels == nil {
		v.Labels = map[string]string{}
	}
	v.Labels[v1alpha1.LabelExtension] = is.Name
	if is.Category == "" {
		delete(v.Labels, v1alpha1.LabelCategory)
	} else {
		v.Labels[v1alpha1.LabelCategory] = is.Category
	}
	s := &v.Spec
	s.Version, s.Category, s.Keywords, s.Home, s.Docs, s.Sources = is.Version, is.Category, is.Keywords, is.Home, is.Docs, is.Sources
	s.DisplayName, s.Description, s.Provider, s.Icon = is.DisplayName, is.Description, is.Provider, archive.Icon(is.Icon)
	s.KubeVersion, s.KSVersion, s.Screenshots = is.KubeVersion, is.KSVersion, is.Screenshots
	s.InstallationMode, s.Namespace, s.ExternalDependencies = is.InstallationMode, is.Namespace, is.ExternalDependencies
	return nil
}

// note writes why a chart can't be read. What was read of another one before stays.
func (r *Reconciler) note(ctx context.Context, name string, failed *source.Failure) error {
	v := &v1alpha1.ExtensionVersion{}
	if err := r.client.Get(ctx, client.ObjectKey{Name: name}, v); err != nil {
		return client.IgnoreNotFound(err)
	}
	before := v.DeepCopy()
	if !meta.SetStatusCondition(&v.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionChartRead, Status: metav1.ConditionFalse,
		Reason: failed.Reason, Message: failed.Message}) {
		return nil
	}
	err := r.client.Patch(ctx, v, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("note that the chart of %s can't be read: %w", name, err)
	}
	return nil
}
