package fleetsync

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"
)

// confirmAfter is how long ends are gathered before the definitions of their kinds are read.
const confirmAfter = 50 * time.Millisecond

// Definition returns when the definition (CRD) that serves a kind was made, read past all caches: the zero time while none serves it, or
// the one that does is being deleted. kube-apiserver deletes all objects of a definition with it, and a watch does not say why one was
// deleted.
type Definition func(ctx context.Context, kind schema.GroupVersionResource) (since time.Time, err error)

// end is that of an object, as long as it is not known whether the object was deleted or lost with its definition.
type end struct {
	// propagation is what then becomes of the namespaces of a workspace.
	propagation string
}

// ended records that an object is not here any more, or is being deleted.
func (s *Source) ended(r Ref, propagation string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.Definition == nil:
		s.change(r, nil, propagation)
	case s.objects[r.Kind][r.Name] != nil && s.ends[r] == nil: // what the deletion said is known before the object is gone
		s.ends[r] = &end{propagation}
		select {
		case s.unconfirmed <- struct{}{}:
		default: // a signal is already pending
		}
	}
}

// Confirm confirms ends until ctx is done, where Definition is set.
func (s *Source) Confirm(ctx context.Context) {
	for {
		var again <-chan time.Time
		if err := s.confirm(ctx); err != nil && ctx.Err() == nil {
			klog.ErrorS(err, "What was deleted stays in member clusters until its definition can be read; it is tried again")
			again = time.After(retryEvery)
		}
		select {
		case <-ctx.Done():
			return
		case <-again:
		case <-s.unconfirmed:
			select {
			case <-ctx.Done():
				return
			case <-time.After(confirmAfter):
			}
		}
	}
}

var errUnconfirmed = errors.New("it is not known yet whether what is gone was deleted, or lost with its definition")

// Confirmed returns nil while all ends are confirmed.
func (s *Source) Confirmed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.ends) > 0 {
		return errUnconfirmed
	}
	return nil
}

// confirm reads the definitions of what ended. What was deleted is to go in members. What was lost stays there as it is: a definition that
// is being deleted takes its objects with it, and an object older than its definition was one of a former definition.
func (s *Source) confirm(ctx context.Context) error {
	s.mu.Lock()
	ends := maps.Clone(s.ends)
	s.mu.Unlock()
	var failed []error
	for _, k := range kinds {
		refs := slices.DeleteFunc(slices.Collect(maps.Keys(ends)), func(r Ref) bool { return r.Kind != k.Resource })
		if len(refs) == 0 {
			continue
		}
		since, err := s.Definition(ctx, origin(k))
		if err != nil {
			failed = append(failed, fmt.Errorf("read the definition of %s: %w", origin(k).GroupResource(), err))
			continue
		}
		if lost := s.settle(refs, ends, since); lost > 0 {
			klog.InfoS("Objects were lost with their definition: member clusters keep them as they are", "kind", origin(k).GroupResource(),
				"objects", lost)
		}
	}
	return errors.Join(failed...)
}

// settle applies ends of one kind, whose definition was made since, and returns how many of its objects were lost.
func (s *Source) settle(refs []Ref, ends map[Ref]*end, since time.Time) (lost int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range refs {
		e := s.ends[r]
		if e == nil || e != ends[r] { // it was made again since, and may have ended again
			continue
		}
		delete(s.ends, r)
		if o := s.objects[r.Kind][r.Name]; since.IsZero() || o.created.Before(since) {
			kept := *o
			kept.unread = true
			s.objects[r.Kind][r.Name] = &kept
			lost++
			continue
		}
		s.change(r, nil, e.propagation)
	}
	return lost
}
