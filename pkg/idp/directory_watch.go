package idp

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// The Secrets that providers are configured in.
const (
	secretSelector = "config.kubesphere.io/type=identityprovider"
	secretKey      = "configuration.yaml"
)

// How often, how long and how many at a time providers are asked whether they answer.
const (
	checkEvery    = time.Minute
	checkTimeout  = 20 * time.Second
	checkParallel = 4
)

// Run follows the Secrets, and asks the providers every minute whether they answer, until ctx ends.
func (d *Directory) Run(ctx context.Context) {
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				o.LabelSelector = secretSelector
				return d.options.Secrets.List(ctx, o)
			},
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				o.LabelSelector = secretSelector
				return d.options.Secrets.Watch(ctx, o)
			},
		}, d.options.Secrets),
		ObjectType: &corev1.Secret{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(o any) { d.set(o) },
			UpdateFunc: func(_, o any) { d.set(o) },
			DeleteFunc: func(o any) { d.remove(o) },
		},
	})
	var group sync.WaitGroup
	defer d.close()
	defer group.Wait()
	group.Go(func() {
		if registered := informer.HasSyncedChecker(); cache.WaitFor(ctx, "", registered) {
			d.synced.Store(true)
		}
	})
	group.Go(func() { d.watchReach(ctx) })
	informer.RunWithContext(ctx)
}

func (d *Directory) set(o any) {
	s, ok := o.(*corev1.Secret)
	if !ok {
		return
	}
	next := define(s.Data[secretKey], "Secret "+s.Name)
	next.created = s.CreationTimestamp.Time
	d.mu.Lock()
	old := d.found[s.Name]
	d.open(next, old)
	d.found[s.Name] = next
	d.mu.Unlock()
	if next.entry.Fault != nil && (old == nil || old.entry.Fault == nil || old.entry.Fault.Error() != next.entry.Fault.Error()) {
		klog.ErrorS(next.entry.Fault, "An identity provider can't be used; the others are not affected", "secret", s.Name, "provider",
			next.entry.Name)
	}
	d.rebuild()
	discard(old, next)
}

func (d *Directory) remove(o any) {
	if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = gone.Obj
	}
	s, ok := o.(*corev1.Secret)
	if !ok {
		return
	}
	d.mu.Lock()
	old := d.found[s.Name]
	delete(d.found, s.Name)
	d.mu.Unlock()
	d.rebuild()
	discard(old, nil)
}

// close gives back what the providers hold.
func (d *Directory) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, def := range d.file {
		discard(def, nil)
	}
	for _, def := range d.found {
		discard(def, nil)
	}
}

// watchReach asks the providers whether they answer: those that are new at once, and all every minute.
func (d *Directory) watchReach(ctx context.Context) {
	tick := time.NewTicker(checkEvery)
	defer tick.Stop()
	for {
		all := false
		select {
		case <-ctx.Done():
			return
		case <-d.wake:
		case <-tick.C:
			all = true
		}
		d.checkAll(ctx, all)
	}
}

// checkAll asks the providers that were never asked, or all that are in use.
func (d *Directory) checkAll(ctx context.Context, all bool) {
	var group sync.WaitGroup
	slots := make(chan struct{}, checkParallel)
	for _, e := range d.Entries() {
		def := d.current().by[e.Name]
		if !e.Usable() || def == nil || !all && !def.reach.checked().IsZero() {
			continue
		}
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			_ = d.check(ctx, def) // it is in the status
		})
	}
	group.Wait()
}
