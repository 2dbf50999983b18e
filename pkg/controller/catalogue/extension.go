// Package catalogue makes the catalogue of extensions of their versions: an Extension for all versions of one, and the numbers of
// Extensions in each Category. It also protects what is installed from being deleted.
package catalogue

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/chart"
	"kapis.dev/ks-apiserver/pkg/controller/enqueue"
	"kapis.dev/ks-apiserver/pkg/controller/retry"
)

// The names of the controllers.
const (
	ExtensionName = "extension"
	CategoryName  = "extension-category"
)

// maxListed bounds the versions in the list of an Extension.
const maxListed = 1000

// Platform is what versions of extensions have to suit.
type Platform struct {
	// Kubernetes returns the version of the cluster.
	Kubernetes func(ctx context.Context) (string, error)
	// KubeSphere is the version of this platform.
	KubeSphere string
}

// SetupExtensions adds the controller of Extensions to mgr.
func SetupExtensions(_ context.Context, mgr manager.Manager, on Platform) error {
	r := &Extensions{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Platform: on}
	version := enqueue.ByLabel(v1alpha1.LabelExtension)
	return builder.ControllerManagedBy(mgr).Named(ExtensionName).For(&v1alpha1.Extension{}).
		Watches(&v1alpha1.ExtensionVersion{}, version).Watches(&v1alpha1.InstallPlan{}, &handler.EnqueueRequestForObject{}).Complete(r)
}

// Extensions reconciles Extensions: each is what its highest version says, with a list of all versions and the state of its InstallPlan.
type Extensions struct {
	Client client.Client
	// Live reads without a cache.
	Live     client.Reader
	Platform Platform
}

// Reconcile makes one Extension of its versions.
func (r *Extensions) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	if wrong := chart.CheckName(req.Name); wrong != nil { // what a label says is not the name of an extension
		return reconcile.Result{}, nil //nolint:nilerr // nothing can be done
	}
	all := &v1alpha1.ExtensionVersionList{}
	if err := r.Client.List(ctx, all, client.MatchingLabels{v1alpha1.LabelExtension: req.Name}); err != nil {
		return reconcile.Result{}, fmt.Errorf("list the versions of the extension %s: %w", req.Name, err)
	}
	versions := known(all.Items)
	plan := &v1alpha1.InstallPlan{}
	err := r.Client.Get(ctx, req.NamespacedName, plan)
	if client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("read the InstallPlan %s: %w", req.Name, err)
	}
	if err != nil {
		plan = nil
	}
	e := &v1alpha1.Extension{}
	err = r.Client.Get(ctx, req.NamespacedName, e)
	switch {
	case apierrors.IsNotFound(err):
		return retry.OnConflict(0, r.create(ctx, req.Name, versions, plan))
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("read the Extension %s: %w", req.Name, err)
	case !e.DeletionTimestamp.IsZero():
		return retry.OnConflict(0, r.removeFinalizer(ctx, e, plan))
	case len(all.Items) == 0 && plan == nil && e.Labels[v1alpha1.LabelRepository] != "":
		return retry.OnConflict(0, r.remove(ctx, e))
	}
	before := e.DeepCopy()
	if err := r.onto(ctx, e, versions, plan); err != nil {
		return reconcile.Result{}, err
	}
	if equality.Semantic.DeepEqual(before, e) {
		return reconcile.Result{}, nil
	}
	err = r.Client.Patch(ctx, e, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		err = fmt.Errorf("change the Extension %s: %w", e.Name, err)
	}
	return retry.OnConflict(0, client.IgnoreNotFound(err))
}

// known returns the versions whose chart was read once, the highest first.
func known(all []v1alpha1.ExtensionVersion) []*v1alpha1.ExtensionVersion {
	var out []*v1alpha1.ExtensionVersion
	for i := range all {
		v := &all[i]
		if _, ok := v.Is(); !ok || !v.DeletionTimestamp.IsZero() {
			continue
		}
		// An earlier installation has read charts, and notes no digest of them.
		if v.Status.Digest != "" || len(v.Spec.DisplayName) > 0 {
			out = append(out, v)
		}
	}
	slices.SortFunc(out, func(a, b *v1alpha1.ExtensionVersion) int { return chart.Compare(b.Spec.Version, a.Spec.Version) })
	return out
}

