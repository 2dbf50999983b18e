// Package group reconciles Groups: it writes a user's groups by GroupBindings into User.spec.groups, and removes a
// deleted group from all bindings.
package group

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
	"kapis.dev/ks-apiserver/pkg/controller/crd"
	"kapis.dev/ks-apiserver/pkg/controller/retry"
)

const (
	// Name is the controller's name.
	Name = "group"

	definition = "groups.iam.kubesphere.io"
	// groupField is the index of bindings by the groups that they name, boundField that of GroupBindings by their group, and
	// userField that by their users.
	groupField = "group.kapis.dev/subject"
	boundField = "group.kapis.dev/group"
	userField  = "group.kapis.dev/user"
	workers    = 2
)

// Setup adds the controllers of groups and of their members to mgr.
func Setup(ctx context.Context, mgr manager.Manager) error {
	for _, o := range bindings() {
		if err := mgr.GetFieldIndexer().IndexField(ctx, o.empty, groupField, groupsOf); err != nil {
			return fmt.Errorf("index %T by group: %w", o.empty, err)
		}
	}
	for field, of := range map[string]client.IndexerFunc{boundField: boundGroup, userField: boundUsers} {
		if err := mgr.GetFieldIndexer().IndexField(ctx, &iamv1beta1.GroupBinding{}, field, of); err != nil {
			return fmt.Errorf("index group bindings by %s: %w", field, err)
		}
	}
	r := &Reconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader()}
	err := builder.ControllerManagedBy(mgr).Named(Name).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		For(&iamv1beta1.Group{}).
		Watches(&iamv1beta1.GroupBinding{}, handler.EnqueueRequestsFromMapFunc(toGroup)).
		Complete(r)
	if err != nil {
		return err
	}
	return setupMembers(mgr)
}

// Reconciler reconciles Groups.
type Reconciler struct {
	// Client reads from the cache and writes. Live reads without the cache.
	Client client.Client
	Live   client.Reader
}

// Reconcile updates one group.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	return retry.OnConflict(0, client.IgnoreNotFound(r.sync(ctx, req.Name)))
}

func (r *Reconciler) sync(ctx context.Context, name string) error {
	if err := r.letGo(ctx, name); err != nil {
		return err
	}
	g := &iamv1beta1.Group{}
	if err := r.Client.Get(ctx, types.NamespacedName{Name: name}, g); err != nil {
		return client.IgnoreNotFound(err)
	}
	before := g.DeepCopy()
	if g.DeletionTimestamp.IsZero() {
		disowned := crd.DropWorkspaceOwners(g)
		if added := controllerutil.AddFinalizer(g, iamv1beta1.FinalizerGroup); !added && !disowned {
			return nil
		}
		return r.patch(ctx, g, before)
	}
	if !controllerutil.ContainsFinalizer(g, iamv1beta1.FinalizerGroup) {
		return nil
	}
	going, err := crd.Going(ctx, r.Live, definition)
	if err != nil {
		return err
	}
	if !going {
		if err := r.forget(ctx, name, g.Labels[tenantv1beta1.LabelWorkspace]); err != nil {
			return err
		}
	}
	controllerutil.RemoveFinalizer(g, iamv1beta1.FinalizerGroup)
	return r.patch(ctx, g, before)
}

func (r *Reconciler) patch(ctx context.Context, o, before client.Object) error {
	err := r.Client.Patch(ctx, o, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write %q, which is or names a group: %w", o.GetName(), err)
	}
	return nil
}

// letGo removes what older installations put on bindings of the group: workspaces as owners, and the finalizer of deleted bindings.
func (r *Reconciler) letGo(ctx context.Context, group string) error {
	list := &iamv1beta1.GroupBindingList{}
	if err := r.Client.List(ctx, list, client.MatchingFields{boundField: group}); err != nil {
		return fmt.Errorf("list the bindings of group %q: %w", group, err)
	}
	for i := range list.Items {
		b := &list.Items[i]
		before := b.DeepCopy()
		changed := crd.DropWorkspaceOwners(b)
		if !b.DeletionTimestamp.IsZero() && controllerutil.RemoveFinalizer(b, iamv1beta1.FinalizerGroupBinding) {
			changed = true
		}
		if !changed {
			continue
		}
		if err := r.patch(ctx, b, before); err != nil {
			return err
		}
	}
	return nil
}

// bindingKind is a kind whose objects name groups.
type bindingKind struct {
	empty client.Object
	list  func() client.ObjectList
}

