package installplan

import (
	"context"
	"errors"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/chart"
	"kapis.dev/ks-apiserver/pkg/controller/extensionrelease"
	"kapis.dev/ks-apiserver/pkg/controller/retry"
	"kapis.dev/ks-apiserver/pkg/extension/permission"
	"kapis.dev/ks-apiserver/pkg/helm"
)

// maxName bounds the name of a user in a message, in bytes.
const maxName = 253

// install installs, upgrades, enables or disables an extension.
func (r *Reconciler) install(ctx context.Context, w *writer) (reconcile.Result, error) {
	s := &w.Object.Status.InstallationStatus
	if s.State == "" {
		enter(s, v1alpha1.StatePreparing, r.Now())
	}
	do := r.update
	previews := w.Object.Annotations[v1alpha1.AnnotationPreview] != ""
	if previews {
		do = r.preview
	} else {
		endPreview(w.Object)
		if err := (records{r}).adopt(ctx, w.Object); err != nil {
			return reconcile.Result{}, err
		}
	}
	result, err := do(ctx, w)
	// What it waits for is noted here: joined with what fails below, it would be taken for all that there is.
	again, err := noted(s, err, r.Now())
	if isInstalled(s) { // what runs goes on, whatever keeps it from being changed
		if result.RequeueAfter != observeAfter { // else it was applied a moment ago
			err = errors.Join(err, r.observe(ctx, w.Object))
		}
		if !previews {
			err = errors.Join(err, r.setEnabled(ctx, w.Object))
			ofAgent, failed := hostAgent{r}.update(ctx, w)
			again, err = sooner(again, ofAgent), errors.Join(err, failed)
		}
	}
	result.RequeueAfter = sooner(result.RequeueAfter, again)
	return result, err
}

// update installs or upgrades what a plan asks for, unless that has been done.
func (r *Reconciler) update(ctx context.Context, w *writer) (reconcile.Result, error) {
	want, err := r.choose(ctx, w.Object)
	if err != nil {
		return reconcile.Result{}, err
	}
	last := w.Object.Annotations[v1alpha1.AnnotationOperation]
	if adopts(w.Object, want) || last == want.formerID() && w.Object.Status.State == v1alpha1.StateInstalled {
		metav1.SetMetaDataAnnotation(&w.Object.ObjectMeta, v1alpha1.AnnotationOperation, want.id())
	}
	if want.isDone() {
		r.settled(&w.Object.Status.InstallationStatus)
		return reconcile.Result{RequeueAfter: want.again}, nil
	}
	if wait := r.failures.Wait(w.Object.Name, want.attempt(), r.Now()); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	if err := r.prepare(ctx, want); err != nil {
		return reconcile.Result{}, err
	}
	return r.operate(ctx, w, want)
}

// settled takes back what was said of a change that has been taken back.
func (r *Reconciler) settled(s *v1alpha1.InstallationStatus) {
	for _, c := range []string{v1alpha1.ConditionApproved, v1alpha1.ConditionDependenciesMet, v1alpha1.ConditionInitialized} {
		if meta.IsStatusConditionFalse(s.Conditions, c) {
			say(s, c, true, "Settled", "what the plan asks for has been done", r.Now())
		}
	}
}

// adopts reports whether what a plan asks for was installed before operations were noted.
func adopts(plan *v1alpha1.InstallPlan, want *wanted) bool {
	s := &plan.Status
	return plan.Annotations[v1alpha1.AnnotationOperation] == "" && s.State == v1alpha1.StateInstalled &&
		s.Version == want.version.Spec.Version && s.ConfigHash == chart.ConfigHash(plan.Spec.Config)
}

// prepare finds everything that an operation needs.
func (r *Reconciler) prepare(ctx context.Context, want *wanted) error {
	plan := want.plan
	s := &plan.Status.InstallationStatus
	if err := (records{r}).stays(ctx, want); err != nil {
		return err
	}
	if err := r.readApproved(ctx, want); err != nil {
		return err
	}
	say(s, v1alpha1.ConditionApproved, true, "Approved", "approved by "+plan.Annotations[v1alpha1.AnnotationApprovedBy], r.Now())
	if err := r.dependencies(ctx, plan, want.version); err != nil {
		return err
	}
	say(s, v1alpha1.ConditionDependenciesMet, true, "Met", "all extensions that it needs are installed", r.Now())
	m, err := want.archive.Metadata()
	if err != nil {
		return chartBroken(err)
	}
	if want.values, err = extensionrelease.Values(plan.Spec.Config, m, want.settings, want.to); err != nil {
		return waits(v1alpha1.ConditionInitialized, "InvalidConfig", "%v", err)
	}
	if err := r.namespace(ctx, plan, want.namespace); err != nil {
		return err
	}
	say(s, v1alpha1.ConditionInitialized, true, "Initialized", "everything is there that the installation needs", r.Now())
	return nil
}

