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

const (
	// confirmAfter is how long ends are gathered before the definitions of their kinds are read.
	confirmAfter = 50 * time.Millisecond
	// confirmWithin is how long an end may wait before what is told without it is not all that there is.
	confirmWithin = time.Second
)

// Going reports whether the definition (CRD) of a kind is being deleted, or gone, read past all caches. kube-apiserver deletes all objects
// of a definition with it, and a watch does not say why one was deleted.
type Going func(ctx context.Context, kind schema.GroupVersionResource) (bool, error)

// end is that of an object, as long as it is not known whether the object was deleted, or lost with its definition.
type end struct {
	at time.Time
	// propagation is what becomes of the namespaces of a workspace.
	propagation string
}

// ended records that an object is not here any more, or is being deleted. Until that is confirmed it counts as one that can't be read.
func (s *Source) ended(r Ref, propagation string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.objects[r.Kind][r.Name]
	switch {
	case s.Going == nil:
		s.change(r, nil, propagation)
	case o != nil && s.ends[r] == nil: // what the deletion said is known before the object is gone
		s.ends[r] = &end{time.Now(), propagation}
		kept := *o
		kept.unread = true
		s.objects[r.Kind][r.Name] = &kept
		select {
		case s.unconfirmed <- struct{}{}:
		default: // a signal is already pending
		}
	}
}

// Confirm confirms ends until ctx is done, where Going is set.
func (s *Source) Confirm(ctx context.Context) {
	for {
		again, more := (<-chan time.Time)(nil), s.unconfirmed
		if err := s.confirm(ctx); err != nil && ctx.Err() == nil {
			klog.ErrorS(err, "What was deleted stays in member clusters until its definition can be read; it is tried again")
			again, more = time.After(retryEvery), nil
		}
		select {
		case <-ctx.Done():
			return
		case <-again:
		case <-more:
			select {
			case <-ctx.Done():
				return
			case <-time.After(confirmAfter):
			}
		}
	}
}

var errUnconfirmed = errors.New("the definition of what is gone can't be read: it may have been deleted, or lost with its definition")

// confirmed returns nil unless an end has waited for long.
func (s *Source) confirmed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.ends {
		if time.Since(e.at) > confirmWithin {
			return errUnconfirmed
		}
	}
	return nil
}

// confirm reads the definitions of what ended. What was deleted is to go in members. What was lost with its definition stays there as it
// is.
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
		going, err := s.Going(ctx, origin(k))
		if err != nil {
			failed = append(failed, fmt.Errorf("read the definition of %s: %w", origin(k).GroupResource(), err))
			continue
		}
		for _, r := range refs {
			s.settle(r, ends[r], going)
		}
	}
	return errors.Join(failed...)
}

// settle applies an end, unless the object was made again since; it may even have ended again.
func (s *Source) settle(r Ref, e *end, lost bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ends[r] != e {
		return
	}
	delete(s.ends, r)
	if lost {
		klog.InfoS("An object was lost with its definition: member clusters keep it as it is", "kind", r.Kind, "name", r.Name)
		return
	}
	s.change(r, nil, e.propagation)
}
