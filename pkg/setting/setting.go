package setting

import (
	"context"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// Store has the settings as they are now. All of its methods may be called by many at once.
type Store struct {
	client    kubernetes.Interface
	namespace string

	theme       atomic.Pointer[corev1.ConfigMap]
	platform    configs
	connections configs
	images      images

	// pending is how many feeds were not read in full yet.
	pending atomic.Int32
	ready   chan struct{}
}

// New returns the settings in a namespace. They are read once Run runs.
func New(client kubernetes.Interface, namespace string) *Store {
	s := &Store{client: client, namespace: namespace, ready: make(chan struct{})}
	s.platform = configs{prefix: PlatformPrefix}
	s.pending.Store(int32(len(s.feeds())))
	return s
}

// errLoading says that the settings were not read yet.
var errLoading = apierrors.NewServiceUnavailable("the settings of the platform are being read: try again shortly")

func (s *Store) loaded() error {
	if s.pending.Load() > 0 {
		return errLoading
	}
	return nil
}

// feed is one kind of settings.
type feed struct {
	from   cache.ListerWatcher
	of     runtime.Object
	set    func(runtime.Object)
	forget func(name string)
}

func (s *Store) feeds() []feed {
	secrets, maps := s.client.CoreV1().Secrets(s.namespace), s.client.CoreV1().ConfigMaps(s.namespace)
	ofSecrets := func(typ string, into *configs) feed {
		o := metav1.ListOptions{FieldSelector: "type=" + typ}
		return feed{following(secrets.List, secrets.Watch, o, s.client), &corev1.Secret{},
			func(o runtime.Object) { into.set(o.(*corev1.Secret), typ) }, into.forget}
	}
	named := metav1.ListOptions{FieldSelector: "metadata.name=" + ThemeName}
	labelled := metav1.ListOptions{LabelSelector: imageLabel}
	return []feed{
		ofSecrets(PlatformType, &s.platform),
		ofSecrets(connectionType, &s.connections),
		{following(maps.List, maps.Watch, named, s.client), &corev1.ConfigMap{}, func(o runtime.Object) { s.setTheme(o.(*corev1.ConfigMap)) },
			func(string) { s.theme.Store(nil) }},
		{following(maps.List, maps.Watch, labelled, s.client), &corev1.ConfigMap{},
			func(o runtime.Object) { s.images.set(o.(*corev1.ConfigMap)) }, s.images.forget},
	}
}

// following makes what an informer reads by.
func following[L runtime.Object](list func(context.Context, metav1.ListOptions) (L, error),
	watches func(context.Context, metav1.ListOptions) (watch.Interface, error),
	which metav1.ListOptions, client kubernetes.Interface,
) cache.ListerWatcher {
	restrict := func(o metav1.ListOptions) metav1.ListOptions {
		o.FieldSelector, o.LabelSelector = which.FieldSelector, which.LabelSelector
		return o
	}
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return list(ctx, restrict(o)) },
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return watches(ctx, restrict(o))
		},
	}, client)
}

// Run follows the settings until ctx ends.
func (s *Store) Run(ctx context.Context) {
	var group sync.WaitGroup
	for _, f := range s.feeds() {
		set := func(o any) {
			if object, ok := o.(runtime.Object); ok {
				f.set(object)
			}
		}
		_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
			ListerWatcher: f.from, ObjectType: f.of,
			Handler: cache.ResourceEventHandlerFuncs{
				AddFunc: set, UpdateFunc: func(_, o any) { set(o) },
				DeleteFunc: func(o any) {
					if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(o); err == nil {
						_, name, _ := cache.SplitMetaNamespaceKey(key)
						f.forget(name)
					}
				},
			},
		})
		group.Go(func() { informer.RunWithContext(ctx) })
		group.Go(func() {
			if handled := informer.HasSyncedChecker(); cache.WaitFor(ctx, "", handled) && s.pending.Add(-1) == 0 {
				close(s.ready)
			}
		})
	}
	group.Wait()
}

// Ready is closed once the settings were read in full.
func (s *Store) Ready() <-chan struct{} { return s.ready }

// Synced is nil once the settings were read in full, and says why not before.
func (s *Store) Synced() error { return s.loaded() }