func bindings() []bindingKind {
	return []bindingKind{
		{&iamv1beta1.GlobalRoleBinding{}, func() client.ObjectList { return &iamv1beta1.GlobalRoleBindingList{} }},
		{&iamv1beta1.WorkspaceRoleBinding{}, func() client.ObjectList { return &iamv1beta1.WorkspaceRoleBindingList{} }},
		{&iamv1beta1.ClusterRoleBinding{}, func() client.ObjectList { return &iamv1beta1.ClusterRoleBindingList{} }},
		{&iamv1beta1.RoleBinding{}, func() client.ObjectList { return &iamv1beta1.RoleBindingList{} }},
	}
}

// forget removes a group from every binding that names it; a binding without other subjects is deleted (S9: a recreated group must not
// get the rights of its predecessor). A group of a workspace is bound there: bindings elsewhere mean a group of an identity provider.
func (r *Reconciler) forget(ctx context.Context, group, workspace string) error {
	named := func(s rbacv1.Subject) bool { return s.Kind == rbacv1.GroupKind && s.Name == group }
	for _, kind := range bindings() {
		list := kind.list()
		if err := r.Client.List(ctx, list, client.MatchingFields{groupField: group}); err != nil {
			return fmt.Errorf("list what names group %q: %w", group, err)
		}
		if err := meta.EachListItem(list, func(item runtime.Object) error {
			o := item.(client.Object)
			if means, err := r.means(ctx, workspace, o); !means || err != nil {
				return err
			}
			before := o.DeepCopyObject().(client.Object)
			s := iamv1beta1.SubjectsOf(o)
			*s = slices.DeleteFunc(*s, named)
			if len(*s) > 0 {
				return r.patch(ctx, o, before)
			}
			return r.remove(ctx, before)
		}); err != nil {
			return err
		}
	}
	list := &iamv1beta1.GroupBindingList{}
	if err := r.Client.List(ctx, list, client.MatchingFields{boundField: group}); err != nil {
		return fmt.Errorf("list the bindings of group %q: %w", group, err)
	}
	for i := range list.Items {
		if err := r.remove(ctx, &list.Items[i]); err != nil {
			return err
		}
	}
	return nil
}

// means reports whether a binding that names a group of a workspace ("" for none) means that group: it is in the workspace, or in one of
// its namespaces. A namespace without a workspace may have left this one a moment ago, when the workspace was deleted.
func (r *Reconciler) means(ctx context.Context, workspace string, binding client.Object) (bool, error) {
	if workspace == "" {
		return true, nil
	}
	switch binding.(type) {
	case *iamv1beta1.WorkspaceRoleBinding:
		return binding.GetLabels()[tenantv1beta1.LabelWorkspace] == workspace, nil
	case *iamv1beta1.RoleBinding:
		ns := &metav1.PartialObjectMetadata{}
		ns.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
		err := r.Client.Get(ctx, types.NamespacedName{Name: binding.GetNamespace()}, ns)
		if client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("see which workspace the namespace %q is in: %w", binding.GetNamespace(), err)
		}
		of := ns.GetLabels()[tenantv1beta1.LabelWorkspace]
		return of == "" || of == workspace, nil
	}
	return false, nil
}

func (r *Reconciler) remove(ctx context.Context, o client.Object) error {
	uid, version := o.GetUID(), o.GetResourceVersion()
	err := r.Client.Delete(ctx, o, client.Preconditions{UID: &uid, ResourceVersion: &version})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete %q, which names a group that goes: %w", o.GetName(), err)
	}
	return nil
}

// groupsOf is the index function of groupField.
func groupsOf(o client.Object) []string {
	var out []string
	for _, s := range *iamv1beta1.SubjectsOf(o) {
		if s.Kind == rbacv1.GroupKind {
			out = append(out, s.Name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// boundGroup is the index function of boundField.
func boundGroup(o client.Object) []string {
	if name := o.(*iamv1beta1.GroupBinding).GroupRef.Name; name != "" {
		return []string{name}
	}
	return nil
}

// boundUsers is the index function of userField.
func boundUsers(o client.Object) []string {
	return slices.Compact(slices.Sorted(slices.Values(o.(*iamv1beta1.GroupBinding).Users)))
}

func toGroup(_ context.Context, o client.Object) []reconcile.Request {
	var out []reconcile.Request
	for _, name := range boundGroup(o) {
		out = append(out, reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
	}
	return out
}
