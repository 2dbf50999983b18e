// Package apprepo takes over what Repos have into the application store: an Application for each chart in an index, and an
// ApplicationVersion for each of its newest versions. Packages are not read: that is done when somebody asks for one.
package apprepo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	applicationv2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	"kapis.dev/ks-apiserver/pkg/chart"
	"kapis.dev/ks-apiserver/pkg/chart/source"
	"kapis.dev/ks-apiserver/pkg/controller/enqueue"
	"kapis.dev/ks-apiserver/pkg/controller/polling"
	"kapis.dev/ks-apiserver/pkg/controller/retry"
)

// Name is the controller's name.
const Name = "apprepo"

const (
	// leastPeriod is the shortest time between two reads that nobody asked for.
	leastPeriod = 180 * time.Second
	// timeout bounds a read.
	timeout = 2 * time.Minute
	// parallel is how many Repos are read at once: a slow one holds up no other.
	parallel = 3
)

// Setup adds the controller to mgr.
func Setup(_ context.Context, mgr manager.Manager, from *source.Client) error {
	r := New(mgr.GetClient(), mgr.GetAPIReader(), from, mgr.GetEventRecorder(Name), time.Now)
	of := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
		return named(o.GetLabels()[applicationv2.LabelRepo])
	})
	// At the start there may be applications of a Repo that was deleted meanwhile; one that is deleted may have to come back.
	comesOrGoes := enqueue.OnComingOrGoing(func(o client.Object) { r.forget(o.GetLabels()[applicationv2.LabelRepo]) })
	return builder.ControllerManagedBy(mgr).Named(Name).For(&applicationv2.Repo{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: parallel}).
		Watches(&applicationv2.Application{}, of, builder.WithPredicates(comesOrGoes)).
		Watches(&applicationv2.ApplicationVersion{}, of, builder.WithPredicates(comesOrGoes)).
		Watches(&applicationv2.ApplicationRelease{}, handler.EnqueueRequestsFromMapFunc(r.ofRelease)).Complete(r)
}

// named returns the request for a Repo; what people upload is from none.
func named(name string) []reconcile.Request {
	if name == applicationv2.RepoUpload {
		return nil
	}
	return enqueue.Named(name)
}

// New returns the reconciler. live reads without a cache.
func New(c client.Client, live client.Reader, from *source.Client, events events.EventRecorder, now func() time.Time) *Reconciler {
	return &Reconciler{client: c, live: live, source: from, events: events, now: now}
}

// Reconciler reconciles Repos.
type Reconciler struct {
	client client.Client
	live   client.Reader
	source *source.Client
	events events.EventRecorder
	now    func() time.Time
	reads  polling.Memory[read]
}

// read is what the last read of a Repo found out. It is lost on a restart, which costs a Repo with a period one more read, and no write.
type read struct {
	// uid and spec are of the Repo as it was read.
	uid  types.UID
	spec applicationv2.RepoSpec
	// asked says that somebody waits for the read: it is new, changed, or to be read by hand.
	asked bool
	// seen is the index that was taken over.
	seen source.Seen
	turn polling.Turn
	// message is why it could not be read.
	message string
	// orphans are the objects that stay only because releases use them.
	orphans map[string]bool
}

// whole has the next read take over all that there is, whether or not it has changed.
func (is *read) whole() { is.seen = source.Seen{} }

// forget has a Repo be read as a whole the next time: objects that come of it are gone.
func (r *Reconciler) forget(name string) { r.reads.Edit(name, (*read).whole) }

// ofRelease returns the Repo whose version a release uses, or has used: it may have to go now.
func (r *Reconciler) ofRelease(ctx context.Context, o client.Object) []reconcile.Request {
	release, ok := o.(*applicationv2.ApplicationRelease)
	if !ok {
		return nil
	}
	for _, name := range []string{release.Spec.AppVersionID, release.Labels[applicationv2.LabelVersion]} {
		v := &applicationv2.ApplicationVersion{}
		if name != "" && r.client.Get(ctx, client.ObjectKey{Name: name}, v) == nil {
			return named(v.Labels[applicationv2.LabelRepo])
		}
	}
	return nil
}

