// Package mirror keeps native RBAC in step with the roles and bindings of iam.kubesphere.io, so that
// kube-apiserver decides about a request that is passed on as ks-apiserver decided.
//
// A bound role becomes one native role and one native binding in every namespace where it holds, or one pair for the
// whole cluster. The binding names the subjects of all the role's bindings and a synthetic group, which only
// ks-apiserver can assert; a role with a condition is bound to its synthetic group alone, since kube-apiserver does not
// know the condition. A role without subjects, or that grants nothing, has no mirror.
//
// Some rights imply others at kube-apiserver: implied_rights.go has these, which only the synthetic group gets, and wildcard_verbs.go
// the verbs for which "*" does not stand.
//
// A role of a workspace costs a write for each of its namespaces when its subjects change, about 2 ms
// of kube-apiserver's time each: more of them at once, or by another verb, are no faster where
// kube-apiserver has two cores. Until then ks-apiserver itself has decided by the new state.
package mirror

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
)

const (
	// NamePrefix begins the names of all native objects of the mirror. No iam role's name has a
	// colon, so that two of them never come to the same native name.
	NamePrefix = "kubesphere:iam:"

	// foreignRetry is the pause before the mirror tries again to replace an object that is not its own: the cache, which
	// has only the mirror's own objects, does not report its deletion.
	foreignRetry = time.Minute
	// atOnce is how many objects of one role are written at a time.
	atOnce = 8
)

// Writer writes native objects.
type Writer struct {
	// Client reads from the cache and writes. Live reads without the cache.
	Client client.Client
	Live   client.Reader
	// Events reports to users what prevents a role's mirror.
	Events events.EventRecorder
}

// write makes the native objects of source equal to want, and returns how many it wrote and when to try again, 0 for
// never. An error does not stop the other writes: a removed right must not remain because of another object's error. A
// role that is not the mirror's own gets no binding, since it may grant anything, and one that could not be written
// gets no new subjects.
func (w *Writer) write(ctx context.Context, role client.Object, source string, want native) (wrote int, again time.Duration, err error) {
	have, err := w.have(ctx, source)
	if err != nil {
		return 0, 0, err
	}
	seen := make(map[identity]client.Object, len(have))
	for _, o := range have {
		seen[identify(o)] = o
	}
	put := func(o client.Object) (int, error) { return w.put(ctx, role, o, seen[identify(o)]) }
	roles := each(want.roles, put)
	want.bindings = slices.DeleteFunc(want.bindings, func(b client.Object) bool { return roles.foreign[roleOf(b)] })
	wanted := want.identities()
	surplus := slices.DeleteFunc(have, func(o client.Object) bool { return wanted[identify(o)] })
	gone := each(surplus, func(o client.Object) (int, error) { return 1, w.delete(ctx, o) })
	if len(roles.failed) > 0 {
		narrow, bind := w.narrowed(want.bindings), put
		put = func(o client.Object) (int, error) {
			if roles.failed[roleOf(o)] {
				return narrow(ctx, o, seen[identify(o)])
			}
			return bind(o)
		}
	}
	bindings := each(want.bindings, put)
	if len(roles.foreign)+len(bindings.foreign) > 0 {
		again = foreignRetry
	}
	return roles.wrote + gone.wrote + bindings.wrote, again, errors.Join(slices.Concat(roles.errs, gone.errs, bindings.errs)...)
}

// results has the results of writes of several objects.
type results struct {
	mu      sync.Mutex
	wrote   int
	foreign map[identity]bool
	failed  map[identity]bool
	errs    []error
}

// each calls do for every object, several at a time: a workspace has as many bindings of one role as it has namespaces,
// and the last of them should not wait for all the others.
func each(objects []client.Object, do func(client.Object) (wrote int, err error)) *results {
	t := &results{foreign: map[identity]bool{}, failed: map[identity]bool{}}
	var wait sync.WaitGroup
	turn := make(chan struct{}, atOnce)
	for _, o := range objects {
		turn <- struct{}{}
		wait.Go(func() {
			defer func() { <-turn }()
			n, err := do(o)
			t.mu.Lock()
			defer t.mu.Unlock()
			t.wrote += n
			switch {
			case errors.Is(err, errForeign):
				t.foreign[identify(o)] = true
			case err != nil:
				t.failed[identify(o)], t.errs = true, append(t.errs, err)
			}
		})
	}
	wait.Wait()
	return t
}