// choose returns what is to be installed: the recommended version for a plan that follows it, if what that may do is what was approved, and
// otherwise the version that the plan names.
func (r *Reconciler) choose(ctx context.Context, plan *v1alpha1.InstallPlan) (*wanted, error) {
	if r.onHub { // the version of the extension that runs on the hub
		return r.find(ctx, plan, plan.Spec.Extension.Version)
	}
	s := &plan.Status.InstallationStatus
	recommended, err := r.recommended(ctx, plan)
	if err != nil {
		return nil, err
	}
	version, again := plan.Spec.Extension.Version, time.Duration(0)
	if plan.Spec.UpgradeStrategy == v1alpha1.UpgradeAutomatic && chart.Compare(s.Version, version) > 0 {
		version = s.Version // an earlier recommendation has been followed
	}
	if recommended != "" && recommended != version {
		want, err := r.find(ctx, plan, recommended)
		// One that was done, or has failed, needs no chart: events read none, and one that can't be read changes nothing.
		if err == nil && !want.isDone() && r.failures.Wait(plan.Name, want.attempt(), r.Now()) == 0 {
			err = r.readApproved(ctx, want)
		}
		if err == nil {
			meta.RemoveStatusCondition(&s.Conditions, v1alpha1.ConditionUpgradeAvailable)
			return want, nil
		}
		why, ok := asWaiting(err)
		if !ok {
			return nil, err
		}
		say(s, v1alpha1.ConditionUpgradeAvailable, true, why.reason, "version "+recommended+": "+why.message, r.Now())
		again = why.again
	} else {
		meta.RemoveStatusCondition(&s.Conditions, v1alpha1.ConditionUpgradeAvailable)
	}
	want, err := r.find(ctx, plan, version)
	if err != nil {
		return nil, err
	}
	want.again = again
	return want, nil
}

// recommended returns the version that a plan with the strategy Automatic follows: the recommended one, if it is higher than what runs and
// has the same major version; "" for none.
func (r *Reconciler) recommended(ctx context.Context, plan *v1alpha1.InstallPlan) (string, error) {
	if plan.Spec.UpgradeStrategy != v1alpha1.UpgradeAutomatic {
		return "", nil
	}
	e := &v1alpha1.Extension{}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: plan.Name}, e); err != nil {
		return "", client.IgnoreNotFound(err)
	}
	of := plan.Spec.Extension.Version
	if runs := plan.Status.Version; chart.Compare(runs, of) > 0 {
		of = runs
	}
	if next := e.Status.RecommendedVersion; next != "" && chart.Compare(next, of) >= 0 && major(next) == major(of) {
		return next, nil
	}
	return "", nil
}

func major(version string) string {
	m, _, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	return m
}

// find finds a version, and what is asked for of it.
func (r *Reconciler) find(ctx context.Context, plan *v1alpha1.InstallPlan, version string) (*wanted, error) {
	v := &v1alpha1.ExtensionVersion{}
	err := r.Client.Get(ctx, client.ObjectKey{Name: v1alpha1.ExtensionVersionName(plan.Name, version)}, v)
	if is, ok := v.Is(); apierrors.IsNotFound(err) || err == nil && (!ok || is != plan.Name) {
		return nil, waits(v1alpha1.ConditionInitialized, "VersionNotFound", "there is no version %.64q of the extension %q", version, plan.Name)
	}
	if err != nil {
		return nil, err
	}
	want := &wanted{plan: plan, version: v, namespace: permission.NamespaceOf(v), settings: &r.Settings, to: destinationOf(r, plan)}
	want.secret, err = extensionrelease.SecretValuesOf(ctx, r.Live, plan.Name, want.namespace)
	if several := (*extensionrelease.SeveralSecretsError)(nil); errors.As(err, &several) {
		err = waits(v1alpha1.ConditionInitialized, "InvalidConfig", "%v", several)
	}
	return want, err
}

func chartBroken(err error) error {
	return waits(v1alpha1.ConditionInitialized, "ChartBroken", "the chart is not valid: %v", err)
}

