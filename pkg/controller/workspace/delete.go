package workspace

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
	"kapis.dev/ks-apiserver/pkg/controller/crd"
)

// grace is how old a role or binding of a workspace that is not there has to be before it goes: who applies files in any
// order may bring the workspace last.
const grace = time.Minute

// finalize ends what the workspace gave to people, then what it has to do with its namespaces, and then lets it go. Nobody has asked for
// the end of this workspace where its definition, and so every workspace, is being deleted: then roles, bindings and namespaces stay as
// they are, and a workspace of that name that comes back has them again.
func (r *Reconciler) finalize(ctx context.Context, w *tenantv1beta1.Workspace) (again time.Duration, err error) {
	if !controllerutil.ContainsFinalizer(w, tenantv1beta1.FinalizerCascadingDeletion) {
		return 0, nil
	}
	going, err := crd.Going(ctx, r.Live, definition)
	if err != nil {
		return 0, err
	}
	if !going {
		if err := r.deleteHeld(ctx, w.Name); err != nil {
			return 0, err
		}
		left, err := r.part(ctx, w)
		if err != nil {
			return 0, err
		}
		if left > 0 && w.Annotations[tenantv1beta1.AnnotationDeletionPropagation] == string(metav1.DeletePropagationForeground) {
			return goingRetry, nil
		}
	}
	before := w.DeepCopy()
	controllerutil.RemoveFinalizer(w, tenantv1beta1.FinalizerCascadingDeletion)
	err = r.Client.Patch(ctx, w, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return 0, fmt.Errorf("let workspace %q go: %w", w.Name, err)
	}
	return 0, nil
}

// held are the kinds whose objects belong to a workspace by its label, in the order in which they go: bindings first, since
// they are what people's rights hang on.
func held() []schema.GroupVersionKind {
	var out []schema.GroupVersionKind
	for _, kind := range []string{"WorkspaceRoleBinding", "GroupBinding", "WorkspaceRole", "Group"} {
		out = append(out, iamv1beta1.SchemeGroupVersion.WithKind(kind))
	}
	return append(out, schema.GroupVersionKind{Group: "quota.kubesphere.io", Version: "v1alpha2", Kind: "ResourceQuota"})
}

// labelled lists the metadata of the objects of a kind that carry the label of a workspace, read past the cache: one that was made a
// moment ago is not to be forgotten. A kind that is not there has none.
func (r *Reconciler) labelled(ctx context.Context, kind schema.GroupVersionKind, workspace string) ([]metav1.PartialObjectMetadata, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	err := r.Live.List(ctx, list, client.MatchingLabels{tenantv1beta1.LabelWorkspace: workspace})
	if err != nil && !crd.Missing(err) {
		return nil, fmt.Errorf("list every %s of workspace %q: %w", kind.Kind, workspace, err)
	}
	for i := range list.Items {
		list.Items[i].SetGroupVersionKind(kind)
	}
	return list.Items, nil
}

// deleteHeld deletes what carries the label of a workspace, each object in the version that carried it: one that was given to another
// workspace meanwhile is a conflict, and the workspace is looked at again.
func (r *Reconciler) deleteHeld(ctx context.Context, workspace string) error {
	for _, kind := range held() {
		items, err := r.labelled(ctx, kind, workspace)
		if err != nil {
			return err
		}
		for i := range items {
			if err := r.deleteSeen(ctx, &items[i]); err != nil {
				return fmt.Errorf("delete %s %q with its workspace %q: %w", kind.Kind, items[i].Name, workspace, err)
			}
		}
	}
	return nil
}

// deleteSeen deletes an object in the version that was seen. One that is gone or going needs no more.
func (r *Reconciler) deleteSeen(ctx context.Context, o client.Object) error {
	if !o.GetDeletionTimestamp().IsZero() {
		return nil
	}
	uid, version := o.GetUID(), o.GetResourceVersion()
	return client.IgnoreNotFound(r.Client.Delete(ctx, o, client.Preconditions{UID: &uid, ResourceVersion: &version}))
}

