// Package repository takes over what repositories of charts have: an ExtensionVersion for each version of an extension that an index or a
// registry names. What is in them is read elsewhere, by the controllers of ExtensionVersions and of Extensions.
package repository

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/chart"
	"kapis.dev/ks-apiserver/pkg/chart/source"
	"kapis.dev/ks-apiserver/pkg/controller/enqueue"
	"kapis.dev/ks-apiserver/pkg/controller/polling"
	"kapis.dev/ks-apiserver/pkg/controller/retry"
)

// Name is the controller's name.
const Name = "repository"

const (
	// leastInterval is the shortest time between two reads that nobody asked for, and usualInterval the one of a Repository that names none.
	leastInterval, usualInterval = 15 * time.Minute, 30 * time.Minute
	// usualTimeout bounds a read, and mostTimeout what a Repository may ask for.
	usualTimeout, mostTimeout = 2 * time.Minute, 10 * time.Minute
	// parallel is how many Repositories are read at once: a slow one holds up no other.
	parallel = 3
)

// Setup adds the controller to mgr.
func Setup(_ context.Context, mgr manager.Manager, from *source.Client) error {
	r := New(mgr.GetClient(), mgr.GetAPIReader(), from, time.Now)
	of := enqueue.ByLabel(v1alpha1.LabelRepository)
	// At the start there may be versions of a Repository that was deleted meanwhile; a version that is deleted may have to come back.
	comesOrGoes := enqueue.OnComingOrGoing(func(o client.Object) { r.forget(o.GetLabels()[v1alpha1.LabelRepository]) })
	return builder.ControllerManagedBy(mgr).Named(Name).For(&v1alpha1.Repository{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: parallel}).
		Watches(&v1alpha1.ExtensionVersion{}, of, builder.WithPredicates(comesOrGoes)).
		Watches(&v1alpha1.InstallPlan{}, handler.EnqueueRequestsFromMapFunc(r.ofPlan)).Complete(r)
}

// New returns the reconciler. live reads without a cache.
func New(c client.Client, live client.Reader, from *source.Client, now func() time.Time) *Reconciler {
	return &Reconciler{client: c, live: live, source: from, now: now}
}

// Reconciler reconciles Repositories.
type Reconciler struct {
	client client.Client
	live   client.Reader
	source *source.Client
	now    func() time.Time
	reads  polling.Memory[read]
	// taking is held while what was read is taken over: of two Repositories with one extension the second has to see what the first made.
	taking sync.Mutex
}

// read is what the last read of a Repository found out. It is lost on a restart, which costs one more read and no write.
type read struct {
	// uid, spec and sync are of the Repository as it was read.
	uid  types.UID
	spec v1alpha1.RepositorySpec
	sync string
	// seen is the index that was taken over.
	seen source.Seen
	turn polling.Turn
	// orphans says that versions stay only because they are in use.
	orphans bool
	// incomplete says that nothing was removed, as the index may be cut off.
	incomplete bool
}

// whole has the next read take over all that there is, whether or not it has changed.
func (is *read) whole() { is.seen = source.Seen{} }

// forget has a Repository be read as a whole the next time: objects that come of it are gone.
func (r *Reconciler) forget(name string) { r.reads.Edit(name, (*read).whole) }

// remove forgets a Repository that is gone. The others may have what it had, and are read as a whole the next time.
func (r *Reconciler) remove(name string) {
	if r.reads.Delete(name) {
		r.reads.EditAll((*read).whole)
	}
}

// ofPlan returns the Repositories that have versions of a plan's extension: one that is used no more may have to go.
func (r *Reconciler) ofPlan(ctx context.Context, o client.Object) []reconcile.Request {
	plan, ok := o.(*v1alpha1.InstallPlan)
	if !ok {
		return nil
	}
	all := &v1alpha1.ExtensionVersionList{}
	if err := r.client.List(ctx, all, client.MatchingLabels{v1alpha1.LabelExtension: plan.Spec.Extension.Name}); err != nil {
		return nil // the name is no value of a label: no version is of it
	}
	of := map[string]bool{}
	for i := range all.Items {
		if meta.IsStatusConditionTrue(all.Items[i].Status.Conditions, v1alpha1.ConditionOrphaned) {
			of[all.Items[i].Labels[v1alpha1.LabelRepository]] = true
		}
	}
	return enqueue.Named(slices.Sorted(maps.Keys(of))...)
}

// Reconcile reads one Repository if it is time to.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	repository := &v1alpha1.Repository{}
	err := r.client.Get(ctx, req.NamespacedName, repository)
	if client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, err
	}
	if err != nil || !repository.DeletionTimestamp.IsZero() {
		r.remove(req.Name)
		if _, err := r.prune(ctx, req.Name, nil); err != nil {
			return retry.OnConflict(0, err)
		}
		return retry.OnConflict(0, r.removeFinalizer(ctx, repository))
	}
	last, due := r.due(repository)
	if !due {
		if last.orphans {
			if err := r.pruneOrphans(ctx, req.Name, last); err != nil {
				return retry.OnConflict(0, err)
			}
		}
		return reconcile.Result{RequeueAfter: last.turn.Wait(r.now())}, nil
	}
	return r.sync(ctx, repository, last)
}

// removeFinalizer removes the finalizer of an earlier installation.
func (r *Reconciler) removeFinalizer(ctx context.Context, repository *v1alpha1.Repository) error {
	before := repository.DeepCopy()
	if !controllerutil.RemoveFinalizer(repository, v1alpha1.FinalizerRepository) {
		return nil
	}
	return client.IgnoreNotFound(r.client.Patch(ctx, repository, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})))
}