// have lists the mirror's objects of source. They belong to the cache: read only.
func (w *Writer) have(ctx context.Context, source string) ([]client.Object, error) {
	var out []client.Object
	for _, list := range nativeLists() {
		if err := w.Client.List(ctx, list, client.MatchingFields{SourceField: source}, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("list native objects that mirror %s: %w", source, err)
		}
		out = append(out, items(list)...)
	}
	return out, nil
}

// errForeign says that an object that is not the mirror's has the name of one of its own.
var errForeign = errors.New("not managed by " + iamv1beta1.ManagedByController)

// put creates or changes one native object, and returns how many writes that took. seen is the mirror's own object of that name, nil
// if there is none; it belongs to the cache: read only.
func (w *Writer) put(ctx context.Context, role, want, seen client.Object) (int, error) {
	if seen == nil {
		seen = empty(want)
		err := w.Client.Get(ctx, client.ObjectKeyFromObject(want), seen)
		switch {
		case apierrors.IsNotFound(err):
			return w.create(ctx, role, want)
		case err != nil:
			return 0, fmt.Errorf("read %s: %w", describe(want), err)
		case !ours(seen) && legacySource(seen) == "":
			return 0, w.foreign(role, want)
		}
	}
	if !sameReference(seen, want) {
		// A binding's role can't be changed: the binding is replaced.
		if err := w.delete(ctx, seen); err != nil {
			return 0, err
		}
		n, err := w.create(ctx, role, want)
		return n + 1, err
	}
	if same(seen, want) {
		return 0, nil
	}
	return w.change(ctx, seen, want)
}

// change updates seen to want.
func (w *Writer) change(ctx context.Context, seen, want client.Object) (int, error) {
	after := seen.DeepCopyObject().(client.Object)
	merge(after, want)
	err := w.Client.Patch(ctx, after, client.MergeFromWithOptions(seen, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsInvalid(err) {
		// A right that was granted before must not stay because the new one can't be written.
		return 1, errors.Join(fmt.Errorf("change %s: %w", describe(want), err), w.delete(ctx, seen))
	}
	if client.IgnoreNotFound(err) != nil {
		return 1, fmt.Errorf("change %s: %w", describe(want), err)
	}
	return 1, nil
}

func (w *Writer) create(ctx context.Context, role, want client.Object) (int, error) {
	err := w.Client.Create(ctx, want)
	switch {
	case err == nil:
		return 1, nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause), apierrors.IsNotFound(err):
		return 0, nil // the namespace is being deleted or gone: nothing in it needs rights
	case !apierrors.IsAlreadyExists(err):
		return 0, fmt.Errorf("create %s: %w", describe(want), err)
	}
	have := empty(want)
	if err := w.Live.Get(ctx, client.ObjectKeyFromObject(want), have); err != nil {
		return 0, fmt.Errorf("read %s: %w", describe(want), err)
	}
	switch {
	case ours(have):
	case legacySource(have) != "":
		return w.put(ctx, role, want, have)
	default:
		return 0, w.foreign(role, want)
	}
	// It is the mirror's own, and not in the cache yet.
	return 0, apierrors.NewConflict(rbacv1.Resource("roles"), want.GetName(), errors.New("the cache lags"))
}

func (w *Writer) delete(ctx context.Context, o client.Object) error {
	uid := o.GetUID()
	err := w.Client.Delete(ctx, o, client.Preconditions{UID: &uid})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete %s: %w", describe(o), err)
	}
	return nil
}

// foreign reports that an object prevents the mirror, by an event of the role and in the log.
func (w *Writer) foreign(role, want client.Object) error {
	klog.InfoS("A native object stands in the way of a role's mirror, and is left alone", "object", describe(want), "role", klog.KObj(role))
	w.Events.Eventf(role, nil, corev1.EventTypeWarning, "NotMirrored", "Mirror",
		"%s exists and is not labelled %s=%s: it is left alone, and kube-apiserver does not know this role. Delete or rename it.",
		describe(want), iamv1beta1.LabelManagedBy, iamv1beta1.ManagedByController)
	return errForeign
}