// operate applies what is wanted, and notes what came of it.
func (r *Reconciler) operate(ctx context.Context, w *writer, want *wanted) (reconcile.Result, error) {
	s := &w.Object.Status.InstallationStatus
	before, failed := isInstalled(s), v1alpha1.StateInstallFailed
	state, condition := v1alpha1.StateInstalling, v1alpha1.ConditionInstalled
	if before {
		state, condition, failed = v1alpha1.StateUpgrading, v1alpha1.ConditionUpgraded, v1alpha1.StateUpgradeFailed
	}
	enter(s, state, r.Now())
	s.ReleaseName, s.TargetNamespace, s.JobName = r.release(w.Object.Name), want.namespace, ""
	if hook, err := (hooks{r}).of(want); err == nil && hook != nil {
		s.JobName = hook.Name // whose log pages show
	}
	if err := w.Write(ctx); err != nil {
		return reconcile.Result{}, err
	}
	record := &record{}
	result, err := r.apply(ctx, want, record)
	if err != nil || !result.Unchanged { // else an earlier attempt did it, whose log stays
		if logged := r.writeLog(ctx, want.namespace, w.Object.Name, record); logged != nil {
			klog.ErrorS(logged, "write the log of an operation", "installPlan", w.Object.Name)
		}
	}
	if ctx.Err() != nil { // the program stops: the next one does it again
		return reconcile.Result{}, ctx.Err()
	}
	if err != nil {
		enter(s, failed, r.Now())
		return r.failed(w.Object, condition, want.attempt(), result, err), nil
	}
	r.succeeded(w.Object, want, condition)
	metav1.SetMetaDataAnnotation(&w.Object.ObjectMeta, v1alpha1.AnnotationOperation, want.id())
	return reconcile.Result{RequeueAfter: observeAfter}, nil
}

// succeeded notes what is installed.
func (r *Reconciler) succeeded(plan *v1alpha1.InstallPlan, want *wanted, condition string) {
	s := &plan.Status.InstallationStatus
	s.Version, s.ConfigHash = want.version.Spec.Version, chart.ConfigHash(plan.Spec.Config)
	message := "version " + s.Version + " is installed"
	say(s, v1alpha1.ConditionReady, false, "Applied", "it was applied a moment ago", r.Now())
	say(s, v1alpha1.ConditionInstalled, true, "Installed", message, r.Now())
	if condition == v1alpha1.ConditionUpgraded {
		say(s, condition, true, "Upgraded", message, r.Now())
	}
	meta.RemoveStatusCondition(&s.Conditions, v1alpha1.ConditionRolledBack)
	enter(s, v1alpha1.StateInstalled, r.Now())
	r.failures.Forget(plan.Name)
	r.event(plan, corev1.EventTypeNormal, condition, message)
}

// failed notes why an operation failed, and returns when it is done again: a few times if it may succeed then, and otherwise when the plan
// asks for something else.
func (r *Reconciler) failed(plan *v1alpha1.InstallPlan, condition, id string, result *helm.Result, err error) reconcile.Result {
	s := &plan.Status.InstallationStatus
	// kube-apiserver refused the rights, or was away.
	reason, transient := "Failed", true
	var of *helm.Error
	if errors.As(err, &of) {
		// It has all rights that it needs: one that it is refused is not known yet to one of kube-apiserver's replicas.
		reason, transient = string(of.Reason), of.Transient || of.Reason == helm.ReasonForbidden
	}
	say(s, condition, false, reason, err.Error(), r.Now())
	if result != nil && result.RolledBack {
		say(s, v1alpha1.ConditionRolledBack, true, reason, "the upgrade failed, and version "+s.Version+" runs again", r.Now())
	}
	r.event(plan, corev1.EventTypeWarning, reason, err.Error())
	after := retry.Operation
	if !transient {
		after = nil
	}
	again := r.failures.Again(plan.Name, id, after, r.Now())
	if again == 0 {
		metav1.SetMetaDataAnnotation(&plan.ObjectMeta, v1alpha1.AnnotationOperation, id)
	}
	return reconcile.Result{RequeueAfter: again}
}

func (r *Reconciler) event(plan *v1alpha1.InstallPlan, kind, reason, message string) {
	const most = 1000 // of an event's note, in bytes
	r.Events.Eventf(plan, nil, kind, reason, "Install", "%s", helm.Clip(message, most))
}
