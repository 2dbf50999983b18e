// Package extension keeps what clients read of the objects of extensions: whether a backend can be reached, and the digest of a bundle's
// content. Its webhooks validate writes of them, too.
package extension

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"kapis.dev/ks-apiserver/pkg/api/extensions/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/controller/retry"
	"kapis.dev/ks-apiserver/pkg/egress"
	"kapis.dev/ks-apiserver/pkg/extension"
)

// BundleName is the name of the controller of bundles.
const BundleName = "jsbundle"

// every is how often backends and contents are looked at.
const every = 30 * time.Second

// parallel has several backends be asked at once: those that do not answer, which takes some seconds to know, hold up no other.
var parallel = controller.Options{MaxConcurrentReconciles: 8}

// Options are what the controllers need.
type Options struct {
	// Egress says which addresses are connected to.
	Egress egress.Options
	Client kubernetes.Interface
}

// SetupBundles adds the controller of JSBundles to mgr.
func SetupBundles(_ context.Context, mgr manager.Manager, o Options) error {
	r := &Bundles{Client: mgr.GetClient(), Files: extension.NewFiles(extension.NewIndex(extension.Options{Egress: o.Egress}),
		extension.Keys{Client: o.Client}, time.Now)}
	return builder.ControllerManagedBy(mgr).Named(BundleName).For(&v1alpha1.JSBundle{}).WithOptions(parallel).Complete(r)
}

// Bundles notes the digest of each bundle's content in an annotation, so that the version of the object, which is in the address that
// pages load it from, changes with it.
type Bundles struct {
	Client client.Client
	Files  *extension.Files
}

// Reconcile notes the digest of one bundle.
func (r *Bundles) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	o := &v1alpha1.JSBundle{}
	if err := r.Client.Get(ctx, req.NamespacedName, o); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if o.Status.State != v1alpha1.StateAvailable || !o.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, nil
	}
	digest, err := r.Files.Digest(ctx, o)
	if err != nil {
		klog.V(2).InfoS("the content of a JSBundle can't be read", "bundle", o.Name, "error", err)
		return reconcile.Result{RequeueAfter: every}, nil
	}
	if digest == "" {
		return reconcile.Result{}, nil
	}
	if o.Annotations[v1alpha1.AnnotationDigest] != digest {
		before := o.DeepCopy()
		metav1.SetMetaDataAnnotation(&o.ObjectMeta, v1alpha1.AnnotationDigest, digest)
		if err := r.Client.Patch(ctx, o, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			return retry.OnConflict(0, client.IgnoreNotFound(fmt.Errorf("note the digest of the JSBundle %s: %w", o.Name, err)))
		}
	}
	return reconcile.Result{RequeueAfter: every}, nil
}