func (r *Extensions) create(ctx context.Context, name string, versions []*v1alpha1.ExtensionVersion, plan *v1alpha1.InstallPlan) error {
	if len(versions) == 0 {
		return nil
	}
	e := &v1alpha1.Extension{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := r.onto(ctx, e, versions, plan); err != nil {
		return err
	}
	if err := r.Client.Create(ctx, e); err != nil {
		return fmt.Errorf("create the Extension %s: %w", name, err)
	}
	return nil
}

// remove deletes an Extension that a repository brought, and of which there is no version any more.
func (r *Extensions) remove(ctx context.Context, e *v1alpha1.Extension) error {
	err := r.Live.Get(ctx, client.ObjectKeyFromObject(e), &v1alpha1.InstallPlan{})
	if !apierrors.IsNotFound(err) {
		return err // the plan that is there is in the cache soon
	}
	left := &v1alpha1.ExtensionVersionList{}
	err = r.Live.List(ctx, left, client.MatchingLabels{v1alpha1.LabelExtension: e.Name}, client.Limit(1))
	if err != nil || len(left.Items) > 0 {
		return err
	}
	version := e.ResourceVersion
	err = r.Client.Delete(ctx, e, client.Preconditions{UID: &e.UID, ResourceVersion: &version})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete the Extension %s: %w", e.Name, err)
	}
	return nil
}

// removeFinalizer removes the finalizer of an earlier installation, where nothing is installed.
func (r *Extensions) removeFinalizer(ctx context.Context, e *v1alpha1.Extension, plan *v1alpha1.InstallPlan) error {
	before := e.DeepCopy()
	if plan != nil || !controllerutil.RemoveFinalizer(e, v1alpha1.FinalizerExtension) {
		return nil
	}
	err := r.Client.Patch(ctx, e, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("release the Extension %s: %w", e.Name, err)
	}
	return nil
}

// onto writes into an Extension what its versions and its plan say.
func (r *Extensions) onto(ctx context.Context, e *v1alpha1.Extension, versions []*v1alpha1.ExtensionVersion,
	plan *v1alpha1.InstallPlan) error {
	s := &e.Status
	s.Versions, s.RecommendedVersion = nil, ""
	if len(versions) > 0 {
		highest := versions[0]
		e.Spec.ExtensionInfo = highest.Spec.DeepCopy().ExtensionInfo
		if e.Labels == nil {
			e.Labels = map[string]string{}
		}
		for _, key := range []string{v1alpha1.LabelRepository, v1alpha1.LabelCategory} {
			if value := highest.Labels[key]; value != "" {
				e.Labels[key] = value
			} else {
				delete(e.Labels, key)
			}
		}
		kubernetes, err := r.Platform.Kubernetes(ctx)
		if err != nil {
			return err
		}
		for _, v := range versions[:min(len(versions), maxListed)] {
			s.Versions = append(s.Versions, v1alpha1.VersionInfo{Version: v.Spec.Version, CreationTimestamp: v.Spec.Created.DeepCopy()})
			if s.RecommendedVersion == "" && chart.Allows(v.Spec.KubeVersion, kubernetes) && chart.Allows(v.Spec.KSVersion, r.Platform.KubeSphere) {
				s.RecommendedVersion = v.Spec.Version
			}
		}
	}
	copyState(s, plan)
	return nil
}

// copyState writes the state of a plan into the status of its Extension; nil is no plan.
func copyState(s *v1alpha1.ExtensionStatus, plan *v1alpha1.InstallPlan) {
	if plan == nil {
		plan = &v1alpha1.InstallPlan{}
	}
	s.State, s.Enabled, s.InstalledVersion = plan.Status.State, plan.Status.Enabled, plan.Status.Version
	s.PlannedInstallVersion, s.Conditions = plan.Spec.Extension.Version, plan.Status.DeepCopy().Conditions
	s.ClusterSchedulingStatuses = nil
	for name, in := range plan.Status.DeepCopy().ClusterSchedulingStatuses {
		if s.ClusterSchedulingStatuses == nil {
			s.ClusterSchedulingStatuses = map[string]v1alpha1.InstallationStatus{}
		}
		in.StateHistory = nil // pages read all Extensions at once, and this of the plan
		s.ClusterSchedulingStatuses[name] = in
	}
}
