// Package resourcequota reconciles ResourceQuotas of quota.kubesphere.io: it sums up what the selected namespaces use, and has
// kube-apiserver refuse what would exceed a limit. docs/quotas.md describes how.
package resourcequota

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	quota "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	quotav1alpha2 "kapis.dev/ks-apiserver/pkg/api/quota/v1alpha2"
)

const (
	// Name is the controller's name.
	Name = "resourcequota"

	// conflictRetry is the pause after a write that conflicted.
	conflictRetry = 20 * time.Millisecond
	// syncRetry is the pause before a quota whose objects are not loaded yet is reconciled again, and uncountedRetry that
	// for one whose objects can't be read.
	syncRetry      = 100 * time.Millisecond
	uncountedRetry = 5 * time.Second
	// syncTimeout is how long failing reads of objects are considered temporary.
	syncTimeout = 5 * time.Second
	// freeDelay and settleDelay collect changes: freed amounts are needed soon; arrived ones are in the total already.
	freeDelay   = 50 * time.Millisecond
	settleDelay = 500 * time.Millisecond
	workers     = 8
)

// Setup adds the controller to mgr.
func Setup(_ context.Context, mgr manager.Manager) error {
	counts, err := newCounts(mgr)
	if err != nil {
		return err
	}
	if err := mgr.Add(counts); err != nil {
		return fmt.Errorf("make ready to count for quotas: %w", err)
	}
	r := &Reconciler{Client: mgr.GetClient(), Events: mgr.GetEventRecorder(Name), Now: time.Now, need: counts.need, follow: counts.follow}
	counts.changed = r.changed
	return builder.ControllerManagedBy(mgr).Named(Name).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		For(&quotav1alpha2.ResourceQuota{}).
		Watches(&corev1.Namespace{}, handler.Funcs{}, builder.WithPredicates(relabelled(r))).
		WatchesRawSource(source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.queue = queue
			return nil
		})).
		Complete(r)
}

// relabelled enqueues the quotas that select a namespace, or did before.
func relabelled(r *Reconciler) predicate.Predicate {
	look := func(o client.Object) bool {
		r.enqueue(o.GetLabels(), 0)
		return false
	}
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return look(e.Object) },
		DeleteFunc: func(e event.DeleteEvent) bool { return look(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool {
			if !equality.Semantic.DeepEqual(e.ObjectOld.GetLabels(), e.ObjectNew.GetLabels()) {
				return look(e.ObjectOld) || look(e.ObjectNew)
			}
			return false
		},
	}
}

// Reconciler updates the status of ResourceQuotas.
type Reconciler struct {
	// Client reads from the cache and writes.
	Client client.Client
	Events events.EventRecorder
	// Now is the clock.
	Now func() time.Time

	// need is called with the kinds that a quota limits, none for a deleted one. follow returns the usage counter of such a kind.
	need   func(quota string, kinds []schema.GroupResource)
	follow func(gr schema.GroupResource) *usageCounter

	mu           sync.Mutex
	queue        workqueue.TypedRateLimitingInterface[reconcile.Request]
	reservations map[string]*reservations
}

