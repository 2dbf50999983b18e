package store

import (
	"time"

	"kapis.dev/ks-apiserver/pkg/store/feed"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The kinds whose objects define further kinds.
var (
	definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	apiServices = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
)

// refreshDelays is when discovery is asked after a change, since it shows a new kind some moments later.
var refreshDelays = [...]time.Duration{20 * time.Millisecond, 200 * time.Millisecond, 700 * time.Millisecond, 2 * time.Second,
	5 * time.Second}

// refreshEvery is how often discovery is asked without a change that the store can see, such as an
// aggregated server that offers more than before.
const refreshEvery = 10 * time.Minute

// signal is a sink that reports that something changed, not what.
type signal chan struct{}

// Set signals a change.
func (n signal) Set(*Object) { n.notify() }

// Delete signals a change.
func (n signal) Delete(string, string) { n.notify() }

func (n signal) notify() {
	select {
	case n <- struct{}{}:
	default: // a signal is already pending
	}
}

// watchDiscovery keeps the catalog up to date.
func (s *Store) watchDiscovery() {
	changed := make(signal, 1)
	s.Feed(definitions, changed)
	s.Feed(apiServices, changed)
	s.wg.Go(func() { s.refreshOn(changed) })
}

// refreshOn asks discovery at the start, after changes, and now and then.
func (s *Store) refreshOn(changed signal) {
	for next := 0; ; {
		s.catalog.Refresh(s.ctx)
		s.retry() // a kind that was missing may be there now
		wait := refreshEvery
		switch {
		case next < len(refreshDelays):
			wait = refreshDelays[next]
			next++
		case s.catalog.Err() != nil:
			wait = feed.LastPause
		}
		timer := s.clock.NewTimer(wait)
		select {
		case <-s.ctx.Done():
		case <-timer.C():
		case <-s.catalog.missed: // an error must not be shown for longer than it lasts
			select {
			case <-s.ctx.Done():
			case <-s.clock.After(feed.LastPause):
			}
		case <-changed:
			next = 0
			// Changes come in bursts: ask after this one's first moments, not for each.
			select {
			case <-s.ctx.Done():
			case <-s.clock.After(refreshDelays[0]):
			}
		}
		timer.Stop()
		if s.ctx.Err() != nil {
			return
		}
	}
}
