package mirror

import (
	"context"
	"fmt"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/controller/aggregation"
)

const (
	// RoleField is the cache's index of iam bindings by the name of their role; see Kind.RoleIndex.
	RoleField = "kapis.dev/role"
	// workers is how many roles of one kind are reconciled at a time. They mostly wait for kube-apiserver.
	workers = 8
)

// Kind has the differences between the kinds of iam roles.
type Kind struct {
	// Name is the kind, such as "GlobalRole", and Scope the scope label of its templates.
	Name, Scope string
	// New returns an empty role, NewList an empty list of them.
	New     func() client.Object
	NewList func() client.ObjectList
	// Fields returns the fields of a role that aggregation reads and writes.
	Fields func(role client.Object) aggregation.Role
	// NewBinding returns an empty binding, NewBindingList an empty list of them.
	NewBinding     func() client.Object
	NewBindingList func() client.ObjectList
	// Bound returns the role and the subjects of a binding.
	Bound func(binding client.Object) (rbacv1.RoleRef, []rbacv1.Subject)
	// NativeScope returns where kube-apiserver has to know the role, and by which names.
	NativeScope func(ctx context.Context, c client.Reader, role client.Object) (NativeScope, error)
	// Native are the kinds of native objects that mirror the role.
	Native []client.Object
	// Indexes are the indexes that Place and Watches use.
	Indexes []FieldIndex
	// Watches are the other kinds whose changes may change a role's place.
	Watches []Watch
	// RoleFinalizer and BindingFinalizer are finalizers of an older installation, which only this controller removes.
	RoleFinalizer, BindingFinalizer string
}

// FieldIndex is an index of the cache.
type FieldIndex struct {
	Object client.Object
	Field  string
	Of     client.IndexerFunc
}

// Watch says which roles are affected by a change of an object.
type Watch struct {
	// Object has the watched kind; only its metadata is read.
	Object client.Object
	// Roles returns the keys of the roles.
	Roles func(ctx context.Context, c client.Reader, o client.Object) []types.NamespacedName
}

// NativeScope says where kube-apiserver knows a role, and by which names. The zero value is nowhere.
type NativeScope struct {
	// Name is the name of the native role and binding, and ConditionalName that of a role with a condition.
	Name, ConditionalName string
	// Group is the synthetic group of a role without a condition, and ConditionalGroup that of a role with one.
	Group, ConditionalGroup string
	// Workspace is the role's workspace; empty if it has none.
	Workspace string
	// Everywhere binds the role in the whole cluster; otherwise it is bound in Namespaces.
	Everywhere bool
	Namespaces []string
	// Own makes a native Role in each of the namespaces, instead of one ClusterRole for all.
	Own bool
	// Admit reports whether a binding counts. Nil accepts all.
	Admit func(binding client.Object) bool
}

// Controller returns the name of the controller of a kind, such as "globalrole".
func (k Kind) Controller() string { return strings.ToLower(k.Name) }

// Setup adds a controller for the roles of a kind to mgr.
func Setup(ctx context.Context, mgr manager.Manager, kind Kind, writer *Writer, lag *Lag) error {
	if err := mgr.GetFieldIndexer().IndexField(ctx, kind.NewBinding(), RoleField, kind.RoleIndex); err != nil {
		return fmt.Errorf("index the bindings of %s by their role: %w", kind.Name, err)
	}
	for _, i := range kind.Indexes {
		if err := mgr.GetFieldIndexer().IndexField(ctx, i.Object, i.Field, i.Of); err != nil {
			return fmt.Errorf("index %T for %s: %w", i.Object, kind.Name, err)
		}
	}
	c := mgr.GetClient()
	b := builder.ControllerManagedBy(mgr).Named(kind.Controller()).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Watches(kind.New(), lag.handler(kind.Name, self)).
		Watches(kind.NewBinding(), lag.handler(kind.Name, kind.roleOf)).
		Watches(&iamv1beta1.RoleTemplate{}, lag.handler(kind.Name, kind.madeOf(c)))
	for _, o := range kind.Native {
		b = b.Watches(o, lag.handler(kind.Name, kind.mirrored))
	}
	for _, w := range kind.Watches {
		b = b.WatchesMetadata(w.Object, lag.handler(kind.Name, func(ctx context.Context, o client.Object) []types.NamespacedName {
			return w.Roles(ctx, c, o)
		}))
	}
	return b.Complete(&Reconciler{Kind: kind, Client: c, Writer: writer, Lag: lag})
}

// RoleIndex is the index function of a kind's bindings. A binding that names a role of another kind or API group is
// ignored, as ks-apiserver ignores it.
func (k Kind) RoleIndex(binding client.Object) []string {
	ref, _ := k.Bound(binding)
	if ref.Kind != k.Name || ref.APIGroup != "" && ref.APIGroup != iamv1beta1.GroupName {
		return nil
	}
	return []string{ref.Name}
}

func self(_ context.Context, o client.Object) []types.NamespacedName {
	return []types.NamespacedName{client.ObjectKeyFromObject(o)}
}

// roleOf returns the role of a binding.
func (k Kind) roleOf(_ context.Context, binding client.Object) []types.NamespacedName {
	var keys []types.NamespacedName
	for _, name := range k.RoleIndex(binding) {
		keys = append(keys, types.NamespacedName{Namespace: binding.GetNamespace(), Name: name})
	}
	return keys
}

// mirrored returns the role that a native object mirrors, if it is of this kind.
func (k Kind) mirrored(_ context.Context, native client.Object) []types.NamespacedName {
	for _, source := range SourceIndex(native) {
		if key, ok := keyOf(k.Name, source); ok {
			return []types.NamespacedName{key}
		}
	}
	return nil
}

// madeOf returns the roles that a change of a template may affect: those of its scope that use templates. An event has
// the template before and after, so that none is missed.
func (k Kind) madeOf(c client.Reader) func(context.Context, client.Object) []types.NamespacedName {
	return func(ctx context.Context, template client.Object) []types.NamespacedName {
		if template.GetLabels()[iamv1beta1.LabelScope] != k.Scope {
			return nil
		}
		roles := k.NewList()
		if err := c.List(ctx, roles, client.UnsafeDisableDeepCopy); err != nil {
			klog.ErrorS(err, "Can't list the roles that a template's change touches", "kind", k.Name, "template", template.GetName())
			return nil
		}
		var keys []types.NamespacedName
		_ = meta.EachListItem(roles, func(o runtime.Object) error { // the function returns no error
			if role := o.(client.Object); aggregation.Wanted(k.Fields(role)) {
				keys = append(keys, client.ObjectKeyFromObject(role))
			}
			return nil
		})
		return keys
	}
}
