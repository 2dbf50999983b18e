package informer

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/watchlist"
	"k8s.io/utils/clock"
)

// MaxOutage is how long kube-apiserver may be out of reach for a watch to go on from the version that it had reached. A backup of
// etcd can't be restored in a shorter time.
const MaxOutage = time.Second

// Outage measures how long the watch of one reflector could not be opened again. After a long outage a watch must not go on from its
// version, since a backup of etcd may have been restored meanwhile: the version may lie in the future of the restored state, for
// which kube-apiserver sends nothing and no error, or belong to other changes by now. It may be used by several goroutines: a reflector
// that stops does not wait for a list that it has begun.
type Outage struct {
	mu    sync.Mutex
	began time.Time
}

// Begin records the start of an attempt to open a watch again; only the first of several counts.
func (o *Outage) Begin(now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.began.IsZero() {
		o.began = now
	}
}

// Reset ends an outage: all objects are read.
func (o *Outage) Reset() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.began = time.Time{}
}

// End is called when an attempt succeeded. Where that took longer than most, the error makes a reflector read everything again: 410,
// as from a kube-apiserver that does not know the version any more (Kubernetes API concepts, "Resource versions").
func (o *Outage) End(now time.Time, most time.Duration) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	away := now.Sub(o.began)
	o.began = time.Time{}
	if away <= most {
		return nil
	}
	return apierrors.NewResourceExpired(fmt.Sprintf("kube-apiserver was out of reach for %s, and etcd may have been restored meanwhile: "+
		"everything is read again", away.Round(time.Millisecond)))
}

// AfterOutages returns source for one reflector, with watches that end with 410 after an outage that was longer than MaxOutage.
func AfterOutages(source cache.ListerWatcher) cache.ListerWatcher {
	return &afterOutages{source: cache.ToListerWatcherWithContext(source), most: MaxOutage, clock: clock.RealClock{},
		noWatchList: watchlist.DoesClientNotSupportWatchListSemantics(source)}
}

// NewShared is cache.NewSharedIndexInformer with AfterOutages, for caches of controllers.
func NewShared(source cache.ListerWatcher, kind runtime.Object, resync time.Duration, by cache.Indexers) cache.SharedIndexInformer {
	return cache.NewSharedIndexInformer(AfterOutages(source), kind, resync, by)
}

// afterOutages is used by one reflector.
type afterOutages struct {
	source      cache.ListerWatcherWithContext
	most        time.Duration
	clock       clock.PassiveClock
	noWatchList bool
	outage      Outage
}

// IsWatchListSemanticsUnSupported reports whether the reflector has to begin with a list.
func (s *afterOutages) IsWatchListSemanticsUnSupported() bool { return s.noWatchList }

// List implements cache.Lister.
func (s *afterOutages) List(o metav1.ListOptions) (runtime.Object, error) {
	return s.ListWithContext(context.Background(), o)
}

// Watch implements cache.Watcher.
func (s *afterOutages) Watch(o metav1.ListOptions) (watch.Interface, error) {
	return s.WatchWithContext(context.Background(), o)
}

// ListWithContext implements cache.ListerWithContext.
func (s *afterOutages) ListWithContext(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	s.outage.Reset()
	return s.source.ListWithContext(ctx, o)
}

// WatchWithContext implements cache.WatcherWithContext.
func (s *afterOutages) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	if o.SendInitialEvents != nil || o.ResourceVersion == "" || o.ResourceVersion == "0" {
		s.outage.Reset()
		return s.source.WatchWithContext(ctx, o)
	}
	s.outage.Begin(s.clock.Now())
	w, err := s.source.WatchWithContext(ctx, o)
	if err != nil {
		return nil, err
	}
	if err := s.outage.End(s.clock.Now(), s.most); err != nil {
		w.Stop()
		return nil, err
	}
	return w, nil
}
