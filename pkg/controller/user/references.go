package user

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
	"kapis.dev/ks-apiserver/pkg/controller/crd"
)

// userField is the index of objects by the users that they name.
const userField = "kapis.dev/user"

// referenceKind is a kind whose objects name users.
type referenceKind struct {
	kind   string
	object client.Object
	list   func() client.ObjectList
}

func referenceKinds() []referenceKind {
	return []referenceKind{
		{"GlobalRoleBinding", &iamv1beta1.GlobalRoleBinding{}, func() client.ObjectList { return &iamv1beta1.GlobalRoleBindingList{} }},
		{"WorkspaceRoleBinding", &iamv1beta1.WorkspaceRoleBinding{}, func() client.ObjectList { return &iamv1beta1.WorkspaceRoleBindingList{} }},
		{"ClusterRoleBinding", &iamv1beta1.ClusterRoleBinding{}, func() client.ObjectList { return &iamv1beta1.ClusterRoleBindingList{} }},
		{"RoleBinding", &iamv1beta1.RoleBinding{}, func() client.ObjectList { return &iamv1beta1.RoleBindingList{} }},
		{"GroupBinding", &iamv1beta1.GroupBinding{}, func() client.ObjectList { return &iamv1beta1.GroupBindingList{} }},
		{"WorkspaceTemplate", &tenantv1beta1.WorkspaceTemplate{}, func() client.ObjectList { return &tenantv1beta1.WorkspaceTemplateList{} }},
		{"Workspace", &tenantv1beta1.Workspace{}, func() client.ObjectList { return &tenantv1beta1.WorkspaceList{} }},
	}
}

// UserIndex is the index function of all referenceKinds: the names of the users that an object names.
func UserIndex(o client.Object) []string {
	if g, ok := o.(*iamv1beta1.GroupBinding); ok {
		return slices.Compact(slices.Sorted(slices.Values(g.Users)))
	}
	if m := managerIn(o); m != nil {
		return slices.DeleteFunc([]string{*m}, func(name string) bool { return name == "" })
	}
	var names []string
	for _, s := range *iamv1beta1.SubjectsOf(o) {
		if isUser(&s, s.Name) {
			names = append(names, s.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// managerIn returns a pointer to the name of a workspace's manager; nil if the object is no workspace.
func managerIn(o client.Object) *string {
	switch w := o.(type) {
	case *tenantv1beta1.WorkspaceTemplate:
		return &w.Spec.Template.Spec.Manager
	case *tenantv1beta1.Workspace:
		return &w.Spec.Manager
	}
	return nil
}

// without removes a user from an object, and reports whether the object still names anyone.
func without(o client.Object, user string) (left bool) {
	if g, ok := o.(*iamv1beta1.GroupBinding); ok {
		g.Users = slices.DeleteFunc(g.Users, func(name string) bool { return name == user })
		return len(g.Users) > 0
	}
	if m := managerIn(o); m != nil {
		*m = ""
		return true // a workspace may have no manager
	}
	s := iamv1beta1.SubjectsOf(o)
	*s = slices.DeleteFunc(*s, func(s rbacv1.Subject) bool { return isUser(&s, user) })
	return len(*s) > 0
}

// forget removes a user from every object that names it. A binding without other subjects is deleted. So are the records of the user's
// logins, which a new user of this name would see as their own.
func (r *Reconciler) forget(ctx context.Context, user string) error {
	for _, h := range referenceKinds() {
		list, err := r.naming(ctx, h, user)
		if err != nil {
			return fmt.Errorf("list what names user %q: %w", user, err)
		}
		if err := meta.EachListItem(list, func(o runtime.Object) error {
			return r.forgetIn(ctx, o.(client.Object), user)
		}); err != nil {
			return fmt.Errorf("take user %q out of a %s: %w", user, h.kind, err)
		}
	}
	if err := r.forgetCreator(ctx, user); err != nil {
		return fmt.Errorf("take user %q out of the namespaces that wait for their first roles: %w", user, err)
	}
	if len(validation.IsValidLabelValue(user)) > 0 {
		return nil // there are no records of such a user
	}
	err := r.Client.DeleteAllOf(ctx, &iamv1beta1.LoginRecord{}, client.MatchingLabels{iamv1beta1.LabelUserReference: user})
	if err != nil && !crd.Missing(err) {
		return fmt.Errorf("delete the records of the logins of user %q: %w", user, err)
	}
	return nil
}

// annotationInitialized says that the creator of a namespace was bound once, or will not be; controller/namespace writes it.
const annotationInitialized = "kapis.dev/initialized"

// forgetCreator removes the user from the namespaces whose creator may still be given a role: another user of this name did not create
// them. For all others the annotation is a note, which stays.
func (r *Reconciler) forgetCreator(ctx context.Context, user string) error {
	kind := corev1.SchemeGroupVersion.WithKind("Namespace")
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err := r.Client.List(ctx, list); err != nil {
		return fmt.Errorf("list namespaces: %w", err)
	}
	for i := range list.Items {
		ns := &list.Items[i]
		if ns.Annotations[tenantv1beta1.AnnotationCreator] != user || ns.Annotations[annotationInitialized] != "" {
			continue
		}
		ns.SetGroupVersionKind(kind)
		before := ns.DeepCopy()
		delete(ns.Annotations, tenantv1beta1.AnnotationCreator)
		err := r.Client.Patch(ctx, ns, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("write namespace %q: %w", ns.Name, err)
		}
	}
	return nil
}

// naming lists the objects of a kind that may name the user, from the cache if it has the kind.
func (r *Reconciler) naming(ctx context.Context, h referenceKind, user string) (client.ObjectList, error) {
	list := h.list()
	if slices.Contains(r.indexed, h.kind) {
		return list, r.Client.List(ctx, list, client.MatchingFields{userField: user})
	}
	if err := r.Live.List(ctx, list); !crd.Missing(err) {
		return list, err
	}
	return h.list(), nil
}

func (r *Reconciler) forgetIn(ctx context.Context, o client.Object, user string) error {
	if !slices.Contains(UserIndex(o), user) || !o.GetDeletionTimestamp().IsZero() {
		return nil
	}
	before := o.DeepCopyObject().(client.Object)
	if without(o, user) {
		return client.IgnoreNotFound(r.Client.Patch(ctx, o, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})))
	}
	uid, version := before.GetUID(), before.GetResourceVersion()
	return client.IgnoreNotFound(r.Client.Delete(ctx, before, client.Preconditions{UID: &uid, ResourceVersion: &version}))
}
