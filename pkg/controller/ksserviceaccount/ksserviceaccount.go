// Package ksserviceaccount reconciles ServiceAccounts of kubesphere.io: each has a Secret with its own token, which is mounted
// into pods that ask for it. A token ends with its Secret; to replace one, delete the Secret.
package ksserviceaccount

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/controller/retry"
	"kapis.dev/ks-apiserver/pkg/informer"
	"kapis.dev/ks-apiserver/pkg/token"
)

const (
	// Name is the controller's name.
	Name = "ks-serviceaccount"

	// maxName is how much of a service account's name is part of its Secret's name.
	maxName = 200
)

// Setup adds the controller to mgr.
func Setup(_ context.Context, mgr manager.Manager) error {
	r := &Reconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Random: rand.Reader}
	secrets, err := tokens(mgr)
	if err != nil {
		return err
	}
	owner := handler.TypedEnqueueRequestForOwner[*metav1.PartialObjectMetadata](mgr.GetScheme(), mgr.GetRESTMapper(),
		&v1alpha1.ServiceAccount{}, handler.OnlyControllerOwner())
	secret := &metav1.PartialObjectMetadata{}
	secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	return builder.ControllerManagedBy(mgr).Named(Name).
		For(&v1alpha1.ServiceAccount{}).
		WatchesRawSource(source.Kind(secrets, secret, owner)).
		Complete(r)
}

// tokens returns a cache of the metadata of the Secrets with tokens, and of no others.
func tokens(mgr manager.Manager) (cache.Cache, error) {
	c, err := cache.New(mgr.GetConfig(), cache.Options{
		Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient(), NewInformer: informer.NewShared,
		DefaultFieldSelector: fields.OneTermEqualSelector("type", string(v1alpha1.SecretTypeServiceAccountToken)),
		DefaultTransform:     cache.TransformStripManagedFields(),
	})
	if err != nil {
		return nil, fmt.Errorf("make a cache of service accounts' Secrets: %w", err)
	}
	if err := mgr.Add(c); err != nil {
		return nil, fmt.Errorf("follow service accounts' Secrets: %w", err)
	}
	return c, nil
}

// Reconciler reconciles ServiceAccounts.
type Reconciler struct {
	// Client reads service accounts from the cache and writes. Live reads Secrets without it.
	Client client.Client
	Live   client.Reader
	// Random is the source of tokens.
	Random io.Reader
}

// Reconcile updates one service account.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	a := &v1alpha1.ServiceAccount{}
	if err := r.Client.Get(ctx, req.NamespacedName, a); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	var err error
	if a.DeletionTimestamp.IsZero() {
		err = r.sync(ctx, a)
	} else {
		err = r.letGo(ctx, a)
	}
	return retry.OnConflict(0, client.IgnoreNotFound(err))
}

// letGo removes the finalizer of older installations. The Secret is deleted with its owner.
func (r *Reconciler) letGo(ctx context.Context, a *v1alpha1.ServiceAccount) error {
	before := a.DeepCopy()
	if !controllerutil.RemoveFinalizer(a, v1alpha1.FinalizerServiceAccount) {
		return nil
	}
	return r.patch(ctx, a, before)
}

// sync makes sure that the Secret exists, has one of this server's tokens, and is named by the service account.
func (r *Reconciler) sync(ctx context.Context, a *v1alpha1.ServiceAccount) error {
	name := secretName(a)
	s := &corev1.Secret{}
	switch err := r.Live.Get(ctx, types.NamespacedName{Namespace: a.Namespace, Name: name}, s); {
	case apierrors.IsNotFound(err):
		if err := r.create(ctx, a, name); err != nil {
			return err
		}
	case err != nil:
		return fmt.Errorf("read the Secret of service account %s/%s: %w", a.Namespace, a.Name, err)
	case !metav1.IsControlledBy(s, a) || s.Type != v1alpha1.SecretTypeServiceAccountToken:
		return fmt.Errorf("service account %s/%s: the Secret %q is not a token of this account; delete it", a.Namespace, a.Name, name)
	default:
		if err := r.mend(ctx, a, s); err != nil {
			return err
		}
	}
	if slices.ContainsFunc(a.Secrets, func(ref corev1.ObjectReference) bool { return ref.Name == name }) && a.Secrets[0].Name == name {
		return nil
	}
	before := a.DeepCopy()
	// The Secret of an older installation has a token that is not accepted any more.
	a.Secrets = []corev1.ObjectReference{{Name: name}}
	return r.patch(ctx, a, before)
}

func (r *Reconciler) create(ctx context.Context, a *v1alpha1.ServiceAccount, name string) error {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: a.Namespace, Name: name}, Type: v1alpha1.SecretTypeServiceAccountToken}
	if err := controllerutil.SetControllerReference(a, s, r.Client.Scheme()); err != nil {
		return fmt.Errorf("make the Secret of service account %s/%s: %w", a.Namespace, a.Name, err)
	}
	if _, err := r.fill(a, s); err != nil {
		return err
	}
	if err := r.Client.Create(ctx, s); err != nil {
		return fmt.Errorf("make the Secret of service account %s/%s: %w", a.Namespace, a.Name, err)
	}
	return nil
}

// mend restores what a changed Secret lacks.
func (r *Reconciler) mend(ctx context.Context, a *v1alpha1.ServiceAccount, s *corev1.Secret) error {
	changed, err := r.fill(a, s)
	if err != nil || !changed {
		return err
	}
	if err := r.Client.Update(ctx, s); err != nil {
		return fmt.Errorf("mend the Secret of service account %s/%s: %w", a.Namespace, a.Name, err)
	}
	return nil
}

// fill writes the owner of the token and, if there is none, a token.
func (r *Reconciler) fill(a *v1alpha1.ServiceAccount, s *corev1.Secret) (changed bool, err error) {
	for key, value := range map[string]string{v1alpha1.AnnotationServiceAccountName: a.Name,
		v1alpha1.AnnotationServiceAccountUID: string(a.UID)} {
		if s.Annotations[key] != value {
			metav1.SetMetaDataAnnotation(&s.ObjectMeta, key, value)
			changed = true
		}
	}
	if has, err := token.ParseServiceAccount(string(s.Data[v1alpha1.ServiceAccountTokenKey])); err == nil &&
		has.Account == token.ServiceAccountID(string(a.UID)) {
		return changed, nil
	}
	made, err := token.NewServiceAccount(string(a.UID), r.Random)
	if err != nil {
		return false, fmt.Errorf("make a token for service account %s/%s: %w", a.Namespace, a.Name, err)
	}
	if s.Data == nil {
		s.Data = map[string][]byte{}
	}
	s.Data[v1alpha1.ServiceAccountTokenKey] = []byte(made)
	return true, nil
}

func (r *Reconciler) patch(ctx context.Context, a, before *v1alpha1.ServiceAccount) error {
	if err := r.Client.Patch(ctx, a, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("write service account %s/%s: %w", a.Namespace, a.Name, err)
	}
	return nil
}

// secretName returns the name of a service account's Secret. A recreated service account of the same name gets another one.
func secretName(a *v1alpha1.ServiceAccount) string {
	id := string(a.UID)
	return a.Name[:min(len(a.Name), maxName)] + "-kstoken-" + id[:min(len(id), 8)]
}
