// Package enqueue says which objects are reconciled because another one has changed.
package enqueue

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
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