// part deletes the namespaces of the workspace where that was asked for, and takes the label off the others. It says how
// many there were. They are read past the cache: one that was born a moment ago is not to be forgotten. The
// system's stay in its workspace: without the label, whoever manages workspaces could take them into his own.
func (r *Reconciler) part(ctx context.Context, w *tenantv1beta1.Workspace) (int, error) {
	if w.Name == tenantv1beta1.SystemWorkspace {
		return 0, nil
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NamespaceList"))
	if err := r.Live.List(ctx, list, client.MatchingLabels{tenantv1beta1.LabelWorkspace: w.Name}); err != nil {
		return 0, fmt.Errorf("list the namespaces of workspace %q: %w", w.Name, err)
	}
	going := 0
	for i := range list.Items {
		ns := &list.Items[i]
		ns.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
		switch {
		case cascades(w) && !ns.DeletionTimestamp.IsZero():
			going++
		case cascades(w) && !protected(ns):
			going++
			if err := r.Client.Delete(ctx, ns, client.Preconditions{UID: &ns.UID}); client.IgnoreNotFound(err) != nil {
				return 0, fmt.Errorf("delete namespace %q with its workspace: %w", ns.Name, err)
			}
		default:
			if cascades(w) {
				r.Events.Eventf(w, nil, corev1.EventTypeNormal, "NamespaceKept", "Delete",
					"The system needs the namespace %s, or it is protected: it stays, in no workspace.", ns.Name)
			}
			if err := r.release(ctx, ns); err != nil {
				return 0, err
			}
		}
	}
	return going, nil
}

// cascades says whether the namespaces go with the workspace: only where somebody asked for it.
func cascades(w *tenantv1beta1.Workspace) bool {
	switch metav1.DeletionPropagation(w.Annotations[tenantv1beta1.AnnotationDeletionPropagation]) {
	case metav1.DeletePropagationBackground, metav1.DeletePropagationForeground:
		return true
	}
	return false
}

// protected says whether a namespace may never be deleted along with anything.
func protected(ns client.Object) bool {
	_, marked := ns.GetLabels()[tenantv1beta1.LabelProtectedResource]
	return marked || tenantv1beta1.IsSystemNamespace(ns.GetName())
}

// release takes a namespace out of its workspace.
func (r *Reconciler) release(ctx context.Context, ns *metav1.PartialObjectMetadata) error {
	before := ns.DeepCopy()
	delete(ns.Labels, tenantv1beta1.LabelWorkspace)
	err := r.Client.Patch(ctx, ns, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("take namespace %q out of its workspace: %w", ns.Name, err)
	}
	return nil
}

// sweep deletes the roles, bindings, groups and quotas that a workspace has left behind which went without its finalizer (S9):
// somebody who makes a workspace of the same name must not find that others have rights in it. They stay while the workspace
// may come (back): for a minute, while there is a template of it, and while the definition of workspaces or of templates is not there.
func (r *Reconciler) sweep(ctx context.Context, name string) (again time.Duration, err error) {
	for _, o := range []client.Object{&tenantv1beta1.Workspace{}, &tenantv1beta1.WorkspaceTemplate{}} {
		switch err := r.Live.Get(ctx, types.NamespacedName{Name: name}, o); {
		case err == nil:
			return 0, nil // an event is on its way
		case !crd.Missing(err):
			return 0, fmt.Errorf("look for workspace %q: %w", name, err)
		}
	}
	for _, d := range []string{definition, templateDefinition} {
		if going, err := crd.Going(ctx, r.Live, d); err != nil {
			return 0, err
		} else if going {
			return grace, nil
		}
	}
	for _, kind := range held() {
		left, err := r.labelled(ctx, kind, name)
		if err != nil {
			return 0, err
		}
		for i := range left {
			o := &left[i]
			if wait := o.GetCreationTimestamp().Add(grace).Sub(r.Now()); wait > 0 {
				again = max(again, wait)
				continue
			}
			if err := r.deleteSeen(ctx, o); err != nil && !apierrors.IsConflict(err) {
				return 0, fmt.Errorf("delete %s %q, which workspace %q left behind: %w", kind.Kind, o.GetName(), name, err)
			}
		}
	}
	return again, nil
}
