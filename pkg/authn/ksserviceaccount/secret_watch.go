package ksserviceaccount

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"

	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
)

// Run follows the Secrets of the type in all namespaces until ctx ends. No Secret is kept.
func (t *Tokens) Run(ctx context.Context, secrets typedcorev1.SecretInterface) {
	only := fields.OneTermEqualSelector("type", string(v1alpha1.SecretTypeServiceAccountToken)).String()
	lw := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = only
			return secrets.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = only
			return secrets.Watch(ctx, o)
		},
	}, secrets)
	cache.NewReflectorWithOptions(lw, &corev1.Secret{}, (*secretsSink)(t), cache.ReflectorOptions{Name: "tokens of service accounts"}).
		RunWithContext(ctx)
}

// secretsSink is Tokens as a reflector fills it.
type secretsSink Tokens

func (s *secretsSink) Add(o any) error { return s.Update(o) }

func (s *secretsSink) Update(o any) error {
	if secret, ok := o.(*corev1.Secret); ok {
		(*Tokens)(s).setSecret(secret)
	}
	return nil
}

func (s *secretsSink) Delete(o any) error {
	if secret, ok := o.(*corev1.Secret); ok {
		s.mu.Lock()
		defer s.mu.Unlock()
		(*Tokens)(s).drop(place{secret.Namespace, secret.Name})
	}
	return nil
}

func (s *secretsSink) Replace(objects []any, _ string) error {
	t := (*Tokens)(s)
	listed := make(map[place]bool, len(objects))
	for _, o := range objects {
		if secret, ok := o.(*corev1.Secret); ok {
			listed[place{secret.Namespace, secret.Name}] = true
		}
	}
	t.mu.Lock()
	for at := range t.secrets {
		if !listed[at] {
			t.drop(at)
		}
	}
	t.mu.Unlock()
	for _, o := range objects {
		_ = s.Update(o) // never fails
	}
	return nil
}

func (s *secretsSink) Resync() error { return nil }
