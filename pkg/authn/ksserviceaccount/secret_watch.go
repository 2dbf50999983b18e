package ksserviceaccount

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/informer"
)

// Run watches the Secrets of the type in all namespaces until ctx ends. It stores none of them.
func (t *Tokens) Run(ctx context.Context, secrets informer.Client[*corev1.SecretList]) {
	only := fields.OneTermEqualSelector("type", string(v1alpha1.SecretTypeServiceAccountToken)).String()
	informer.Run(ctx, secrets, metav1.ListOptions{FieldSelector: only}, t.handler())
}

func (t *Tokens) handler() informer.Handler[*corev1.Secret] {
	return informer.Handler[*corev1.Secret]{Set: t.setSecret, Delete: t.deleteSecret, Synced: func() { t.listed.Store(true) }}
}