// Reconcile reads one Repo if it is time to.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	repo := &applicationv2.Repo{}
	err := r.client.Get(ctx, req.NamespacedName, repo)
	if apierrors.IsNotFound(err) { // what is removed for that is not left to a cache
		err = r.live.Get(ctx, req.NamespacedName, repo)
	}
	if client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, err
	}
	if err != nil || !repo.DeletionTimestamp.IsZero() {
		r.reads.Delete(req.Name)
		if _, err := r.prune(ctx, req.Name, nil); err != nil {
			return retry.OnConflict(0, err)
		}
		return retry.OnConflict(0, r.removeFinalizers(ctx, repo))
	}
	last, due := r.due(repo)
	if !due {
		if len(last.orphans) > 0 {
			if err := r.pruneOrphans(ctx, req.Name, last.orphans); err != nil {
				return retry.OnConflict(0, err)
			}
		}
		return reconcile.Result{RequeueAfter: last.turn.Wait(r.now())}, nil
	}
	return r.sync(ctx, repo, last)
}

// removeFinalizers removes the finalizers of an earlier installation, which have no other controller.
func (r *Reconciler) removeFinalizers(ctx context.Context, repo *applicationv2.Repo) error {
	before, others := repo.DeepCopy(), []string{}
	for _, f := range repo.Finalizers {
		if domain, _, _ := strings.Cut(f, "/"); !strings.HasSuffix("."+domain, "."+applicationv2.GroupName) {
			others = append(others, f)
		}
	}
	if len(others) == len(repo.Finalizers) {
		return nil
	}
	repo.Finalizers = others
	return client.IgnoreNotFound(r.client.Patch(ctx, repo, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})))
}

// period returns how often a Repo is read, 0 for only when somebody asks for it.
func period(s *applicationv2.RepoSpec) time.Duration {
	if s.SyncPeriod == nil || *s.SyncPeriod <= 0 {
		return 0
	}
	return max(time.Duration(min(*s.SyncPeriod, int64(365*24*time.Hour/time.Second)))*time.Second, leastPeriod)
}

// due returns what is known of the last read, and whether there has to be another one.
func (r *Reconciler) due(repo *applicationv2.Repo) (read, bool) {
	last, known := r.reads.Get(repo.Name)
	now := read{uid: repo.UID, spec: repo.Spec}
	every := period(&repo.Spec)
	switch {
	case known && last.uid == now.uid && equality.Semantic.DeepEqual(last.spec, now.spec):
		now = last
	case !known && done(repo): // another process has read it
		if every > 0 {
			now.turn.Next = repo.Status.LastUpdateTime.Add(every)
		}
	default:
		now.asked = true
		return now, true
	}
	if now.asked = repo.Status.State == applicationv2.RepoManualTrigger; now.asked {
		now.whole() // the user who asks for it wants it to be right again
		return now, true
	}
	return now, now.turn.Due(r.now())
}

// done reports whether a Repo was read as it is, by what its status says.
func done(repo *applicationv2.Repo) bool {
	s := &repo.Status
	switch s.State {
	case applicationv2.RepoSuccessful, applicationv2.RepoFailed, applicationv2.RepoManualTrigger:
		return s.ObservedGeneration == repo.Generation && s.LastUpdateTime != nil
	}
	return false
}

// sync reads a Repo, and takes over what it has.
func (r *Reconciler) sync(ctx context.Context, repo *applicationv2.Repo, last read) (reconcile.Result, error) {
	if last.asked {
		r.reads.Delete(repo.Name) // until it is read, nothing is known of it
		if err := r.begin(ctx, repo); err != nil {
			return retry.OnConflict(0, err)
		}
	}
	found, err := r.take(ctx, repo, &last)
	var failed *source.Failure
	if err != nil && !errors.As(err, &failed) {
		return retry.OnConflict(0, fmt.Errorf("take over the Repo %s: %w", repo.Name, err))
	}
	if failed != nil {
		klog.InfoS("a Repo can't be read", "repo", repo.Name, "error", failed, "cause", failed.Cause)
	}
	wait := last.turn.Done(r.now(), period(&repo.Spec), failed != nil)
	last.spec = repo.Spec
	if err := r.note(ctx, repo, &last, found, failed); err != nil {
		return retry.OnConflict(0, err)
	}
	last.asked = false
	r.reads.Set(repo.Name, last)
	return reconcile.Result{RequeueAfter: wait}, nil
}