// Reconcile updates the status of one quota.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	q := &quotav1alpha2.ResourceQuota{}
	if err := r.Client.Get(ctx, req.NamespacedName, q); err != nil {
		if apierrors.IsNotFound(err) {
			r.keep(req.Name, nil)
			r.need(req.Name, nil)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	namespaces, err := r.selected(ctx, q)
	if err != nil {
		return reconcile.Result{}, err
	}
	old := r.ledger(q.Name)
	next := &reservations{seen: map[schema.GroupResource]uint64{}, selected: set(namespaces)}
	c, wait := r.count(q, namespaces, old, next)
	if c == nil {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	if c.wrong != nil {
		r.Events.Eventf(q, nil, corev1.EventTypeWarning, "NotCounted", "Count", "%v", c.wrong)
	}
	next.reserved = old.settle(&q.Status, c.came, r.Now())
	status := newStatus(&q.Spec.Quota, namespaces, c, next.reserved)
	if !equality.Semantic.DeepEqual(&q.Status, status) {
		q = q.DeepCopy()
		q.Status = *status
		if err := r.Client.Status().Update(ctx, q); apierrors.IsConflict(err) {
			return reconcile.Result{RequeueAfter: conflictRetry}, nil
		} else if err != nil {
			return reconcile.Result{}, client.IgnoreNotFound(err)
		}
	}
	r.keep(q.Name, next)
	wait = next.expires(r.Now())
	if c.wrong != nil && (wait == 0 || wait > uncountedRetry) {
		wait = uncountedRetry
	}
	return reconcile.Result{RequeueAfter: wait}, nil
}

// selected returns the names of a quota's namespaces, sorted.
func (r *Reconciler) selected(ctx context.Context, q *quotav1alpha2.ResourceQuota) ([]string, error) {
	list := &corev1.NamespaceList{}
	if err := r.Client.List(ctx, list, client.MatchingLabelsSelector{Selector: selectorOf(q)}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list the namespaces of resource quota %q: %w", q.Name, err)
	}
	names := make([]string, len(list.Items))
	for i := range list.Items {
		names[i] = list.Items[i].Name
	}
	slices.Sort(names)
	return names, nil
}

// census has the counts for a quota.
type census struct {
	// used is what each namespace uses, and came what arrived since the last count.
	used map[string]corev1.ResourceList
	came corev1.ResourceList
	// limits are those whose use is known. wrong gives the reason for the others.
	limits []corev1.ResourceName
	wrong  error
}

// count counts for a quota; it returns nil if not all objects are loaded, and then wait is when to try again. A limit on a kind that
// can't be counted does not affect the others.
func (r *Reconciler) count(q *quotav1alpha2.ResourceQuota, namespaces []string, old, next *reservations) (c *census, wait time.Duration) {
	hard := q.Spec.Quota.Hard
	c = &census{used: make(map[string]corev1.ResourceList, len(namespaces)), came: corev1.ResourceList{}}
	kinds := kindsOf(hard)
	r.need(q.Name, kinds)
	for _, gr := range kinds {
		t := r.follow(gr)
		if !t.synced.Load() {
			wait, err := t.late()
			if err == nil {
				return nil, wait
			}
			c.wrong = errors.Join(c.wrong, fmt.Errorf("count %s for a quota: %w", gr, err))
			continue
		}
		var limited []corev1.ResourceName
		for name := range hard {
			if kindOf(name) == gr {
				limited = append(limited, name)
			}
		}
		by, arrived, last := t.sum(namespaces, &q.Spec.Quota, limited, old.seen[gr], old.selected)
		for namespace, list := range by {
			c.used[namespace] = quota.Add(c.used[namespace], list)
		}
		c.came, next.seen[gr] = quota.Add(c.came, arrived), last
		c.limits = append(c.limits, limited...)
	}
	return c, 0
}

// newStatus returns the wanted status. Namespaces without any use are left out; a total of nothing is 0, and an unknown total is left out,
// so that nothing of it is admitted.
func newStatus(q *corev1.ResourceQuotaSpec, namespaces []string, c *census, reserved []reservation) *quotav1alpha2.ResourceQuotaStatus {
	s := &quotav1alpha2.ResourceQuotaStatus{Total: corev1.ResourceQuotaStatus{Hard: q.Hard.DeepCopy(), Used: corev1.ResourceList{}}}
	for _, name := range c.limits {
		limit := q.Hard[name]
		limit.Set(0)
		s.Total.Used[name] = limit // in the format of the limit
	}
	for _, namespace := range namespaces {
		if list := quota.RemoveZeros(c.used[namespace]); len(list) > 0 {
			s.Namespaces = append(s.Namespaces, quotav1alpha2.NamespaceUsage{Namespace: namespace,
				ResourceQuotaStatus: corev1.ResourceQuotaStatus{Used: list}})
			s.Total.Used = quota.Add(s.Total.Used, list)
		}
	}
	for _, r := range reserved {
		s.Total.Used = quota.Add(s.Total.Used, quota.Mask(r.amounts, c.limits))
	}
	return s
}

// ledger returns the reservations of a quota; empty ones for a new quota.
func (r *Reconciler) ledger(name string) *reservations {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l := r.reservations[name]; l != nil {
		return l
	}
	return &reservations{}
}

// keep stores the reservations of a quota, nil for none.
func (r *Reconciler) keep(name string, l *reservations) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case l == nil:
		delete(r.reservations, name)
	case r.reservations == nil:
		r.reservations = map[string]*reservations{name: l}
	default:
		r.reservations[name] = l
	}
}

// changed enqueues the quotas of a namespace.
func (r *Reconciler) changed(namespace string, more bool) {
	ns := &corev1.Namespace{}
	if err := r.Client.Get(context.Background(), types.NamespacedName{Name: namespace}, ns); err != nil {
		return // it is deleted, and its quotas were enqueued for that
	}
	delay := freeDelay
	if more {
		delay = settleDelay
	}
	r.enqueue(ns.Labels, delay)
}

// enqueue enqueues the quotas that select a namespace with these labels.
func (r *Reconciler) enqueue(of map[string]string, delay time.Duration) {
	r.mu.Lock()
	queue := r.queue
	r.mu.Unlock()
	list := &quotav1alpha2.ResourceQuotaList{}
	if queue == nil || r.Client.List(context.Background(), list, client.UnsafeDisableDeepCopy) != nil {
		return // nothing was counted yet: all quotas are reconciled when the controller starts
	}
	for i := range list.Items {
		if selects(&list.Items[i], of) {
			queue.AddAfter(reconcile.Request{NamespacedName: types.NamespacedName{Name: list.Items[i].Name}}, delay)
		}
	}
}

func set(names []string) map[string]bool {
	out := make(map[string]bool, len(names))
	for _, name := range names {
		out[name] = true
	}
	return out
}
