package caller

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// Attempts bounds how often a write is tried if the object changes between its read and the write.
const Attempts = 5

var errModified = errors.New("the object has been modified: read it again and apply your changes to what it is now")

// Modified returns the conflict for a write whose object is not the one that its caller, or its checks, have seen.
func Modified(gr schema.GroupResource, name string) error {
	return apierrors.NewConflict(gr, name, errModified)
}

// Seen is the object that a caller wants to write: with a Version, only as long as the object has it.
type Seen struct {
	Resource schema.GroupResource
	Name     string
	Version  string
}

// Live is an object that was read at kube-apiserver.
type Live interface {
	GetUID() types.UID
	GetResourceVersion() string
}

// Change writes an object as it was read. write checks the live object, makes the dry run that its checks need, and binds the request to
// the version of that object, so that the checked object is the one that is written. After a conflict all of it is done again, unless the
// caller named the version. An answer that is discarded for that is closed, if it can be; the last one is returned with its error.
func Change[O Live, A any](ctx context.Context, seen Seen, read func(context.Context) (O, error),
	write func(context.Context, O) (A, error)) (A, error) {
	var none A
	for attempt := 1; ; attempt++ {
		now, err := read(ctx)
		if err != nil {
			return none, err
		}
		if seen.Version != "" && seen.Version != now.GetResourceVersion() {
			return none, Modified(seen.Resource, seen.Name)
		}
		answer, err := write(ctx, now)
		if !apierrors.IsConflict(err) || seen.Version != "" || attempt == Attempts {
			return answer, err
		}
		if c, ok := any(answer).(interface{ Close() }); ok {
			c.Close()
		}
	}
}

// Remove is Change for a deletion: drop checks the live object, and deletes it with the options that it gets, which are bound to that
// object and its version. An object that is another one, or has another version, than the preconditions of the options say is not deleted.
func Remove[O Live, A any](ctx context.Context, seen Seen, options metav1.DeleteOptions, read func(context.Context) (O, error),
	drop func(context.Context, O, metav1.DeleteOptions) (A, error)) (A, error) {
	asked := ptr.Deref(options.Preconditions, metav1.Preconditions{})
	seen.Version = ptr.Deref(asked.ResourceVersion, "")
	return Change(ctx, seen, func(ctx context.Context) (O, error) {
		now, err := read(ctx)
		if err == nil && (asked.UID != nil && *asked.UID != now.GetUID() ||
			asked.ResourceVersion != nil && *asked.ResourceVersion != now.GetResourceVersion()) {
			err = Modified(seen.Resource, seen.Name)
		}
		return now, err
	}, func(ctx context.Context, now O) (A, error) {
		bound := options
		bound.Preconditions = &metav1.Preconditions{UID: ptr.To(now.GetUID()), ResourceVersion: ptr.To(now.GetResourceVersion())}
		return drop(ctx, now, bound)
	})
}
