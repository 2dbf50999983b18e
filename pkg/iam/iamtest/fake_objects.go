package iamtest

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"kapis.dev/ks-apiserver/pkg/iam/crdclient"
	"kapis.dev/ks-apiserver/pkg/store"
)

// Objects is a fake kube-apiserver for one kind, with feeds to the replicas that a test can hold back.
type Objects[T crdclient.Object] struct {
	empty func() T

	Mu     sync.Mutex
	rv     int
	Stored map[string]string
	Feeds  []*Feed
	calls  map[string]int
	// Fail is called before each call; its error is the call's error.
	Fail func(verb string) error
	// Wait is called before each call, so that a test can simulate a slow API.
	Wait func(ctx context.Context) error
}

// NewObjects returns an API without objects; empty returns a new one.
func NewObjects[T crdclient.Object](empty func() T) *Objects[T] {
	return &Objects[T]{empty: empty, Stored: map[string]string{}, calls: map[string]int{}}
}

// Follow adds feeds.
func (o *Objects[T]) Follow(sinks ...store.Sink) *Objects[T] {
	for _, s := range sinks {
		o.Feeds = append(o.Feeds, &Feed{Sink: s})
	}
	return o
}

func (o *Objects[T]) begin(ctx context.Context, verb string) error {
	if o.Wait != nil {
		if err := o.Wait(ctx); err != nil {
			return err
		}
	}
	o.Mu.Lock()
	defer o.Mu.Unlock()
	o.calls[verb]++
	if o.Fail != nil {
		return o.Fail(verb)
	}
	return nil
}

// Count returns the number of calls of these verbs.
func (o *Objects[T]) Count(verbs ...string) (n int) {
	o.Mu.Lock()
	defer o.Mu.Unlock()
	for _, v := range verbs {
		n += o.calls[v]
	}
	return n
}

func (o *Objects[T]) gr() schema.GroupResource {
	return schema.GroupResource{Resource: fmt.Sprintf("%T", o.empty())}
}

func (o *Objects[T]) put(in T) T {
	o.rv++
	in.SetResourceVersion(strconv.Itoa(o.rv))
	raw, err := json.Marshal(in)
	if err != nil {
		panic(err)
	}
	name := in.GetName()
	o.Stored[name] = string(raw)
	o.Tell(func(k store.Sink) { k.Set(&store.Object{Name: name, Raw: raw}) })
	return o.Read(name)
}

// Tell sends an event to the feeds.
func (o *Objects[T]) Tell(event func(store.Sink)) {
	for _, f := range o.Feeds {
		if f.Held {
			f.Late = append(f.Late, func() { event(f.Sink) })
			continue
		}
		event(f.Sink)
	}
}

func (o *Objects[T]) Read(name string) T {
	out := o.empty()
	if err := json.Unmarshal([]byte(o.Stored[name]), out); err != nil {
		panic(err)
	}
	return out
}

// Create stores a new object.
func (o *Objects[T]) Create(ctx context.Context, in T) (none T, _ error) {
	if err := o.begin(ctx, "create"); err != nil {
		return none, err
	}
	o.Mu.Lock()
	defer o.Mu.Unlock()
	if _, ok := o.Stored[in.GetName()]; ok {
		return none, apierrors.NewAlreadyExists(o.gr(), in.GetName())
	}
	in = in.DeepCopyObject().(T)
	if in.GetName() == "" {
		in.SetName(fmt.Sprintf("%s%d", in.GetGenerateName(), o.rv))
	}
	in.SetUID(types.UID(fmt.Sprintf("uid-%d", o.rv)))
	return o.put(in), nil
}

// Get returns an object.
func (o *Objects[T]) Get(ctx context.Context, name string) (none T, _ error) {
	if err := o.begin(ctx, "get"); err != nil {
		return none, err
	}
	o.Mu.Lock()
	defer o.Mu.Unlock()
	if _, ok := o.Stored[name]; !ok {
		return none, apierrors.NewNotFound(o.gr(), name)
	}
	return o.Read(name), nil
}

// Update replaces an object of the same resource version.
func (o *Objects[T]) Update(ctx context.Context, in T) (none T, _ error) {
	if err := o.begin(ctx, "update"); err != nil {
		return none, err
	}
	o.Mu.Lock()
	defer o.Mu.Unlock()
	if _, ok := o.Stored[in.GetName()]; !ok {
		return none, apierrors.NewNotFound(o.gr(), in.GetName())
	}
	if old := o.Read(in.GetName()); old.GetResourceVersion() != in.GetResourceVersion() {
		return none, apierrors.NewConflict(o.gr(), in.GetName(), fmt.Errorf("changed"))
	}
	return o.put(in.DeepCopyObject().(T)), nil
}

// Delete deletes an object that meets the preconditions.
func (o *Objects[T]) Delete(ctx context.Context, name string, is metav1.Preconditions) error {
	if err := o.begin(ctx, "delete"); err != nil {
		return err
	}
	o.Mu.Lock()
	defer o.Mu.Unlock()
	if _, ok := o.Stored[name]; !ok {
		return apierrors.NewNotFound(o.gr(), name)
	}
	old := o.Read(name)
	if is.UID != nil && *is.UID != old.GetUID() || is.ResourceVersion != nil && *is.ResourceVersion != old.GetResourceVersion() {
		return apierrors.NewConflict(o.gr(), name, fmt.Errorf("another"))
	}
	delete(o.Stored, name)
	o.Tell(func(k store.Sink) { k.Delete("", name) })
	return nil
}

// Size returns how many objects there are.
func (o *Objects[T]) Size() int {
	o.Mu.Lock()
	defer o.Mu.Unlock()
	return len(o.Stored)
}

// BreakWith lets all calls fail with err.
func (o *Objects[T]) BreakWith(err error) {
	o.Mu.Lock()
	defer o.Mu.Unlock()
	o.Fail = func(string) error { return err }
}

// Mend ends the effect of BreakWith.
func (o *Objects[T]) Mend() {
	o.Mu.Lock()
	defer o.Mu.Unlock()
	o.Fail = nil
}

// Hold holds back the events of a feed.
func (o *Objects[T]) Hold(i int) {
	o.Mu.Lock()
	defer o.Mu.Unlock()
	o.Feeds[i].Held = true
}

// Release delivers the events that were held back.
func (o *Objects[T]) Release(i int) {
	o.Mu.Lock()
	defer o.Mu.Unlock()
	f := o.Feeds[i]
	f.Held = false
	for _, event := range f.Late {
		event()
	}
	f.Late = nil
}

// ObjectOf returns an object as the store has it.
func ObjectOf(raw string) *store.Object {
	var m metav1.PartialObjectMetadata
	if err := json.Unmarshal([]byte(raw), &m); err != nil {
		panic(err)
	}
	return &store.Object{Name: m.Name, Raw: []byte(raw)}
}

// TimeOf returns a time as objects have it.
func TimeOf(t time.Time) *metav1.Time { return &metav1.Time{Time: t} }
