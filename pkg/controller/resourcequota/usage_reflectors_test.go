package resourcequota

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	k8stesting "k8s.io/client-go/testing"
)

func widgets() schema.GroupResource {
	return schema.GroupResource{Group: "example.com", Resource: "widgets"}
}

// mapper knows widgets, once it is told to.
type mapper struct {
	meta.RESTMapper
	known bool
}

func (m *mapper) ResourceFor(gvr schema.GroupVersionResource) (schema.GroupVersionResource, error) {
	if !m.known || gvr.GroupResource() != widgets() {
		return gvr, &meta.NoResourceMatchError{PartialResource: gvr}
	}
	return gvr.GroupResource().WithVersion("v1"), nil
}

// cluster is a cluster with a pod, and its counts.
type cluster struct {
	*counts
	typed  *fake.Clientset
	light  *metadatafake.FakeMetadataClient
	mapper *mapper
	// changes receives the namespaces whose use changed.
	changes chan string
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	s := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(s); err != nil {
		t.Fatal(err)
	}
	c := &cluster{typed: fake.NewClientset(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "p", UID: "1"}}),
		light: metadatafake.NewSimpleMetadataClient(s), mapper: &mapper{}, changes: make(chan string, 10)}
	c.counts = &counts{mapper: c.mapper, typed: c.typed, metadata: c.light, changed: func(namespace string, _ bool) { c.changes <- namespace }}
	return c
}

// start runs the counts until the returned function is called, which waits for all reflectors.
func (c *cluster) start(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	wait.Go(func() { _ = c.Start(ctx) })
	for begun := false; !begun; runtime.Gosched() {
		c.mu.Lock()
		begun = c.ctx != nil
		c.mu.Unlock()
	}
	stop = sync.OnceFunc(func() { cancel(); wait.Wait() })
	t.Cleanup(stop)
	return stop
}

func TestAKindIsFollowedWhileAQuotaLimitsIt(t *testing.T) {
	c := newCluster(t)
	if early := c.follow(pods()); early.synced.Load() || len(c.of) > 0 {
		t.Error("it is followed before the start")
	}
	c.start(t)
	for range 2 { // objects that come back are read again
		c.need("q", []schema.GroupResource{pods()})
		c.need("other", []schema.GroupResource{pods()})
		first := c.follow(pods())
		if namespace := <-c.changes; namespace != "a" {
			t.Fatalf("of %s", namespace)
		}
		c.need("q", []schema.GroupResource{services()})
		if c.follow(pods()) != first {
			t.Fatal("it is no longer followed, and the other quota limits it")
		}
		c.need("other", nil)
		c.need("q", nil)
		c.running.Wait() // or it never ends
		if len(c.of)+len(c.needed) > 0 {
			t.Fatalf("%v, %v", c.of, c.needed)
		}
	}
}

func TestWhyAKindCantBeReadIsKnown(t *testing.T) {
	c := newCluster(t)
	c.typed.PrependReactor("list", "pods", func(k8stesting.Action) (bool, apiruntime.Object, error) {
		return true, nil, apierrors.NewForbidden(corev1.Resource("pods"), "", nil)
	})
	stop := c.start(t)
	c.need("q", []schema.GroupResource{pods(), widgets()})
	counter := c.follow(pods())
	for counter.failed.Load() == nil {
		runtime.Gosched()
	}
	stop()
	counter.now = func() time.Time { return counter.begun.Add(syncTimeout) }
	if _, err := counter.late(); !apierrors.IsForbidden(err) {
		t.Errorf("the reason is %v", err)
	}
	counter.tell(nil)
	if wait, err := counter.late(); err != nil || wait != syncTimeout/10 {
		t.Errorf("with the next attempt under way: %v, %v", wait, err)
	}
}

func TestAKindThatComesLaterIsFollowedThen(t *testing.T) {
	c := newCluster(t)
	c.start(t)
	c.need("q", []schema.GroupResource{widgets()})
	first := c.follow(widgets())
	first.now = func() time.Time { return first.begun.Add(syncTimeout) }
	if _, err := first.late(); !meta.IsNoMatchError(err) {
		t.Errorf("the reason is %v", err)
	}
	c.mapper.known = true
	widget := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "b", Name: "w", UID: "2"}}
	widget.SetGroupVersionKind(widgets().WithVersion("v1").GroupVersion().WithKind("Widget"))
	if err := c.light.Tracker().Create(widgets().WithVersion("v1"), widget, "b"); err != nil {
		t.Fatal(err)
	}
	if c.follow(widgets()) != first {
		t.Error("it is another one")
	}
	if namespace := <-c.changes; namespace != "b" || !first.synced.Load() {
		t.Errorf("of %s", namespace)
	}
	c.need("q", nil)
	c.running.Wait()
}
