package operations

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
)

// rerun replaces a Job by a new one of the same name. A name is free only once its object is gone, so for a moment there is no Job of
// that name. These steps keep it from being lost:
//
//   - Before anything is changed, dry runs ask kube-apiserver whether it would delete the Job and whether it would create
//     the new one: rights, admission and quota.
//   - Then the manifest is parked: a second, suspended Job has it in an annotation. From here until the new Job exists,
//     the cluster itself has the manifest, even if this process ends.
//   - Only then is the Job deleted, if it is still the one that was read.
//   - The creation is retried while that may help. If it fails finally, the error names the parked Job; asking for the
//     rerun once more creates the Job from there.
type rerun struct {
	kube            jobs
	name            string
	version         string // the requested one, empty for any
	pause, retryFor time.Duration
}

func (x *rerun) run(ctx context.Context) error {
	job, err := x.kube.get(ctx, x.name)
	if apierrors.IsNotFound(err) {
		return x.resume(ctx, err)
	}
	if err != nil {
		return err
	}
	if err := x.check(job); err != nil {
		return err
	}
	m := manifest(job)
	if err := x.dryRun(ctx, job, m); err != nil {
		return err
	}
	kept, ours, err := x.park(ctx, m)
	if err != nil {
		return err
	}
	// The point of no return: from here on, it goes on even if the client disconnects.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), x.retryFor+10*time.Second)
	defer cancel()
	switch err := x.kube.delete(ctx, job, false); {
	case err == nil:
		return x.finish(ctx, m, job.GetUID(), kept)
	case apierrors.IsNotFound(err) || isPassing(err):
		return explain(err, "Job %s may have been deleted: %v. It is not lost: Job %s keeps it, suspended. Ask for the rerun again", x.name, err,
			kept.GetName())
	case ours:
		x.clear(ctx, kept) // the Job itself exists
		fallthrough
	default:
		return err
	}
}

// explain returns err with its code and another text.
func explain(err error, format string, args ...any) error {
	s := metav1.Status{Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError}
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		s = status.Status()
	}
	s.Status, s.Message = metav1.StatusFailure, fmt.Sprintf(format, args...)
	return &apierrors.StatusError{ErrStatus: s}
}

// check refuses a Job that can't be replaced at once, or is not the one that the caller has seen.
func (x *rerun) check(job *unstructured.Unstructured) error {
	switch {
	case x.version != "" && x.version != job.GetResourceVersion():
		return x.conflict("it has changed: its resourceVersion is %s, not %.100s; read it again", job.GetResourceVersion(), x.version)
	case job.GetDeletionTimestamp() != nil:
		return x.conflict("it is being deleted")
	case len(job.GetFinalizers()) > 0:
		return x.conflict("it has finalizers (%s), so its deletion may take any time: remove them, or delete and create it yourself",
			strings.Join(job.GetFinalizers(), ", "))
	}
	return nil
}

func (x *rerun) conflict(format string, args ...any) error {
	return apierrors.NewConflict(jobsResource, x.name, fmt.Errorf(format, args...))
}

// dryRun makes all of the writes as dry runs.
func (x *rerun) dryRun(ctx context.Context, job, m *unstructured.Unstructured) error {
	if _, err := x.kube.request(ctx, http.MethodDelete, parkedName(x.name), "", nil); err != nil {
		return err
	}
	if err := x.kube.delete(ctx, job, true); err != nil {
		return err
	}
	// That the name is taken is checked last: so everything else is fine.
	switch _, err := x.kube.create(ctx, m, true); {
	case apierrors.IsAlreadyExists(err):
		return nil
	case err != nil:
		return err
	}
	return x.conflict("it was deleted meanwhile")
}