// begin notes that a Repo is being read. It fails with a conflict for one that is not as it was seen.
func (r *Reconciler) begin(ctx context.Context, repo *applicationv2.Repo) error {
	before := repo.DeepCopy()
	if source.WithoutUserinfo(&repo.Spec) {
		delete(repo.Annotations, corev1.LastAppliedConfigAnnotation) // kubectl repeats the URL there
		err := r.client.Patch(ctx, repo, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
		switch {
		case apierrors.IsForbidden(err): // a credential stays that was written for the address as it is
			*repo = *before
		case err != nil:
			return fmt.Errorf("move the password in the URL of the Repo %s into its credential: %w", repo.Name, err)
		}
	}
	before = repo.DeepCopy()
	if repo.Status.State == applicationv2.RepoSyncing {
		return nil
	}
	repo.Status.State = applicationv2.RepoSyncing
	return r.patchStatus(ctx, repo, before)
}

func (r *Reconciler) patchStatus(ctx context.Context, repo, before *applicationv2.Repo) error {
	err := r.client.Status().Patch(ctx, repo, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("note how the Repo %s is: %w", repo.Name, err)
	}
	return nil
}

// outcome is what a read found.
type outcome struct {
	// taken says that objects were compared with the index: it is another one than the last.
	taken bool
	// changed says that something was written.
	changed bool
	// apps and versions are how many the index has, of those that are taken.
	apps, versions int
	// bad names the entries that are left out, and why.
	bad []string
}

// take reads the index, or what a registry has, and takes it over where it has changed. An error that is a Failure is of the repository,
// any other of the cluster.
func (r *Reconciler) take(ctx context.Context, repo *applicationv2.Repo, last *read) (outcome, error) {
	switch {
	case repo.Name == applicationv2.RepoUpload:
		return outcome{}, &source.Failure{Reason: source.ReasonInvalid,
			Message: "metadata.name: it is that of what people upload, which is from no repository"}
	case len(repo.Name) > validation.LabelValueMaxLength:
		return outcome{}, &source.Failure{Reason: source.ReasonInvalid, Message: fmt.Sprintf(
			"metadata.name: it has more than %d letters, and is the value of a label of each application", validation.LabelValueMaxLength)}
	}
	access, err := source.AccessOfRepo(repo)
	if err != nil {
		return outcome{}, err
	}
	reading, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	index, next, err := last.seen.Next(reading, r.source, access, maxVersions)
	if err != nil || index == nil {
		return outcome{}, err
	}
	w, err := plan(repo, access, index)
	if err != nil {
		return outcome{}, err
	}
	out, err := r.apply(ctx, repo, w)
	if err != nil {
		return out, err
	}
	out.taken = true
	if index.Complete { // one that may be cut off takes nothing away
		pruned, err := r.prune(ctx, repo.Name, w)
		if err != nil {
			return out, err
		}
		out.changed = out.changed || pruned.changed
		last.orphans = pruned.orphans
	} else {
		out.bad = append([]string{"the index does not show its end, as generated: does, so nothing was removed"}, out.bad...)
	}
	last.seen = next
	return out, nil
}

// note writes the status where it says something else than it did, and tells the users who wait for it how the read went.
func (r *Reconciler) note(ctx context.Context, repo *applicationv2.Repo, now *read, found outcome, failed *source.Failure) error {
	before := repo.DeepCopy()
	s := &repo.Status
	was, message := now.message, ""
	s.State = applicationv2.RepoSuccessful
	if failed != nil {
		s.State, message = applicationv2.RepoFailed, failed.Message
	}
	s.ObservedGeneration, now.message = repo.Generation, message
	news := now.asked || found.changed || s.State != before.Status.State
	if news || s.LastUpdateTime == nil {
		s.LastUpdateTime = &metav1.Time{Time: r.now()}
	}
	if !equality.Semantic.DeepEqual(before.Status, repo.Status) {
		if err := r.patchStatus(ctx, repo, before); err != nil {
			return err
		}
	}
	switch {
	case failed != nil && (news || was != "" && was != message):
		r.events.Eventf(repo, nil, corev1.EventTypeWarning, failed.Reason, "Sync", "%s", chart.Clip(message, maxEvent))
	case failed == nil && news && len(found.bad) > 0:
		r.events.Eventf(repo, nil, corev1.EventTypeWarning, "EntriesLeftOut", "Sync", "%s", chart.Clip(chart.LeftOut(found.bad), maxEvent))
	case failed == nil && news && found.taken:
		r.events.Eventf(repo, nil, corev1.EventTypeNormal, "Synced", "Sync", "%d applications with %d versions were read",
			found.apps, found.versions)
	case failed == nil && news:
		r.events.Eventf(repo, nil, corev1.EventTypeNormal, "Synced", "Sync", "nothing has changed")
	}
	return nil
}

// maxEvent bounds the note of an Event, which has at most 1 KiB.
const maxEvent = 1000
