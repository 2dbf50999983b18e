package iam

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

	"kapis.dev/ks-apiserver/pkg/store"
)

// objects are a kube-apiserver's worth of one kind, with feeds to the replicas that can be held back.
type objects[T kind] struct {
	empty func() T

	mu     sync.Mutex
	rv     int
	stored map[string]string
	feeds  []*feed
	calls  map[string]int
	// fail is asked before each call.
	fail func(verb string) error
	// wait is waited for before each call, so that a test can have a slow API.
	wait func(ctx context.Context) error
}

func newObjects[T kind](empty func() T) *objects[T] {
	return &objects[T]{empty: empty, stored: map[string]string{}, calls: map[string]int{}}
}

func (o *objects[T]) follow(sinks ...store.Sink) *objects[T] {
	for _, s := range sinks {
		o.feeds = append(o.feeds, &feed{sink: s})
	}
	return o
}

func (o *objects[T]) begin(ctx context.Context, verb string) error {
	if o.wait != nil {
		if err := o.wait(ctx); err != nil {
			return err
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.calls[verb]++
	if o.fail != nil {
		return o.fail(verb)
	}
	return nil
}

func (o *objects[T]) count(verbs ...string) (n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, v := range verbs {
		n += o.calls[v]
	}
	return n
}

func (o *objects[T]) gr() schema.GroupResource {
	return schema.GroupResource{Resource: fmt.Sprintf("%T", o.empty())}
}

func (o *objects[T]) put(in T) T {
	o.rv++
	in.SetResourceVersion(strconv.Itoa(o.rv))
	raw, err := json.Marshal(in)
	if err != nil {
		panic(err)
	}
	name := in.GetName()
	o.stored[name] = string(raw)
	o.tell(func(k store.Sink) { k.Set(&store.Object{Name: name, UID: string(in.GetUID()), Raw: raw}) })
	return o.read(name)
}

func (o *objects[T]) tell(event func(store.Sink)) {
	for _, f := range o.feeds {
		if f.held {
			f.late = append(f.late, func() { event(f.sink) })
			continue
		}
		event(f.sink)
	}
}

func (o *objects[T]) read(name string) T {
	out := o.empty()
	if err := json.Unmarshal([]byte(o.stored[name]), out); err != nil {
		panic(err)
	}
	return out
}

func (o *objects[T]) Create(ctx context.Context, in T) (none T, _ error) {
	if err := o.begin(ctx, "create"); err != nil {
		return none, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, ok := o.stored[in.GetName()]; ok {
		return none, apierrors.NewAlreadyExists(o.gr(), in.GetName())
	}
	in = in.DeepCopyObject().(T)
	if in.GetName() == "" {
		in.SetName(fmt.Sprintf("%s%d", in.GetGenerateName(), o.rv))
	}
	in.SetUID(types.UID(fmt.Sprintf("uid-%d", o.rv)))
	return o.put(in), nil
}

func (o *objects[T]) Get(ctx context.Context, name string) (none T, _ error) {
	if err := o.begin(ctx, "get"); err != nil {
		return none, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, ok := o.stored[name]; !ok {
		return none, apierrors.NewNotFound(o.gr(), name)
	}
	return o.read(name), nil
}

func (o *objects[T]) Update(ctx context.Context, in T) (none T, _ error) {
	if err := o.begin(ctx, "update"); err != nil {
		return none, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, ok := o.stored[in.GetName()]; !ok {
		return none, apierrors.NewNotFound(o.gr(), in.GetName())
	}
	if old := o.read(in.GetName()); old.GetResourceVersion() != in.GetResourceVersion() {
		return none, apierrors.NewConflict(o.gr(), in.GetName(), fmt.Errorf("changed"))
	}
	return o.put(in.DeepCopyObject().(T)), nil
}

func (o *objects[T]) Delete(ctx context.Context, name string, is metav1.Preconditions) error {
	if err := o.begin(ctx, "delete"); err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, ok := o.stored[name]; !ok {
		return apierrors.NewNotFound(o.gr(), name)
	}
	old := o.read(name)
	if is.UID != nil && *is.UID != old.GetUID() || is.ResourceVersion != nil && *is.ResourceVersion != old.GetResourceVersion() {
		return apierrors.NewConflict(o.gr(), name, fmt.Errorf("another"))
	}
	delete(o.stored, name)
	o.tell(func(k store.Sink) { k.Delete("", name) })
	return nil
}

func (o *objects[T]) size() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.stored)
}

func (o *objects[T]) breakWith(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.fail = func(string) error { return err }
}

func (o *objects[T]) mend() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.fail = nil
}

func (o *objects[T]) hold(i int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.feeds[i].held = true
}

func (o *objects[T]) release(i int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	f := o.feeds[i]
	f.held = false
	for _, event := range f.late {
		event()
	}
	f.late = nil
}

func lockoutObject(raw string) *store.Object {
	var m metav1.PartialObjectMetadata
	if err := json.Unmarshal([]byte(raw), &m); err != nil {
		panic(err)
	}
	return &store.Object{Name: m.Name, UID: string(m.UID), Raw: []byte(raw)}
}

func timeOf(t time.Time) *metav1.Time { return &metav1.Time{Time: t} }
