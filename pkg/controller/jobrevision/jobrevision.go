// Package jobrevision records the runs of each Job in an annotation of it, which pages show as its history: a Job that runs again is
// another object, and the annotation goes along.
package jobrevision

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"kapis.dev/ks-apiserver/pkg/controller/retry"
)

// Name is the controller's name.
const Name = "job-revision"

// Setup adds the controller to mgr.
func Setup(_ context.Context, mgr manager.Manager) error {
	r := &Reconciler{Client: mgr.GetClient()}
	// A Job changes with each of its pods, and its record only with its status.
	missing := predicate.NewPredicateFuncs(func(o client.Object) bool {
		_, changed := annotation(o.(*batchv1.Job))
		return changed
	})
	missing.DeleteFunc = func(event.DeleteEvent) bool { return false }
	return builder.ControllerManagedBy(mgr).Named(Name).For(&batchv1.Job{}, builder.WithPredicates(missing)).Complete(r)
}

// Transform drops what this controller does not read of a Job: the template of its pods, which is most of it.
func Transform(job *batchv1.Job) {
	job.Spec.Template.Reset()
}

// Reconciler reconciles the annotation Annotation of Jobs.
type Reconciler struct{ Client client.Client }

// Reconcile records the present run of one Job.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	job := &batchv1.Job{}
	if err := r.Client.Get(ctx, req.NamespacedName, job); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	text, changed := annotation(job)
	if !changed {
		return reconcile.Result{}, nil
	}
	before := job.DeepCopy()
	if job.Annotations == nil {
		job.Annotations = map[string]string{}
	}
	job.Annotations[Annotation] = text
	err := r.Client.Patch(ctx, job, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		err = fmt.Errorf("record the run of Job %s: %w", req, err)
	}
	return retry.OnConflict(0, client.IgnoreNotFound(err))
}
