package feed

import (
	"slices"

	"kapis.dev/ks-apiserver/pkg/store/index"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

// EventBatch is changes of objects that arrived together, in their order. To the reflector it is one change of one object:
// the resource version of the last is how far the watch has come.
type EventBatch []watch.Event

// GetObjectKind returns no kind: the reflector of a kind does not ask for it.
func (b *EventBatch) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject returns b, which does not change.
func (b *EventBatch) DeepCopyObject() runtime.Object { return b }

// GetObjectMeta returns the metadata that a reflector reads.
func (b *EventBatch) GetObjectMeta() metav1.Object {
	return (*b)[len(*b)-1].Object.(*index.Decoded).GetObjectMeta()
}

// batchOf returns the first of the events, or one that stands for it and those after it, and how many these are.
func batchOf(events []watch.Event) (watch.Event, int) {
	n := slices.IndexFunc(events, func(e watch.Event) bool {
		return e.Type != watch.Added && e.Type != watch.Modified && e.Type != watch.Deleted
	})
	if n < 0 {
		n = len(events)
	}
	if n < 2 {
		return events[0], 1
	}
	b := EventBatch(slices.Clone(events[:n]))
	return watch.Event{Type: watch.Modified, Object: &b}, n
}

// Changes calls yield with each object, and whether it is gone.
func (b *EventBatch) Changes(yield func(o *index.Incoming, gone bool) bool) {
	for _, e := range *b {
		if !yield(e.Object.(*index.Decoded).Incoming, e.Type == watch.Deleted) {
			return
		}
	}
}
