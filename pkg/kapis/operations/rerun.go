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

// rerun replaces a Job by a new one of the same name. A name is free only once its object is gone, so
// there is a moment with no Job of that name. What keeps it from being lost then:
//
//   - Before anything is changed, kube-apiserver is asked, without effect, whether it would delete the
//     Job and whether it would create the new one: rights, admission and quota.
//   - Then the manifest is parked: a second, suspended Job has it in an annotation. From here until
//     the new Job is there, the cluster itself has the manifest, whatever becomes of this process.
//   - Only then is the Job deleted, if it is still the one that was read.
//   - The creation is tried again while that may help. Where it fails for good, the error names the
//     parked Job; and to ask for the rerun once more creates the Job from there.
type rerun struct {
	kube            jobs
	name            string
	version         string // asked for, empty for any
	pause, patience time.Duration
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
	// The point of no return: from here on, that the client is gone changes nothing.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), x.patience+10*time.Second)
	defer cancel()
	switch err := x.kube.delete(ctx, job, false); {
	case err == nil:
		return x.finish(ctx, m, job.GetUID(), kept)
	case apierrors.IsNotFound(err) || isPassing(err):
		return explain(err, "Job %s may have been deleted: %v. It is not lost: Job %s keeps it, suspended. Ask for the rerun again", x.name, err,
			kept.GetName())
	case ours:
		x.clear(ctx, kept) // the Job itself is there
		fallthrough
	default:
		return err
	}
}

// explain is err, with its code, in other words.
func explain(err error, format string, args ...any) error {
	s := metav1.Status{Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError}
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		s = status.Status()
	}
	s.Status, s.Message = metav1.StatusFailure, fmt.Sprintf(format, args...)
	return &apierrors.StatusError{ErrStatus: s}
}

// check refuses what could not be replaced at once, or is not what the caller has seen.
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

// dryRun asks for all that is going to be done, without effect.
func (x *rerun) dryRun(ctx context.Context, job, m *unstructured.Unstructured) error {
	if _, err := x.kube.request(ctx, http.MethodDelete, parkedName(x.name), "", nil); err != nil {
		return err
	}
	if err := x.kube.delete(ctx, job, true); err != nil {
		return err
	}
	// That the name is taken is what is found out last: everything else is fine then.
	switch _, err := x.kube.create(ctx, m, true); {
	case apierrors.IsAlreadyExists(err):
		return nil
	case err != nil:
		return err
	}
	return x.conflict("it was deleted meanwhile")
}

// park keeps m in the cluster; ours tells that it was not there before.
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
	// An earlier rerun left it, and the Job is another since. The Job is there, so it may go.
	if err := x.kube.delete(ctx, kept, false); err != nil {
		return nil, false, err
	}
	kept, err = x.kube.create(ctx, p, false)
	return kept, true, err
}

// resume ends a rerun that did not come to its end: the Job is not there, but perhaps it is parked.
func (x *rerun) resume(ctx context.Context, missing error) error {
	kept, err := x.kube.get(ctx, parkedName(x.name))
	if err != nil {
		return missing
	}
	m, err := unparked(kept, x.name)
	if err != nil {
		return missing
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), x.patience+10*time.Second)
	defer cancel()
	return x.finish(ctx, m, "", kept)
}

// finish creates the Job from m, and clears what was parked away.
func (x *rerun) finish(ctx context.Context, m *unstructured.Unstructured, old types.UID, kept *unstructured.Unstructured) error {
	if err := x.create(ctx, m, old); err != nil {
		return explain(err, "Job %s was deleted, but could not be created again: %v. It is not lost: Job %s keeps it, suspended. Ask for the"+
			" rerun again to create it from there",
			x.name, err, kept.GetName())
	}
	x.clear(ctx, kept)
	return nil
}

// create creates the Job, as often as it takes: the old one, whose uid is given, may need a moment to
// go, and a quota a moment to notice.
func (x *rerun) create(ctx context.Context, m *unstructured.Unstructured, old types.UID) error {
	until := time.NewTimer(x.patience)
	defer until.Stop()
	unsure := false // an attempt may have succeeded without a word
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

// isPassing tells errors that say nothing about the Job: kube-apiserver could not be reached, was too
// busy, or did not answer.
func isPassing(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return true
	}
	code := status.Status().Code
	return code >= http.StatusInternalServerError || code == http.StatusTooManyRequests || code == http.StatusRequestTimeout
}

// isQuota tells the refusal of a ResourceQuota, which counts a Job for a moment after it has gone.
func isQuota(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota")
}

// clear deletes a parked Job that is needed no more. That it stays is no fault of the rerun.
func (x *rerun) clear(ctx context.Context, kept *unstructured.Unstructured) {
	kept = kept.DeepCopy()
	kept.SetResourceVersion("") // whatever has become of it since
	if err := x.kube.delete(ctx, kept, false); err != nil && !apierrors.IsNotFound(err) {
		klog.ErrorS(err, "A Job that a rerun had parked is left over; it is suspended and can be deleted", "namespace", x.kube.namespace, "name",
			kept.GetName())
	}
}
