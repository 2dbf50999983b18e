package setting

import (
	"context"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"kapis.dev/ks-apiserver/pkg/informer"
)

// Store has the present settings. It is safe for concurrent use.
type Store struct {
	client    kubernetes.Interface
	namespace string

	theme       atomic.Pointer[corev1.ConfigMap]
	platform    configs
	connections configs
	images      images

	// pending is how many feeds have not been read in full yet.
	pending atomic.Int32
}

// New returns the settings in a namespace. They are read once Run runs.
func New(client kubernetes.Interface, namespace string) *Store {
	s := &Store{client: client, namespace: namespace}
	s.platform = configs{prefix: PlatformPrefix}
	s.pending.Store(int32(len(s.feeds())))
	return s
}

// errLoading says that the settings have not been read yet.
var errLoading = apierrors.NewServiceUnavailable("the settings of the platform are being read: try again shortly")

func (s *Store) loaded() error {
	if s.pending.Load() > 0 {
		return errLoading
	}
	return nil
}

// Run watches the settings until ctx ends.
func (s *Store) Run(ctx context.Context) {
	var group sync.WaitGroup
	for _, feed := range s.feeds() {
		group.Go(func() { feed(ctx) })
	}
	group.Wait()
}

// feeds returns the functions that watch each kind of settings.
func (s *Store) feeds() []func(context.Context) {
	return []func(context.Context){
		s.secrets(PlatformType, &s.platform),
		s.secrets(connectionType, &s.connections),
		s.configMaps(metav1.ListOptions{FieldSelector: "metadata.name=" + ThemeName}, s.setTheme, func(string) { s.theme.Store(nil) }),
		s.configMaps(metav1.ListOptions{LabelSelector: imageLabel}, s.images.set, s.images.forget),
	}
}

func (s *Store) secrets(typ string, into *configs) func(context.Context) {
	return func(ctx context.Context) {
		which := metav1.ListOptions{FieldSelector: "type=" + typ}
		informer.Run(ctx, s.client.CoreV1().Secrets(s.namespace), which, informer.Handler[*corev1.Secret]{
			Set:    func(o *corev1.Secret) { into.set(o, typ, older) },
			Listed: func(o *corev1.Secret) { into.set(o, typ, never) },
			Delete: func(_, name string) { into.forget(name) },
			Synced: s.synced,
		})
	}
}

func (s *Store) configMaps(which metav1.ListOptions, set func(*corev1.ConfigMap, olderFunc), forget func(name string)) func(context.Context) {
	return func(ctx context.Context) {
		informer.Run(ctx, s.client.CoreV1().ConfigMaps(s.namespace), which, informer.Handler[*corev1.ConfigMap]{
			Set:    func(m *corev1.ConfigMap) { set(m, older) },
			Listed: func(m *corev1.ConfigMap) { set(m, never) },
			Delete: func(_, name string) { forget(name) },
			Synced: s.synced,
		})
	}
}

// synced records that one more feed was read in full.
func (s *Store) synced() { s.pending.Add(-1) }

// Synced returns nil once the settings were read in full, and the reason before.
func (s *Store) Synced() error { return s.loaded() }
