// Package resourcequota keeps ResourceQuotas of quota.kubesphere.io: it adds up what the selected namespaces use, and refuses at
// kube-apiserver what would go beyond a limit. docs/quotas.md tells how.
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

	// conflictRetry is how soon a write that met a newer object is tried again.
	conflictRetry = 20 * time.Millisecond
	// syncRetry is how soon a quota is looked at again whose objects are not known yet, and uncountedRetry one whose objects can't be.
	syncRetry      = 100 * time.Millisecond
	uncountedRetry = 5 * time.Second
	// syncPatience is for how long objects that can't be read may be such that can: kube-apiserver has a bad moment.
	syncPatience = 5 * time.Second
	// freeDelay and settleDelay gather changes: what became free is wanted soon; what arrived is in the total already.
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

// relabelled has the quotas looked at that select a namespace, or did.
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

// Reconciler keeps the status of ResourceQuotas.
type Reconciler struct {
	// Client reads from the cache and writes.
	Client client.Client
	Events events.EventRecorder
	// Now is the clock.
	Now func() time.Time

	// need is told which kinds a quota limits, none for one that is gone. follow returns the tally of such a kind.
	need   func(quota string, kinds []schema.GroupResource)
	follow func(gr schema.GroupResource) *usageCounter

	mu      sync.Mutex
	queue   workqueue.TypedRateLimitingInterface[reconcile.Request]
	ledgers map[string]*reservations
}

// Reconcile brings the status of one quota up to date.
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

// expires returns when the oldest reservation has waited long enough; 0 where there is none.
func (l *reservations) expires(now time.Time) time.Duration {
	if len(l.reserved) == 0 {
		return 0
	}
	return max(patience-now.Sub(l.reserved[0].at), time.Millisecond)
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

// census is what was counted for a quota.
type census struct {
	// used is what namespaces use, and came what came since the last look.
	used map[string]corev1.ResourceList
	came corev1.ResourceList
	// limits are those whose use is known. Of the others, wrong says why it can't be.
	limits []corev1.ResourceName
	wrong  error
}

// count counts for a quota; nil where the objects are not all known yet, and then wait is when to look again. A limit on something that
// can't be counted keeps the others from nothing.
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

// newStatus returns what the status is to say. Namespaces without any use are left out; a total without any is 0, and one that is not known
// is left out, which lets nothing of it pass.
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

// reservations returns what is known of a quota; an empty ledger for a new one.
func (r *Reconciler) ledger(name string) *reservations {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l := r.ledgers[name]; l != nil {
		return l
	}
	return &reservations{}
}

// keep remembers what is known of a quota, nil for nothing.
func (r *Reconciler) keep(name string, l *reservations) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case l == nil:
		delete(r.ledgers, name)
	case r.ledgers == nil:
		r.ledgers = map[string]*reservations{name: l}
	default:
		r.ledgers[name] = l
	}
}

// changed has the quotas of a namespace looked at.
func (r *Reconciler) changed(namespace string, more bool) {
	ns := &corev1.Namespace{}
	if err := r.Client.Get(context.Background(), types.NamespacedName{Name: namespace}, ns); err != nil {
		return // it is gone, and its quotas were told so
	}
	delay := freeDelay
	if more {
		delay = settleDelay
	}
	r.enqueue(ns.Labels, delay)
}

// enqueue has the quotas looked at that select a namespace with these labels.
func (r *Reconciler) enqueue(of map[string]string, delay time.Duration) {
	r.mu.Lock()
	queue := r.queue
	r.mu.Unlock()
	list := &quotav1alpha2.ResourceQuotaList{}
	if queue == nil || r.Client.List(context.Background(), list, client.UnsafeDisableDeepCopy) != nil {
		return // nothing was counted yet: each quota is looked at when the controller starts
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