// due returns what is known of the last read, and whether there has to be another one.
func (r *Reconciler) due(repository *v1alpha1.Repository) (read, bool) {
	last, known := r.reads.Get(repository.Name)
	now := read{uid: repository.UID, spec: repository.Spec, sync: repository.Annotations[v1alpha1.AnnotationSync]}
	switch {
	case !known || last.uid != now.uid || !equality.Semantic.DeepEqual(last.spec, now.spec):
		return now, true
	case last.sync != now.sync: // the user who asks for it wants it to be right again
		return now, true
	}
	return last, last.turn.Due(r.now())
}

// sync reads a Repository, and takes over what it has.
func (r *Reconciler) sync(ctx context.Context, repository *v1alpha1.Repository, last read) (reconcile.Result, error) {
	interval, timeout := times(&repository.Spec)
	found, err := r.take(ctx, repository, &last, timeout)
	var failed *source.Failure
	if err != nil && !errors.As(err, &failed) {
		return retry.OnConflict(0, fmt.Errorf("take over the repository %s: %w", repository.Name, err))
	}
	if failed != nil {
		klog.InfoS("a repository can't be read", "repository", repository.Name, "error", failed, "cause", failed.Cause)
	}
	wait := last.turn.Done(r.now(), interval, failed != nil)
	if err := r.note(ctx, repository, &last, found, failed); err != nil {
		return retry.OnConflict(0, err)
	}
	r.reads.Set(repository.Name, last)
	return reconcile.Result{RequeueAfter: wait}, nil
}

// times returns how often a Repository is read, and how long that may take.
func times(s *v1alpha1.RepositorySpec) (interval, timeout time.Duration) {
	interval, timeout = usualInterval, usualTimeout
	if u := s.UpdateStrategy; u != nil {
		if u.RegistryPoll != nil && u.RegistryPoll.Interval != nil {
			interval = max(u.RegistryPoll.Interval.Duration, leastInterval)
		}
		if u.Timeout != nil && u.Timeout.Duration > 0 {
			timeout = min(u.Timeout.Duration, mostTimeout)
		}
	}
	return interval, timeout
}

// outcome is what a read found.
type outcome struct {
	// taken says that objects were compared with the index: it is another one than the last.
	taken bool
	// changed says that something was written.
	changed bool
	// bad names the entries that are left out, and why.
	bad []string
}

// take reads what a repository has, and takes it over where that has changed. An error that is a Failure is of the repository, any other
// of the cluster.
func (r *Reconciler) take(ctx context.Context, repository *v1alpha1.Repository, last *read, timeout time.Duration) (outcome, error) {
	if len(repository.Name) > validation.LabelValueMaxLength {
		return outcome{}, &source.Failure{Reason: source.ReasonInvalid, Message: fmt.Sprintf(
			"metadata.name: it has more than %d letters, and is the value of a label of each version", validation.LabelValueMaxLength)}
	}
	access, err := source.AccessOf(repository)
	if err != nil {
		return outcome{}, err
	}
	reading, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	depth := depthOf(&repository.Spec)
	index, next, err := last.seen.Next(reading, r.source, access, depth)
	if err != nil || index == nil {
		return outcome{}, err
	}
	r.taking.Lock()
	defer r.taking.Unlock()
	wanted, bad, err := r.plan(ctx, repository, access, index, depth)
	if err != nil {
		return outcome{}, err
	}
	out, err := r.apply(ctx, repository, wanted, bad)
	if err != nil {
		return out, err
	}
	out.taken, last.incomplete = true, !index.Complete
	if index.Complete {
		pruned, err := r.prune(ctx, repository.Name, wanted)
		if err != nil {
			return out, err
		}
		out.changed = out.changed || pruned.changed
		last.orphans = pruned.orphans
	}
	last.seen = next
	return out, nil
}

// note writes the status where it says something else than it did.
func (r *Reconciler) note(ctx context.Context, repository *v1alpha1.Repository, now *read, found outcome, failed *source.Failure) error {
	before := repository.DeepCopy()
	s := &repository.Status
	s.Sync = now.sync
	synced := metav1.Condition{Type: v1alpha1.ConditionSynced, Status: metav1.ConditionTrue, Reason: "Synced", Message: "all of it was read"}
	switch {
	case failed != nil:
		synced.Status, synced.Reason, synced.Message = metav1.ConditionFalse, failed.Reason, failed.Message
	case now.incomplete:
		synced.Status, synced.Reason = metav1.ConditionFalse, "Incomplete"
		synced.Message = "the index does not show its end, as generated: does: what it has was taken over, and nothing was removed"
	}
	meta.SetStatusCondition(&s.Conditions, synced)
	if found.taken {
		meta.SetStatusCondition(&s.Conditions, entriesValid(found.bad))
	}
	if found.taken && (found.changed || s.LastSyncTime == nil) {
		s.LastSyncTime = &metav1.Time{Time: r.now()}
	}
	if equality.Semantic.DeepEqual(before, repository) {
		return nil
	}
	err := r.client.Patch(ctx, repository, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("note how the repository %s is: %w", repository.Name, err)
	}
	return nil
}

func entriesValid(bad []string) metav1.Condition {
	if len(bad) == 0 {
		return metav1.Condition{Type: v1alpha1.ConditionEntriesValid, Status: metav1.ConditionTrue, Reason: "Valid",
			Message: "all entries were taken over"}
	}
	return metav1.Condition{Type: v1alpha1.ConditionEntriesValid, Status: metav1.ConditionFalse, Reason: "Invalid",
		Message: chart.LeftOut(bad)}
}
