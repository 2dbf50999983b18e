// Package informer watches the few objects of a kind from which a component reads something, mostly Secrets and ConfigMaps.
package informer

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// Client lists and watches the objects of one kind, as each client of client-go does. L is the type of its lists.
type Client[L runtime.Object] interface {
	List(ctx context.Context, o metav1.ListOptions) (L, error)
	Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error)
}

// Handler is called with the events of an informer, one call at a time.
type Handler[T metav1.Object] struct {
	// Set gets an object that is new, or may have changed. Delete gets the name of an object that is gone, or no longer selected.
	Set    func(T)
	Delete func(namespace, name string)
	// Listed is called in the place of Set for the objects of a complete list, which may be older than what was known: a backup of etcd
	// was restored. nil means Set.
	Listed func(T)
	// Synced is called once, after the first list was passed to Set; nil for no call.
	Synced func()
}

// Run calls h for the objects that the selectors of which select, until ctx ends.
func Run[T metav1.Object, L runtime.Object](ctx context.Context, client Client[L], which metav1.ListOptions, h Handler[T]) {
	restrict := func(o metav1.ListOptions) metav1.ListOptions {
		o.LabelSelector, o.FieldSelector = which.LabelSelector, which.FieldSelector
		return o
	}
	source := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return client.List(ctx, restrict(o))
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return client.Watch(ctx, restrict(o))
		},
	}, client)
	var kind T
	name := which.LabelSelector + which.FieldSelector
	cache.NewReflectorWithOptions(AfterOutages(source), kind, NewStore(h), cache.ReflectorOptions{Name: name}).RunWithContext(ctx)
}

// Store is the cache.ReflectorStore that calls a Handler. Unlike that of an informer of client-go, it stores only the names of objects.
type Store[T metav1.Object] struct {
	handler Handler[T]
	known   map[types.NamespacedName]bool
	synced  bool
}

// NewStore returns a Store that knows of no object.
func NewStore[T metav1.Object](h Handler[T]) *Store[T] {
	return &Store[T]{handler: h, known: map[types.NamespacedName]bool{}}
}

// Add implements cache.ReflectorStore.
func (s *Store[T]) Add(o any) error { return s.Update(o) }

// Update implements cache.ReflectorStore.
func (s *Store[T]) Update(o any) error {
	if object, ok := o.(T); ok {
		s.known[nameOf(object)] = true
		s.handler.Set(object)
	}
	return nil
}

// Delete implements cache.ReflectorStore.
func (s *Store[T]) Delete(o any) error {
	if object, ok := o.(T); ok {
		s.forget(nameOf(object))
	}
	return nil
}

func (s *Store[T]) forget(name types.NamespacedName) {
	delete(s.known, name)
	s.handler.Delete(name.Namespace, name.Name)
}

// Replace implements cache.ReflectorStore.
func (s *Store[T]) Replace(list []any, _ string) error {
	listed := make(map[types.NamespacedName]bool, len(list))
	for _, o := range list {
		object, ok := o.(T)
		if !ok {
			continue
		}
		listed[nameOf(object)], s.known[nameOf(object)] = true, true
		if s.handler.Listed != nil {
			s.handler.Listed(object)
		} else {
			s.handler.Set(object)
		}
	}
	for name := range s.known {
		if !listed[name] {
			s.forget(name)
		}
	}
	if !s.synced && s.handler.Synced != nil {
		s.handler.Synced()
	}
	s.synced = true
	return nil
}

// Resync implements cache.ReflectorStore.
func (s *Store[T]) Resync() error { return nil }

func nameOf(o metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}
