package enqueue

import (
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// AfterStart ignores the objects that exist when the program starts, for controllers that reconcile everything then anyway.
func AfterStart() predicate.Predicate {
	return predicate.Funcs{CreateFunc: func(e event.CreateEvent) bool { return !e.IsInInitialList }}
}

// OnCreationOrDeletion ignores updates, other than the one by which a deletion begins.
func OnCreationOrDeletion() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetDeletionTimestamp().IsZero() != e.ObjectNew.GetDeletionTimestamp().IsZero()
	}}
}

// OnComingOrGoing ignores updates. gone is called with each object that is deleted; nil for nothing.
func OnComingOrGoing(gone func(client.Object)) predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(event.UpdateEvent) bool { return false },
		DeleteFunc: func(e event.DeleteEvent) bool {
			if gone != nil {
				gone(e.Object)
			}
			return true
		},
	}
}

// OnDeletion ignores everything but that an object is gone, also where another one has its name by now: a watch that was interrupted tells
// of both as of one change.
func OnDeletion() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		UpdateFunc:  func(e event.UpdateEvent) bool { return e.ObjectOld.GetUID() != e.ObjectNew.GetUID() },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}
