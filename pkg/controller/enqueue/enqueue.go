// Package enqueue says which objects are reconciled because another one has changed.
package enqueue

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Named returns the requests for the cluster-scoped objects of these names; empty names are left out.
func Named(names ...string) []reconcile.Request {
	var out []reconcile.Request
	for _, name := range names {
		if name != "" {
			out = append(out, reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
		}
	}
	return out
}

// ByLabel returns a handler that reconciles the cluster-scoped object that a label of the changed one names, if it has that label.
func ByLabel(key string) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
		return Named(o.GetLabels()[key])
	})
}

// ListedByLabel returns a handler that reconciles the cluster-scoped objects, of the kind of a list, whose label names the changed one.
func ListedByLabel(c client.Reader, list client.ObjectList, key string) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) (out []reconcile.Request) {
		all := list.DeepCopyObject().(client.ObjectList) //nolint:forcetypeassert // a copy is of the same type
		err := c.List(ctx, all, client.MatchingLabels{key: o.GetName()})
		if err == nil {
			err = meta.EachListItem(all, func(item runtime.Object) error {
				is, err := meta.Accessor(item)
				if err == nil {
					out = append(out, Named(is.GetName())...)
				}
				return err
			})
		}
		if err != nil {
			klog.ErrorS(err, "list the objects that are reconciled because another one has changed", "label", key, "value", o.GetName())
		}
		return out
	})
}
