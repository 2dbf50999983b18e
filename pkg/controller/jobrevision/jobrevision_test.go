package jobrevision_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"kapis.dev/ks-apiserver/pkg/controller/controllertest"
	"kapis.dev/ks-apiserver/pkg/controller/jobrevision"
)

var began = time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)

// job returns a Job that has started.
func job(uid, revisions string, conditions ...batchv1.JobCondition) *batchv1.Job {
	three, start := int32(3), metav1.NewTime(began)
	j := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "j", Namespace: "ns", UID: types.UID(uid)},
		Spec:       batchv1.JobSpec{Completions: &three},
		Status:     batchv1.JobStatus{StartTime: &start, Conditions: conditions},
	}
	if revisions != "" {
		j.Annotations = map[string]string{jobrevision.Annotation: revisions}
	}
	return j
}

func condition(kind batchv1.JobConditionType, reason, message string) batchv1.JobCondition {
	return batchv1.JobCondition{Type: kind, Status: corev1.ConditionTrue, Reason: reason, Message: message,
		LastTransitionTime: metav1.NewTime(began.Add(time.Minute))}
}

// reconciled returns the annotation of a Job after the controller has seen it, and how often it wrote.
func reconciled(t *testing.T, j *batchv1.Job) (text string, writes int64) {
	t.Helper()
	c := controllertest.New(t, nil, j)
	r := &jobrevision.Reconciler{Client: c.Client}
	writes = c.Written(func() {
		if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(j)}); err != nil {
			t.Error(err)
		}
	})
	got := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: j.Name, Namespace: j.Namespace}}
	if !c.Has(got) {
		t.Fatal("the Job is gone")
	}
	return got.Annotations[jobrevision.Annotation], writes
}

func TestD11EachOutcomeOfAJobIsRecordedOnce(t *testing.T) {
	complete, done := condition(batchv1.JobComplete, "CompletionsReached", "Reached expected number of succeeded pods"), metav1.NewTime(began.Add(time.Hour))
	completed := job("a", `{"1":{"status":"unfinished","uid":"old"},"2":{"status":"running","uid":"a"}}`, complete)
	completed.Status.Succeeded, completed.Status.CompletionTime = 3, &done
	failed := job("b", "", condition(batchv1.JobFailureTarget, "no", "no"),
		condition(batchv1.JobFailed, "BackoffLimitExceeded", strings.Repeat("é", 2000)))
	failed.Status.Failed = 7
	noted := job("a", `{"1":{"status":"running","uid":"a","failed":1}}`)
	noted.Status.Failed = 2
	const runs = `"uid":"a","start-time":"2026-05-04T03:02:01Z"}`
	for name, c := range map[string]struct {
		job    *batchv1.Job
		want   string
		writes int64
	}{
		"the first run": {
			job:    job("a", ""),
			want:   `{"1":{"status":"running","desire":3,` + runs + `}`,
			writes: 1,
		},
		"a run after another": {
			job:    job("a", `{"4":{"status":"unfinished","uid":"old","kept":true}}`),
			want:   `{"4":{"status":"unfinished","uid":"old","kept":true},"5":{"status":"running","desire":3,` + runs + `}`,
			writes: 1,
		},
		"a completed one": {
			job: completed,
			want: `{"1":{"status":"unfinished","uid":"old"},"2":{"status":"completed","reasons":["CompletionsReached"],` +
				`"messages":["Reached expected number of succeeded pods"],"succeed":3,"desire":3,"uid":"a",` +
				`"start-time":"2026-05-04T03:02:01Z","completion-time":"2026-05-04T04:02:01Z"}}`,
			writes: 1,
		},
		"a failed one, whose message is long": {
			job: failed,
			want: `{"1":{"status":"failed","reasons":["BackoffLimitExceeded"],"messages":["` + strings.Repeat("é", 512) + `"],` +
				`"desire":3,"failed":7,"uid":"b","start-time":"2026-05-04T03:02:01Z","completion-time":"2026-05-04T03:03:01Z"}}`,
			writes: 1,
		},
		"a pod failed, and no outcome": {
			job:  noted,
			want: `{"1":{"status":"running","uid":"a","failed":1}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, writes := reconciled(t, c.job)
			if got != c.want || writes != c.writes {
				t.Errorf("got %s with %d writes, want %s with %d", got, writes, c.want, c.writes)
			}
			c.job.Annotations = map[string]string{jobrevision.Annotation: got}
			if again, writes := reconciled(t, c.job); again != got || writes != 0 {
				t.Errorf("a second time %s with %d writes, want %s with none", again, writes, got)
			}
		})
	}
}

func TestD11JobsWithoutARunAreLeftAlone(t *testing.T) {
	suspended := job("a", "")
	suspended.Status.StartTime = nil
	ending := job("a", "")
	ending.DeletionTimestamp, ending.Finalizers = &metav1.Time{Time: began}, []string{"example.com/held"}
	jobs := map[string]*batchv1.Job{"a suspended one": suspended, "one that is being deleted": ending}
	for _, text := range []string{
		"3",
		"null",
		"[]",
		"hello",
		`{"a":{}}`,
		`{"0":{}}`,
		`{"-1":{}}`,
		`{"9223372036854775807":{}}`,
		`{"1":{"status":"` + strings.Repeat("x", 64<<10) + `"}}`,
	} {
		jobs[fmt.Sprintf("an annotation of another form: %.20s", text)] = job("a", text)
	}
	for name, j := range jobs {
		t.Run(name, func(t *testing.T) {
			if got, writes := reconciled(t, j); got != j.Annotations[jobrevision.Annotation] || writes != 0 {
				t.Errorf("it has %.100s after %d writes", got, writes)
			}
		})
	}
	c := controllertest.New(t, nil)
	c.Reconcile(&jobrevision.Reconciler{Client: c.Client}, "gone")
}

func TestD11TheNewestRunsAreKept(t *testing.T) {
	var old []string
	for n := 1; n <= 10; n++ {
		old = append(old, fmt.Sprintf(`"%d":{"status":"failed","uid":"%d"}`, n, n))
	}
	got, _ := reconciled(t, job("a", "{"+strings.Join(old, ",")+"}"))
	runs := map[int]struct{ UID string }{}
	if err := json.Unmarshal([]byte(got), &runs); err != nil {
		t.Fatal(err)
	}
	if len(runs) != 10 || runs[1].UID != "" || runs[2].UID != "2" || runs[11].UID != "a" {
		t.Errorf("got %s, want the runs 2 to 11", got)
	}
}