// park stores m in the cluster; ours reports that it was not stored before.
func (x *rerun) park(ctx context.Context, m *unstructured.Unstructured) (kept *unstructured.Unstructured, ours bool, err error) {
	p, err := parked(m)
	if err != nil {
		return nil, false, err
	}
	kept, err = x.kube.create(ctx, p, false)
	if !apierrors.IsAlreadyExists(err) {
		return kept, true, err
	}
	if kept, err = x.kube.get(ctx, p.GetName()); err != nil {
		return nil, false, err
	}
	switch was := kept.GetAnnotations(); {
	case was[rerunOfAnnotation] != x.name:
		return nil, false, x.conflict("there is a Job %s, which is in the way: delete it", p.GetName())
	case was[manifestAnnotation] == p.GetAnnotations()[manifestAnnotation]:
		return kept, false, nil
	}
	// An earlier rerun left it, and the Job has been replaced since. The Job exists, so the parked one may be deleted.
	if err := x.kube.delete(ctx, kept, false); err != nil {
		return nil, false, err
	}
	kept, err = x.kube.create(ctx, p, false)
	return kept, true, err
}

// resume completes an interrupted rerun: the Job does not exist, but perhaps it is parked.
func (x *rerun) resume(ctx context.Context, missing error) error {
	kept, err := x.kube.get(ctx, parkedName(x.name))
	if err != nil {
		return missing
	}
	m, err := unparked(kept, x.name)
	if err != nil {
		return missing
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), x.retryFor+10*time.Second)
	defer cancel()
	return x.finish(ctx, m, "", kept)
}

// finish creates the Job from m, and deletes the parked one.
func (x *rerun) finish(ctx context.Context, m *unstructured.Unstructured, old types.UID, kept *unstructured.Unstructured) error {
	if err := x.create(ctx, m, old); err != nil {
		return explain(err, "Job %s was deleted, but could not be created again: %v. It is not lost: Job %s keeps it, suspended. Ask for the"+
			" rerun again to create it from there",
			x.name, err, kept.GetName())
	}
	x.clear(ctx, kept)
	return nil
}

// create creates the Job, with retries: the old one, whose uid is given, may need a moment to disappear, and a quota a moment to
// notice.
func (x *rerun) create(ctx context.Context, m *unstructured.Unstructured, old types.UID) error {
	until := time.NewTimer(x.retryFor)
	defer until.Stop()
	unsure := false // an attempt may have succeeded without an answer
	for pause := x.pause; ; pause = min(2*pause, time.Second) {
		_, err := x.kube.create(ctx, m, false)
		if err == nil {
			return nil
		}
		again := false
		switch {
		case apierrors.IsAlreadyExists(err):
			now, getErr := x.kube.get(ctx, x.name)
			if getErr == nil && now.GetUID() != old {
				if unsure {
					return nil
				}
				return x.conflict("another Job of this name was created meanwhile")
			}
			again = true
		case isPassing(err):
			again, unsure = true, true
		case isQuota(err):
			again = true
		}
		if !again {
			return err
		}
		select {
		case <-until.C:
			return err
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}

// isPassing reports whether an error says nothing about the Job: kube-apiserver could not be reached, was too busy, or did not answer.
func isPassing(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return true
	}
	code := status.Status().Code
	return code >= http.StatusInternalServerError || code == http.StatusTooManyRequests || code == http.StatusRequestTimeout
}

// isQuota reports whether an error is the refusal of a ResourceQuota, which counts a Job for a moment after it has gone.
func isQuota(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota")
}

// clear deletes a parked Job that is no longer needed. A failure to delete it is no failure of the rerun.
func (x *rerun) clear(ctx context.Context, kept *unstructured.Unstructured) {
	kept = kept.DeepCopy()
	kept.SetResourceVersion("") // in any version
	if err := x.kube.delete(ctx, kept, false); err != nil && !apierrors.IsNotFound(err) {
		klog.ErrorS(err, "A Job that a rerun had parked is left over; it is suspended and can be deleted", "namespace", x.kube.namespace, "name",
			kept.GetName())
	}
}
