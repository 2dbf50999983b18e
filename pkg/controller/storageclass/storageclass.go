// Package storageclass annotates storage classes with what pages read of them: whether the driver of their volumes may be asked for
// snapshots and clones, and how many claims name them.
package storageclass

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"kapis.dev/ks-apiserver/pkg/controller/retry"
)

// Name is the controller's name.
const Name = "storageclass-capability"

// Annotations of storage classes. The first two are booleans that users may set; one of a class whose provisioner has a CSIDriver is "true"
// where none is set. The third is this controller's alone.
const (
	AnnotationAllowSnapshot = "storageclass.kubesphere.io/allow-snapshot"
	AnnotationAllowClone    = "storageclass.kubesphere.io/allow-clone"
	AnnotationClaims        = "kubesphere.io/pvc-count"
)

// Pause is the least time between two writes of one class, however many claims come and go.
const Pause = 10 * time.Second

// ByClass is the index of claims by the storage class that they name.
const ByClass = "spec.storageClassName"

// ClassOf is the function of the index ByClass.
func ClassOf(o client.Object) []string {
	if class := className(o); class != "" {
		return []string{class}
	}
	return nil
}

func className(o client.Object) string {
	if c, ok := o.(*corev1.PersistentVolumeClaim); ok && c.Spec.StorageClassName != nil {
		return *c.Spec.StorageClassName
	}
	return ""
}

// Transform drops what this controller does not read of a claim: all but what identifies it, and its class.
func Transform(c *corev1.PersistentVolumeClaim) {
	c.Labels, c.Annotations, c.OwnerReferences, c.Finalizers = nil, nil, nil, nil
	c.Spec = corev1.PersistentVolumeClaimSpec{StorageClassName: c.Spec.StorageClassName}
	c.Status = corev1.PersistentVolumeClaimStatus{}
}

// Setup adds the controller to mgr.
func Setup(ctx context.Context, mgr manager.Manager) error {
	if err := mgr.GetFieldIndexer().IndexField(ctx, &corev1.PersistentVolumeClaim{}, ByClass, ClassOf); err != nil {
		return fmt.Errorf("index claims by their class: %w", err)
	}
	r := &Reconciler{Client: mgr.GetClient(), Now: time.Now}
	return builder.ControllerManagedBy(mgr).Named(Name).For(&storagev1.StorageClass{}).
		Watches(&storagev1.CSIDriver{}, handler.EnqueueRequestsFromMapFunc(r.classesOf)).
		Watches(&corev1.PersistentVolumeClaim{}, claims()).
		Complete(r)
}

// claims returns the handler of claims: a change of one is a reason to look only where it names another class.
func claims() handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	add := func(q queue, o client.Object) {
		if class := className(o); class != "" {
			q.Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: class}})
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { add(q, e.Object) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			if className(e.ObjectOld) != className(e.ObjectNew) {
				add(q, e.ObjectOld)
				add(q, e.ObjectNew)
			}
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) { add(q, e.Object) },
	}
}

// Reconciler reconciles the annotations of storage classes.
type Reconciler struct {
	// Client has the index ByClass.
	Client client.Client
	// Now returns the time.
	Now func() time.Time

	mu sync.Mutex
	// wrote is when each class was written last, for as long as Pause.
	wrote map[string]time.Time
}

// classesOf returns the classes of a driver.
func (r *Reconciler) classesOf(ctx context.Context, driver client.Object) []reconcile.Request {
	all := &storagev1.StorageClassList{}
	if err := r.Client.List(ctx, all, client.UnsafeDisableDeepCopy); err != nil {
		klog.FromContext(ctx).Error(err, "the StorageClasses of a driver of volumes can't be listed", "driver", driver.GetName())
		return nil
	}
	var out []reconcile.Request
	for i := range all.Items {
		if all.Items[i].Provisioner == driver.GetName() {
			out = append(out, reconcile.Request{NamespacedName: types.NamespacedName{Name: all.Items[i].Name}})
		}
	}
	return out
}

// Reconcile annotates one class.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	class := &storagev1.StorageClass{}
	if err := r.Client.Get(ctx, req.NamespacedName, class); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	set, err := r.missing(ctx, class)
	if err != nil || len(set) == 0 || !class.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, err
	}
	if wait := r.wait(class.Name); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	before := class.DeepCopy()
	if class.Annotations == nil {
		class.Annotations = map[string]string{}
	}
	for key, value := range set {
		class.Annotations[key] = value
	}
	err = r.Client.Patch(ctx, class, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	switch {
	case err == nil:
		r.written(class.Name)
	case client.IgnoreNotFound(err) != nil:
		err = fmt.Errorf("annotate the StorageClass %s: %w", class.Name, err)
	}
	return retry.OnConflict(0, client.IgnoreNotFound(err))
}

// missing returns the annotations that a class is to have, and has not.
func (r *Reconciler) missing(ctx context.Context, class *storagev1.StorageClass) (map[string]string, error) {
	claims := &corev1.PersistentVolumeClaimList{}
	if err := r.Client.List(ctx, claims, client.MatchingFields{ByClass: class.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("count the claims of the StorageClass %s: %w", class.Name, err)
	}
	set := map[string]string{}
	if n := strconv.Itoa(len(claims.Items)); class.Annotations[AnnotationClaims] != n {
		set[AnnotationClaims] = n
	}
	err := r.Client.Get(ctx, types.NamespacedName{Name: class.Provisioner}, &storagev1.CSIDriver{})
	if err != nil {
		return set, client.IgnoreNotFound(err)
	}
	for _, key := range []string{AnnotationAllowSnapshot, AnnotationAllowClone} {
		if _, err := strconv.ParseBool(class.Annotations[key]); err != nil {
			set[key] = "true"
		}
	}
	return set, nil
}

// wait returns how long a class is not written yet.
func (r *Reconciler) wait(class string) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, ok := r.wrote[class]
	if !ok {
		return 0
	}
	return min(Pause, Pause-r.Now().Sub(at)) // also where the clock was set back
}

// written notes that a class was written, and forgets those whose pause is over.
func (r *Reconciler) written(class string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.Now()
	for name, at := range r.wrote {
		if now.Sub(at) >= Pause {
			delete(r.wrote, name)
		}
	}
	if r.wrote == nil {
		r.wrote = map[string]time.Time{}
	}
	r.wrote[class] = now
}
