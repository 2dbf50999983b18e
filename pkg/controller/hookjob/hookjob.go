// Package hookjob runs the images that charts of extensions want to be run before an operation, each as a Job, and waits for its end.
package hookjob

import (
	"cmp"
	"context"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// longest is how long an image may run, and every how often it is looked at.
	longest = 10 * time.Minute
	every   = 2 * time.Second
)

// Hook is an image that is run.
type Hook struct {
	// Namespace and Name are the Job's. Labels are those of the Job and of its pods, by which a Job of that name is known as an earlier one.
	Namespace, Name string
	Labels          map[string]string
	// Image runs as Account, told what is done (install, upgrade, uninstall), and in which cluster: its role (host, member) and its name.
	Image, Account                   string
	Action, ClusterRole, ClusterName string
	// NodeSelector is where it runs.
	NodeSelector map[string]string
	// Within is how long it may run; 0 for the longest time.
	Within time.Duration
}

func (h *Hook) within() time.Duration { return cmp.Or(h.Within, longest) }

// Failed says that an image did not end well.
type Failed struct{ Job, Message string }

func (f *Failed) Error() string {
	return "the hook image failed: the pods of the Job " + f.Job + " say why: " + f.Message
}

// Job returns the Job of a hook.
func (h *Hook) Job() *batchv1.Job {
	no, once, seconds := false, int32(0), int64(h.within()/time.Second)
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: h.Namespace, Name: h.Name, Labels: h.Labels},
		Spec: batchv1.JobSpec{BackoffLimit: &once, ActiveDeadlineSeconds: &seconds, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: h.Labels},
			Spec: corev1.PodSpec{ServiceAccountName: h.Account, RestartPolicy: corev1.RestartPolicyNever, NodeSelector: h.NodeSelector,
				Containers: []corev1.Container{{Name: "hook", Image: h.Image, Env: []corev1.EnvVar{{Name: "HOOK_ACTION", Value: h.Action},
					{Name: "CLUSTER_ROLE", Value: h.ClusterRole}, {Name: "CLUSTER_NAME", Value: h.ClusterName}},
					SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: &no}}}},
		}},
	}
}

// Run runs a hook in the place of the former one, and returns when it has ended: a *Failed where it has failed. The Job stays, with its
// log.
func (h *Hook) Run(ctx context.Context, as client.Client) error {
	job, is := h.Job(), &batchv1.Job{}
	key := client.ObjectKeyFromObject(job)
	err := wait.PollUntilContextTimeout(ctx, every, h.within(), true, func(ctx context.Context) (bool, error) {
		switch err := as.Get(ctx, key, is); {
		case apierrors.IsNotFound(err):
			return true, nil
		case err != nil:
			return false, err
		}
		for k, v := range h.Labels {
			if is.Labels[k] != v {
				return false, fmt.Errorf("there is a Job %s, and it is not this extension's", job.Name)
			}
		}
		if !is.DeletionTimestamp.IsZero() {
			return false, nil
		}
		return false, client.IgnoreNotFound(as.Delete(ctx, is, client.PropagationPolicy(metav1.DeletePropagationForeground)))
	})
	switch {
	case err == nil:
		err = as.Create(ctx, job)
	case wait.Interrupted(err) && ctx.Err() == nil:
		err = fmt.Errorf("the Job %s of an operation before this one is not deleted yet: its pods, or its finalizers, keep it", job.Name)
	}
	if err != nil {
		return fmt.Errorf("start the hook image: %w", err)
	}
	var away error
	err = wait.PollUntilContextTimeout(ctx, every, h.within()+time.Minute, true, func(ctx context.Context) (bool, error) {
		away = as.Get(ctx, key, is)
		switch {
		case apierrors.IsNotFound(away), away == nil && is.UID != job.UID:
			return false, fmt.Errorf("the Job %s was deleted before it had ended", job.Name)
		case apierrors.IsForbidden(away):
			return false, away
		case away != nil: // the image runs meanwhile: that kube-apiserver does not answer now is no reason to run it again
			return false, nil //nolint:nilerr // see away below
		}
		for _, c := range is.Status.Conditions {
			switch {
			case c.Status != corev1.ConditionTrue:
			case c.Type == batchv1.JobComplete:
				return true, nil
			case c.Type == batchv1.JobFailed:
				return true, &Failed{job.Name, c.Message}
			}
		}
		return false, nil
	})
	if wait.Interrupted(err) && ctx.Err() == nil && away != nil {
		err = away
	}
	if err != nil {
		return fmt.Errorf("run the hook image: %w", err)
	}
	return nil
}
