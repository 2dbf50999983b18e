package jobrevision

import (
	"encoding/json"
	"maps"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kapis.dev/ks-apiserver/pkg/status"
)

// Annotation holds the runs of a Job: a JSON object of run by number, counted from 1.
const Annotation = "revisions"

const (
	// kept is how many runs are kept, the newest.
	kept = 10
	// maxText bounds an annotation that is read, and maxMessage a message that is written, in bytes.
	maxText, maxMessage = 64 << 10, 1 << 10
	// maxNumber bounds the number of a run.
	maxNumber = 1 << 30
)

// States of a run. One that was interrupted by another run is "unfinished", which the rerun writes.
const (
	running   = "running"
	completed = "completed"
	failed    = "failed"
)

// run is the record of one run; its JSON names are those that consoles read.
type run struct {
	Status   string   `json:"status"`
	Reasons  []string `json:"reasons,omitempty"`
	Messages []string `json:"messages,omitempty"`
	Succeed  int32    `json:"succeed,omitempty"`
	// Desire is how many pods are to succeed.
	Desire int32 `json:"desire,omitempty"`
	Failed int32 `json:"failed,omitempty"`
	// UID is the Job's, another one in each run.
	UID            types.UID    `json:"uid"`
	StartTime      *metav1.Time `json:"start-time,omitempty"`
	CompletionTime *metav1.Time `json:"completion-time,omitempty"`
}

// annotation returns the annotation that a Job is to have, and whether it differs from the one it has. A Job that has not started, such
// as a suspended one, has no run; one that is being deleted, or whose annotation has another form, stays as it is.
func annotation(job *batchv1.Job) (text string, changed bool) {
	if job.Status.StartTime == nil || !job.DeletionTimestamp.IsZero() {
		return "", false
	}
	runs, ok := parse(job.Annotations[Annotation])
	if !ok {
		return "", false
	}
	now := record(job)
	number := 1
	for n, raw := range runs {
		var r run
		if json.Unmarshal(raw, &r) == nil && r.UID == job.UID {
			if r.Status == now.Status {
				return "", false
			}
			number = n
			break
		}
		number = max(number, n+1)
	}
	raw, err := json.Marshal(now)
	if err != nil {
		return "", false
	}
	runs[number] = raw
	numbers := slices.Sorted(maps.Keys(runs))
	for _, n := range numbers[:max(0, len(numbers)-kept)] {
		delete(runs, n)
	}
	out, err := json.Marshal(runs)
	return string(out), err == nil
}

// parse reads the runs by number, each as it is.
func parse(text string) (runs map[int]json.RawMessage, ok bool) {
	runs = map[int]json.RawMessage{}
	if text == "" {
		return runs, true
	}
	if len(text) > maxText {
		return nil, false
	}
	if err := json.Unmarshal([]byte(text), &runs); err != nil || runs == nil {
		return nil, false
	}
	for n := range runs {
		if n < 1 || n > maxNumber {
			return nil, false
		}
	}
	return runs, true
}

// record returns the record of the Job's present run.
func record(job *batchv1.Job) *run {
	s := &job.Status
	r := &run{Status: running, Succeed: s.Succeeded, Desire: 1, Failed: s.Failed, UID: job.UID, StartTime: s.StartTime}
	switch {
	case job.Spec.Completions != nil:
		r.Desire = *job.Spec.Completions
	case job.Spec.Parallelism != nil:
		r.Desire = *job.Spec.Parallelism
	}
	for _, c := range s.Conditions {
		if c.Status != corev1.ConditionTrue {
			continue
		}
		switch c.Type {
		case batchv1.JobComplete:
			r.Status, r.CompletionTime = completed, s.CompletionTime
		case batchv1.JobFailed:
			r.Status, r.CompletionTime = failed, c.LastTransitionTime.DeepCopy()
		default:
			continue
		}
		if c.Reason != "" {
			r.Reasons = append(r.Reasons, c.Reason)
		}
		if c.Message != "" {
			r.Messages = append(r.Messages, status.Clip(c.Message, maxMessage))
		}
	}
	return r
}
