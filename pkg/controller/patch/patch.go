// Package patch writes what a controller changes of an object in the course of one reconciliation.
package patch

import (
	"context"
	"fmt"
	"reflect"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Writer writes what has changed of Object since the last write, as merge patches. They have no lock on the version: an operation takes
// minutes, in which people change what they ask for, and what came of it must not be lost by that.
type Writer[T client.Object] struct {
	// Object is what the controller changes.
	Object T
	client client.Client
	stored T
	fold   func(ctx context.Context) error
}

// New returns a writer of what is changed of o from now on.
func New[T client.Object](c client.Client, o T) *Writer[T] {
	return &Writer[T]{Object: o, client: c, stored: copyOf(o)}
}

// Folded returns a writer of an object that is stored as a part of another one: fold copies o into that, and writes it.
func Folded[T client.Object](o T, fold func(ctx context.Context) error) *Writer[T] {
	return &Writer[T]{Object: o, fold: fold}
}

// Write writes all changes, for kinds whose status is no subresource.
func (w *Writer[T]) Write(ctx context.Context) error {
	if w.fold != nil {
		return w.fold(ctx)
	}
	return w.write("state", func(o T) error { return w.client.Patch(ctx, o, client.MergeFrom(w.stored)) })
}

// WriteStatus writes changes of the status, for kinds whose status is a subresource. Nothing else may have changed.
func (w *Writer[T]) WriteStatus(ctx context.Context) error {
	return w.write("state", func(o T) error { return w.client.Status().Patch(ctx, o, client.MergeFrom(w.stored)) })
}

// WriteFinalizers writes changes of the finalizers. It fails with a conflict where the object has changed meanwhile, since a merge patch
// replaces the whole list.
func (w *Writer[T]) WriteFinalizers(ctx context.Context) error {
	return w.write("finalizers", func(o T) error {
		return w.client.Patch(ctx, o, client.MergeFromWithOptions(w.stored, client.MergeFromWithOptimisticLock{}))
	})
}

// write sends what has changed, if anything has. An object that is gone is no error.
func (w *Writer[T]) write(what string, send func(o T) error) error {
	changes, err := client.MergeFrom(w.stored).Data(w.Object)
	if err == nil && string(changes) == "{}" {
		return nil
	}
	answer := copyOf(w.Object)
	if err == nil {
		err = send(answer)
	}
	if err != nil {
		kind := reflect.TypeOf(w.Object).Elem().Name()
		return client.IgnoreNotFound(fmt.Errorf("write the %s of the %s %s: %w", what, kind, w.Object.GetName(), err))
	}
	w.Object.SetResourceVersion(answer.GetResourceVersion())
	w.stored = copyOf(w.Object) // and not answer, which has what people ask for by now: what is written next would take that back
	return nil
}

func copyOf[T client.Object](o T) T {
	return o.DeepCopyObject().(T) //nolint:forcetypeassert // a copy is of the same type
}
