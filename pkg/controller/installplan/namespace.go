package installplan

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
)

// labelManaged marks namespaces that the platform manages.
const labelManaged = "kubesphere.io/managed"

// namespace makes the namespace of a release. One that is there is left alone unless it is the platform's: whoever administers it reads
// what the extension has in it, and runs pods as the extension's service accounts.
func (r *Reconciler) namespace(ctx context.Context, plan *v1alpha1.InstallPlan, name string) error {
	is := &corev1.Namespace{}
	err := r.Client.Get(ctx, client.ObjectKey{Name: name}, is)
	switch {
	case apierrors.IsNotFound(err):
		is = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			tenantv1beta1.LabelWorkspace: tenantv1beta1.SystemWorkspace, labelManaged: "true", v1alpha1.LabelExtension: plan.Name}}}
		if err := r.Client.Create(ctx, is); err != nil {
			return fmt.Errorf("make the namespace of the extension %s: %w", plan.Name, err)
		}
		return nil
	case err != nil:
		return err
	case !is.DeletionTimestamp.IsZero():
		return waitsFor(chartAgain, v1alpha1.ConditionInitialized, "NamespaceTerminating", "the namespace %s is being deleted", name)
	}
	var lacks []string
	if name == v1alpha1.ExtensionNamespace(plan.Name) && is.Labels[v1alpha1.LabelExtension] != plan.Name {
		lacks = append(lacks, v1alpha1.LabelExtension+"="+plan.Name)
	}
	if !isOfPlatform(is) && !runsIn(plan, is) {
		lacks = append(lacks, tenantv1beta1.LabelWorkspace+"="+tenantv1beta1.SystemWorkspace)
	}
	if len(lacks) == 0 {
		return nil
	}
	return waitsFor(chartAgain, v1alpha1.ConditionInitialized, "NamespaceTaken",
		"there is a namespace %s, and it is not this extension's: it has not the label %s", name, strings.Join(lacks, ", nor "))
}

// isOfPlatform reports whether only administrators of the platform have rights in a namespace, as far as its workspace says it, which only
// they can change. One in no workspace may be what a workspace has left that was deleted, with pods and native bindings of its former
// members; but not where its name is the system's, which no member of a workspace can choose.
func isOfPlatform(is *corev1.Namespace) bool {
	of := is.Labels[tenantv1beta1.LabelWorkspace]
	return of == tenantv1beta1.SystemWorkspace || of == "" && tenantv1beta1.IsSystemNamespace(is.Name)
}

// runsIn reports whether the extension of a plan runs in this very namespace: that goes on, also where an administrator has moved it into
// another workspace since. One that was made after the installation is another one with its name.
func runsIn(plan *v1alpha1.InstallPlan, is *corev1.Namespace) bool {
	s := &plan.Status.InstallationStatus
	since := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionInstalled)
	return isInstalled(s) && s.TargetNamespace == is.Name && (since == nil || !since.LastTransitionTime.Before(&is.CreationTimestamp))
}
