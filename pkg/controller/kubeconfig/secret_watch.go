package kubeconfig

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"kapis.dev/ks-apiserver/pkg/informer"
)

// secrets returns a source that enqueues a user whose Secret was deleted or changed. Its cache has only the names of users' Secrets,
// and nothing of other Secrets.
func secrets(mgr manager.Manager, namespace string) (source.Source, error) {
	labelled, err := labels.NewRequirement(LabelUser, selection.Exists, nil)
	if err != nil {
		return nil, fmt.Errorf("select users' kubeconfigs: %w", err)
	}
	c, err := cache.New(mgr.GetConfig(), cache.Options{
		Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient(), NewInformer: informer.NewShared,
		DefaultNamespaces: map[string]cache.Config{namespace: {}}, DefaultLabelSelector: labels.NewSelector().Add(*labelled),
		DefaultTransform: named,
	})
	if err != nil {
		return nil, fmt.Errorf("make a cache of users' kubeconfigs: %w", err)
	}
	if err := mgr.Add(c); err != nil {
		return nil, fmt.Errorf("follow users' kubeconfigs: %w", err)
	}
	s := &metav1.PartialObjectMetadata{}
	s.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	return source.Kind(c, s, handler.TypedEnqueueRequestsFromMapFunc(userOf), changed()), nil
}

// named reduces a Secret to its name.
func named(o any) (any, error) {
	if s, ok := o.(*metav1.PartialObjectMetadata); ok {
		s.ObjectMeta = metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name, UID: s.UID, ResourceVersion: s.ResourceVersion, Labels: s.Labels}
	}
	return o, nil
}

// userOf returns the user to whom a Secret with a kubeconfig belongs.
func userOf(_ context.Context, s *metav1.PartialObjectMetadata) []reconcile.Request {
	user, ok := strings.CutPrefix(s.Name, SecretPrefix)
	if !ok || user == "" || !isOf(s, user) {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: user}}}
}

// changed ignores new Secrets: the controller made them, or checks them by their users when it starts.
func changed() predicate.TypedPredicate[*metav1.PartialObjectMetadata] {
	return predicate.TypedFuncs[*metav1.PartialObjectMetadata]{
		CreateFunc: func(event.TypedCreateEvent[*metav1.PartialObjectMetadata]) bool { return false },
	}
}
