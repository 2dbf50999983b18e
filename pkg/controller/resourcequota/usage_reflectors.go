package resourcequota

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"kapis.dev/ks-apiserver/pkg/informer"
)

// counts has the usage counters of the kinds that quotas limit. A kind is watched while a quota names it: an installation without
// quotas reads no pods.
type counts struct {
	mapper   meta.RESTMapper
	typed    kubernetes.Interface
	metadata metadata.Interface
	changed  func(namespace string, more bool)

	mu      sync.Mutex
	ctx     context.Context // of the reflectors; nil before Start
	running sync.WaitGroup
	of      map[schema.GroupResource]*followed
	needed  map[string][]schema.GroupResource // by quota
}

// followed is a usage counter, and the function that stops its reflector; nil if there is none, since the cluster does not have the kind.
type followed struct {
	*usageCounter
	end context.CancelFunc
}

func newCounts(mgr manager.Manager) (*counts, error) {
	binary := rest.CopyConfig(mgr.GetConfig()) // all pods are read
	binary.ContentType, binary.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON
	typed, err := kubernetes.NewForConfigAndClient(binary, mgr.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("make a client for quotas: %w", err)
	}
	light, err := metadata.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("make a client for quotas: %w", err)
	}
	return &counts{mapper: mgr.GetRESTMapper(), typed: typed, metadata: light}, nil
}

// Start runs the reflectors until ctx ends.
func (c *counts) Start(ctx context.Context) error {
	c.mu.Lock()
	c.ctx = ctx
	c.mu.Unlock()
	<-ctx.Done()
	c.running.Wait()
	return nil
}

// need records which kinds a quota limits, none for a deleted quota, and stops watching kinds that no quota limits.
func (c *counts) need(quota string, kinds []schema.GroupResource) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if slices.Equal(c.needed[quota], kinds) {
		return
	}
	if c.needed == nil {
		c.needed = map[string][]schema.GroupResource{}
	}
	c.needed[quota] = kinds
	if len(kinds) == 0 {
		delete(c.needed, quota)
	}
	still := map[schema.GroupResource]bool{}
	for _, kinds := range c.needed {
		for _, gr := range kinds {
			still[gr] = true
		}
	}
	for gr, f := range c.of {
		if !still[gr] {
			delete(c.of, gr)
			if f.end != nil {
				f.end()
			}
		}
	}
}

// follow returns the usage counter of a kind that need was called with, and starts it if necessary.
func (c *counts) follow(gr schema.GroupResource) *usageCounter {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.of[gr]
	if f == nil {
		f = &followed{usageCounter: newUsageCounter(nil, c.changed, time.Now)}
	}
	if f.end != nil || c.ctx == nil { // before Start it is not started, and so not complete
		return f.usageCounter
	}
	if c.of == nil {
		c.of = map[schema.GroupResource]*followed{}
	}
	c.of[gr] = f
	lw, kind, measure, err := c.source(gr, f.tell)
	if err != nil {
		f.tell(err)
		return f.usageCounter
	}
	f.measure = measure
	var ctx context.Context
	ctx, f.end = context.WithCancel(c.ctx)
	r := cache.NewReflectorWithOptions(informer.AfterOutages(lw), kind, f.usageCounter, cache.ReflectorOptions{Name: "quota of " + gr.String()})
	c.running.Go(func() { r.RunWithContext(ctx) })
	return f.usageCounter
}

// source returns the list and watch of a kind, and the function that returns what an object uses. tell is called with
// the result of each attempt to read them.
func (c *counts) source(gr schema.GroupResource, tell func(error)) (cache.ListerWatcher, runtime.Object, func(any) *use, error) {
	core := c.typed.CoreV1()
	switch gr {
	case pods():
		return listWatch(c.typed, core.Pods(""), tell), &corev1.Pod{}, func(o any) *use { return ofPod(o.(*corev1.Pod)) }, nil
	case services():
		return listWatch(c.typed, core.Services(""), tell), &corev1.Service{}, func(o any) *use { return ofService(o.(*corev1.Service)) }, nil
	case claims():
		return listWatch(c.typed, core.PersistentVolumeClaims(""), tell), &corev1.PersistentVolumeClaim{},
			func(o any) *use { return ofClaim(o.(*corev1.PersistentVolumeClaim)) }, nil
	}
	gvr, err := c.mapper.ResourceFor(gr.WithVersion(""))
	if err != nil {
		return nil, nil, nil, fmt.Errorf("look up what is limited: %w", err)
	}
	one := counted(gr)
	return listWatch(c.metadata, c.metadata.Resource(gvr).Namespace(""), tell), &metav1.PartialObjectMetadata{}, func(any) *use { return one },
		nil
}

// lister is a client of one kind.
type lister[L runtime.Object] interface {
	List(ctx context.Context, o metav1.ListOptions) (L, error)
	Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error)
}

// listWatch lists and watches one kind. of is the client of all kinds, which says whether a watch may begin with the existing objects.
func listWatch[L runtime.Object](of any, client lister[L], tell func(error)) cache.ListerWatcher {
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list, err := client.List(ctx, o)
			tell(err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			w, err := client.Watch(ctx, o)
			tell(err)
			return w, err
		},
	}, of)
}
