package installplan

import (
	"context"
	"errors"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/controller/extensionrelease"
	"kapis.dev/ks-apiserver/pkg/controller/installer"
	"kapis.dev/ks-apiserver/pkg/extension/permission"
	"kapis.dev/ks-apiserver/pkg/helm"
)

// removeAgain is when a removal that failed is tried again.
const removeAgain = time.Minute

// remove removes what a plan installed, and then lets it go. It needs neither the chart nor the version: the record of the release says
// what is its own.
func (r *Reconciler) remove(ctx context.Context, w *writer) (reconcile.Result, error) {
	plan, s := w.Object, &w.Object.Status.InstallationStatus
	if !controllerutil.ContainsFinalizer(plan, v1alpha1.FinalizerInstallPlan) {
		return reconcile.Result{}, nil
	}
	_, force := plan.Annotations[v1alpha1.AnnotationForceDelete]
	if !force {
		needed, err := extensionrelease.Requiring(ctx, r.Client, plan.Name)
		if err != nil {
			return reconcile.Result{}, err
		}
		if len(needed) > 0 {
			return reconcile.Result{}, waits(v1alpha1.ConditionUninstalled, "Required", "it is needed by %s: remove that first",
				strings.Join(needed, ", "))
		}
	}
	if err := (hostAgent{r}).remove(ctx, w, force); err != nil {
		enter(s, v1alpha1.StateUninstalling, r.Now())
		return reconcile.Result{}, err
	}
	if wait, err := (agents{r}).remove(ctx, plan, force); wait || err != nil {
		enter(s, v1alpha1.StateUninstalling, r.Now())
		return reconcile.Result{RequeueAfter: agentsAgain}, err
	}
	if s.TargetNamespace != "" {
		if s.State != v1alpha1.StateUninstalling {
			enter(s, v1alpha1.StateUninstalling, r.Now())
			if err := w.Write(ctx); err != nil {
				return reconcile.Result{}, err
			}
		}
		if !force {
			if err := (hooks{r}).beforeRemoval(ctx, w); err != nil {
				return reconcile.Result{}, err
			}
		}
		kept, err := r.uninstall(ctx, plan, force)
		if ctx.Err() != nil {
			return reconcile.Result{}, ctx.Err()
		}
		if err != nil && !force {
			enter(s, v1alpha1.StateUninstallFailed, r.Now())
			r.event(plan, corev1.EventTypeWarning, "UninstallFailed", err.Error())
			return reconcile.Result{}, waitsFor(removeAgain, v1alpha1.ConditionUninstalled, "Failed", "%v. The annotation %s removes the plan and "+
				"leaves what is installed", err, v1alpha1.AnnotationForceDelete)
		}
		if err != nil {
			klog.ErrorS(err, "an extension is removed by force, and its release is left", "installPlan", plan.Name)
		}
		if len(kept) > 0 {
			r.event(plan, corev1.EventTypeWarning, "Kept", "left in the cluster: "+strings.Join(kept, "; "))
		}
	}
	err := extensionrelease.HookNotes(r.Client, r.Live).Delete(ctx, noteName(plan))
	if err = errors.Join(err, (records{r}).kept().Delete(ctx, records{r}.name(plan))); err != nil {
		return reconcile.Result{}, err
	}
	enter(s, v1alpha1.StateUninstalled, r.Now())
	s.Version, s.ConfigHash = "", ""
	controllerutil.RemoveFinalizer(plan, v1alpha1.FinalizerInstallPlan)
	return reconcile.Result{}, nil
}

// forRemoval returns the rights by which a release is removed, and whether its hooks are left out.
func (r records) forRemoval(plan *v1alpha1.InstallPlan, known *extensionrelease.Note, found *helm.Result) (
	rights permission.Rights, skipHooks bool, err error) {
	if !known.Knows(found.Release) { // nobody's rights are used for what somebody else has written, or for what is half done
		r.event(plan, corev1.EventTypeWarning, "HooksSkipped",
			"the record of the release is not as it was noted: no hook of it is run, and what was noted is removed")
		return permission.ForRemoval(known.Own()), true, nil
	}
	objects, hooks, _, err := extensionrelease.Objects(r.Mapper, known.Namespace, found.Objects)
	if err != nil {
		return nil, false, err
	}
	rights = permission.ForRemoval(objects)
	// The chart is not asked for: its hooks get what every extension may do in its namespace.
	bound := permission.Bound{Namespace: known.Namespace, Rules: permission.NamespaceRules()}
	ofHooks, missing := bound.ForInstallation(hooks)
	if len(missing) > 0 {
		r.event(plan, corev1.EventTypeWarning, "HooksSkipped", "hooks of the chart need more than an extension may: "+permission.Listed(missing))
		return rights, true, nil
	}
	rights.Add(ofHooks)
	return rights, false, nil
}

// uninstall removes the release, and returns what was left of it.
func (r *Reconciler) uninstall(ctx context.Context, plan *v1alpha1.InstallPlan, force bool) (kept []string, err error) {
	namespace := plan.Status.TargetNamespace
	request, err := r.helmRequest(plan.Name, namespace)
	if err != nil {
		return nil, err
	}
	record := &record{}
	request.Operation = helm.Status
	found, err := r.Helm.Run(ctx, *request, record.note)
	var of *helm.Error
	if errors.As(err, &of) && of.Reason == helm.ReasonNotFound {
		if force {
			return nil, nil
		}
		return records{r}.removeNoted(ctx, plan)
	}
	if err != nil {
		return nil, err
	}
	request.HoldTo(found.Release)
	rights, left := permission.Rights{}, []permission.Object(nil)
	if request.SkipHooks = force; !force {
		known, err := (records{r}).kept().Noted(ctx, records{r}.name(plan), namespace)
		if err != nil {
			return nil, err
		}
		if rights, request.SkipHooks, err = (records{r}).forRemoval(plan, known, found); err != nil {
			return nil, err
		}
		if left, err = (records{r}).left(ctx, known, found); err != nil {
			return nil, err
		}
		rights.Add(permission.ForRemoval(left))
	}
	err = r.installers().While(ctx, plan.Name, rights, func() error {
		request.Operation, request.Orphan = helm.Uninstall, force
		result, err := r.Helm.Run(ctx, *request, record.note)
		if result != nil {
			kept = result.Kept
		}
		if err == nil {
			stays, failed := records{r}.removeOwn(ctx, plan.Name, namespace, left)
			kept, err = append(kept, stays...), failed
		}
		return err
	})
	if err != nil {
		return kept, err
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: installer.Account(plan.Name)}}
	return kept, client.IgnoreNotFound(r.Client.Delete(ctx, account))
}
