package resourcequota

import (
	"context"
	"fmt"
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
)

// counts are the tallies of the kinds that quotas limit. A kind is followed once a quota names it: an installation without quotas
// reads no pods.
type counts struct {
	mapper   meta.RESTMapper
	typed    kubernetes.Interface
	metadata metadata.Interface
	changed  func(namespace string, more bool)

	mu      sync.Mutex
	ctx     context.Context // of the reflectors; nil before Start
	running sync.WaitGroup
	of      map[schema.GroupResource]*tally
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
	return &counts{mapper: mgr.GetRESTMapper(), typed: typed, metadata: light, of: map[schema.GroupResource]*tally{}}, nil
}

// Start lets reflectors run until ctx ends.
func (c *counts) Start(ctx context.Context) error {
	c.mu.Lock()
	c.ctx = ctx
	c.mu.Unlock()
	<-ctx.Done()
	c.running.Wait()
	return nil
}

// follow returns the tally of a kind, begun if it is asked for the first time.
func (c *counts) follow(gr schema.GroupResource) (*tally, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := c.of[gr]; t != nil {
		return t, nil
	}
	if c.ctx == nil {
		return &tally{}, nil // not begun, and so not complete
	}
	lw, kind, measure, err := c.source(gr)
	if err != nil {
		return nil, err
	}
	t := newTally(measure, c.changed, time.Now)
	c.of[gr] = t
	r := cache.NewReflectorWithOptions(lw, kind, t, cache.ReflectorOptions{Name: "quota of " + gr.String()})
	c.running.Go(func() { r.RunWithContext(c.ctx) })
	return t, nil
}

// source returns where the objects of a kind come from, and what they use.
func (c *counts) source(gr schema.GroupResource) (cache.ListerWatcher, runtime.Object, func(any) *use, error) {
	core := c.typed.CoreV1()
	switch gr {
	case pods():
		return listWatch(core.Pods("")), &corev1.Pod{}, func(o any) *use { return ofPod(o.(*corev1.Pod)) }, nil
	case services():
		return listWatch(core.Services("")), &corev1.Service{}, func(o any) *use { return ofService(o.(*corev1.Service)) }, nil
	case claims():
		return listWatch(core.PersistentVolumeClaims("")), &corev1.PersistentVolumeClaim{},
			func(o any) *use { return ofClaim(o.(*corev1.PersistentVolumeClaim)) }, nil
	}
	gvr, err := c.mapper.ResourceFor(gr.WithVersion(""))
	if err != nil {
		return nil, nil, nil, fmt.Errorf("count %s for a quota: %w", gr, err)
	}
	one := counted(gr)
	return listWatch(c.metadata.Resource(gvr).Namespace("")), &metav1.PartialObjectMetadata{}, func(any) *use { return one }, nil
}

// lister is a client of one kind.
type lister[L runtime.Object] interface {
	List(ctx context.Context, o metav1.ListOptions) (L, error)
	Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error)
}

func listWatch[L runtime.Object](client lister[L]) cache.ListerWatcher {
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return client.List(ctx, o) },
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return client.Watch(ctx, o)
		},
	}, client)
}
