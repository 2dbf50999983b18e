package workspace

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	applicationv2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
	"kapis.dev/ks-apiserver/pkg/controller/crd"
)

// grace is the age from which a role or binding of a missing workspace is deleted: a user who applies files in any order
// may create the workspace last.
const grace = time.Minute

// annotationInitialized says that the creator of a namespace was bound once; controller/namespace writes it.
const annotationInitialized = "kapis.dev/initialized"

// finalize removes the rights that the workspace gave to users, then its relation to its namespaces, and then the finalizer. If the
// definition of workspaces is being deleted, and with it every workspace, this workspace was not meant: then roles, bindings and
// namespaces stay as they are, and a recreated workspace of that name has them again.
func (r *Reconciler) finalize(ctx context.Context, w *tenantv1beta1.Workspace) (again time.Duration, err error) {
	if !controllerutil.ContainsFinalizer(w, tenantv1beta1.FinalizerCascadingDeletion) {
		return 0, nil
	}
	going, err := crd.Going(ctx, r.Live, definition)
	if err != nil {
		return 0, err
	}
	if !going {
		survives, err := r.survives(ctx, w)
		if err != nil {
			return 0, err
		}
		if !survives {
			if err := DeleteHeld(ctx, r.Client, r.Live, w.Name); err != nil {
				return 0, err
			}
		}
		going, bound, err := r.releaseNamespaces(ctx, w, !survives)
		if err != nil {
			return 0, err
		}
		if bound > 0 || going > 0 && w.Annotations[tenantv1beta1.AnnotationDeletionPropagation] == string(metav1.DeletePropagationForeground) {
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

// survives reports whether the template that made a Workspace stays: then the Workspace only leaves this cluster, or is created again, and
// its members keep their roles.
func (r *Reconciler) survives(ctx context.Context, w *tenantv1beta1.Workspace) (bool, error) {
	uid := w.Annotations[tenantv1beta1.AnnotationTemplateUID]
	if uid == "" {
		return false, nil
	}
	t := &tenantv1beta1.WorkspaceTemplate{}
	err := r.Live.Get(ctx, types.NamespacedName{Name: w.Name}, t)
	switch {
	case err == nil:
		return string(t.UID) == uid && t.DeletionTimestamp.IsZero(), nil
	case crd.Missing(err):
		return false, nil
	}
	return false, fmt.Errorf("look for the template of workspace %q: %w", w.Name, err)
}

// held returns the kinds whose objects belong to a workspace by its label, in the order in which they are deleted: bindings
// first, since they give the rights.
func held() []schema.GroupVersionKind {
	var out []schema.GroupVersionKind
	for _, kind := range []string{"WorkspaceRoleBinding", "GroupBinding", "WorkspaceRole", "Group"} {
		out = append(out, iamv1beta1.SchemeGroupVersion.WithKind(kind))
	}
	return append(out, schema.GroupVersionKind{Group: "quota.kubesphere.io", Version: "v1alpha2", Kind: "ResourceQuota"})
}

// inStore are the kinds of the application store whose objects are of the workspace that their label names.
var inStore = [...]struct{ kind, plural string }{
	{"Repo", "repos"}, {"Application", "applications"}, {"ApplicationVersion", "applicationversions"},
	{"ApplicationRelease", "applicationreleases"},
}

// InStore returns the plural of a kind of the application store of which an object has the label of a workspace, "" where none has. It
// reads without a cache: who makes a workspace of that name has these objects.
func InStore(ctx context.Context, live client.Reader, workspace string) (plural string, err error) {
	for _, k := range inStore {
		items, err := labelled(ctx, live, applicationv2.SchemeGroupVersion.WithKind(k.kind), workspace, client.Limit(1))
		if err != nil {
			return "", err
		}
		if len(items) > 0 {
			return k.plural, nil
		}
	}
	return "", nil
}

// labelled lists the metadata of the objects of a kind that have the label of a workspace, without the cache: a new object must not
// be missed. A missing kind has none.
func labelled(ctx context.Context, live client.Reader, kind schema.GroupVersionKind, workspace string, more ...client.ListOption,
) ([]metav1.PartialObjectMetadata, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	err := live.List(ctx, list, append(more, client.MatchingLabels{tenantv1beta1.LabelWorkspace: workspace})...)
	if err != nil && !crd.Missing(err) {
		return nil, fmt.Errorf("list every %s of workspace %q: %w", kind.Kind, workspace, err)
	}
	for i := range list.Items {
		list.Items[i].SetGroupVersionKind(kind)
	}
	return list.Items, nil
}

// DeleteHeld deletes the roles, bindings, groups and quotas with the label of a workspace, each in the version that had the label: if one
// was given to another workspace meanwhile, that is a conflict, and an error. live reads without a cache.
func DeleteHeld(ctx context.Context, c client.Client, live client.Reader, workspace string) error {
	for _, kind := range held() {
		items, err := labelled(ctx, live, kind, workspace)
		if err != nil {
			return err
		}
		for i := range items {
			if err := deleteSeen(ctx, c, &items[i]); err != nil {
				return fmt.Errorf("delete %s %q with its workspace %q: %w", kind.Kind, items[i].Name, workspace, err)
			}
		}
	}
	return nil
}

// deleteSeen deletes an object in the version that was read. It is no error if the object is gone or being deleted.
func deleteSeen(ctx context.Context, c client.Client, o client.Object) error {
	if !o.GetDeletionTimestamp().IsZero() {
		return nil
	}
	uid, version := o.GetUID(), o.GetResourceVersion()
	return client.IgnoreNotFound(c.Delete(ctx, o, client.Preconditions{UID: &uid, ResourceVersion: &version}))
}

// releaseNamespaces deletes the namespaces of the workspace if that was requested, and otherwise removes their label. It returns how
// many are going, and how many stay in it for now, because they had members. They are read without the cache, since a new one must not be
// missed. System namespaces stay in their workspace: without the label, managers of workspaces could add them to their own. With ends, the
// workspace is gone for good, and so are its members' roles in the namespaces that stay.
func (r *Reconciler) releaseNamespaces(ctx context.Context, w *tenantv1beta1.Workspace, ends bool) (going, bound int, err error) {
	if w.Name == tenantv1beta1.SystemWorkspace {
		return 0, 0, nil
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NamespaceList"))
	if err := r.Live.List(ctx, list, client.MatchingLabels{tenantv1beta1.LabelWorkspace: w.Name}); err != nil {
		return 0, 0, fmt.Errorf("list the namespaces of workspace %q: %w", w.Name, err)
	}
	for i := range list.Items {
		ns := &list.Items[i]
		ns.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
		switch {
		case cascades(w) && !ns.DeletionTimestamp.IsZero():
			going++
		case cascades(w) && !protected(ns):
			going++
			if err := deleteSeen(ctx, r.Client, ns); err != nil { // in a conflict it may have been moved or protected meanwhile
				return 0, 0, fmt.Errorf("delete namespace %q with its workspace: %w", ns.Name, err)
			}
		default:
			released, err := r.release(ctx, ns, ends && !tenantv1beta1.IsSystemNamespace(ns.Name))
			if err != nil {
				return 0, 0, err
			}
			if !released {
				bound++
			} else if cascades(w) {
				r.Events.Eventf(w, nil, corev1.EventTypeNormal, "NamespaceKept", "Delete",
					"The system needs the namespace %s, or it is protected: it stays, in no workspace.", ns.Name)
			}
		}
	}
	return going, bound, nil
}

// cascades reports whether the namespaces are deleted with the workspace: only if that was requested.
func cascades(w *tenantv1beta1.Workspace) bool {
	switch metav1.DeletionPropagation(w.Annotations[tenantv1beta1.AnnotationDeletionPropagation]) {
	case metav1.DeletePropagationBackground, metav1.DeletePropagationForeground:
		return true
	}
	return false
}

// protected reports whether a namespace must never be deleted with a workspace.
func protected(ns client.Object) bool {
	_, marked := ns.GetLabels()[tenantv1beta1.LabelProtectedResource]
	return marked || tenantv1beta1.IsSystemNamespace(ns.GetName())
}

// release removes a namespace from its workspace. With ends, its bindings are deleted first: the workspace that takes it in decides who
// its members are, and its new creator is bound as that of a new namespace, so the record of the former one is removed as well. A namespace
// that had members is released by a later call, which finds none: they may have bound themselves again while they were removed, and nobody
// is bound any more once the escalation check knows that the workspace is being deleted.
func (r *Reconciler) release(ctx context.Context, ns *metav1.PartialObjectMetadata, ends bool) (released bool, err error) {
	before := ns.DeepCopy()
	if ends {
		if members, err := r.unbind(ctx, ns.Name); members || err != nil {
			return false, err
		}
		delete(ns.Annotations, annotationInitialized)
		delete(ns.Annotations, tenantv1beta1.AnnotationCreator)
	}
	delete(ns.Labels, tenantv1beta1.LabelWorkspace)
	err = r.Client.Patch(ctx, ns, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("take namespace %q out of its workspace: %w", ns.Name, err)
	}
	return true, nil
}

// unbind deletes the iam bindings of a namespace, and reports whether any bound somebody else than a service account of it: those are
// bound again for as long as their annotation says so. One that is being deleted binds nobody, whatever holds it. They are read without the
// cache, since a new one must not be missed.
func (r *Reconciler) unbind(ctx context.Context, namespace string) (members bool, err error) {
	list := &iamv1beta1.RoleBindingList{}
	if err := r.Live.List(ctx, list, client.InNamespace(namespace)); err != nil && !crd.Missing(err) {
		return false, fmt.Errorf("list the bindings of namespace %q: %w", namespace, err)
	}
	for i := range list.Items {
		b := &list.Items[i]
		members = members || b.DeletionTimestamp.IsZero() && slices.ContainsFunc(b.Subjects, func(s rbacv1.Subject) bool {
			return s.Kind != rbacv1.ServiceAccountKind || s.Namespace != namespace
		})
		if err := deleteSeen(ctx, r.Client, b); err != nil {
			return false, fmt.Errorf("delete the binding %q of namespace %q with its workspace: %w", b.Name, namespace, err)
		}
	}
	return members, nil
}

// sweep deletes the roles, bindings, groups and quotas of a workspace that was deleted without its finalizer (S9): in a new workspace
// of the same name no one must have rights from before. They stay while the workspace may come (back): for a minute, while there is a
// template of it, and while the definition of workspaces or of templates does not exist. The manager's binding goes at once: if the
// workspace comes back, so does the binding.
func (r *Reconciler) sweep(ctx context.Context, name string) (again time.Duration, err error) {
	for _, o := range []client.Object{&tenantv1beta1.Workspace{}, &tenantv1beta1.WorkspaceTemplate{}} {
		switch err := r.Live.Get(ctx, types.NamespacedName{Name: name}, o); {
		case err == nil:
			return 0, nil // an event will follow
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
		left, err := labelled(ctx, r.Live, kind, name)
		if err != nil {
			return 0, err
		}
		for i := range left {
			o := &left[i]
			ofManager := o.Name == name+adminSuffix && o.Annotations[AnnotationManager] == name
			if wait := o.CreationTimestamp.Add(grace).Sub(r.Now()); wait > 0 && !ofManager {
				again = max(again, wait)
				continue
			}
			if err := deleteSeen(ctx, r.Client, o); err != nil && !apierrors.IsConflict(err) {
				return 0, fmt.Errorf("delete %s %q, which workspace %q left: %w", kind.Kind, o.GetName(), name, err)
			}
		}
	}
	return again, nil
}
