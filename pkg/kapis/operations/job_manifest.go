package operations

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// revisionsAnnotation holds, as JSON, the outcome of each run of a Job.
const revisionsAnnotation = "revisions"

// ownLabels are set on a Job and its Pods by the cluster, for this one incarnation of it.
var ownLabels = []string{"controller-uid", "job-name", "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name"}

// manifest returns the manifest of another run of job: all that the user wanted, and nothing that the cluster added. Owners stay: a
// CronJob continues to count it among its own.
func manifest(job *unstructured.Unstructured) *unstructured.Unstructured {
	in := job.DeepCopy()
	out := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "batch/v1", "kind": "Job", "spec": in.Object["spec"]}}
	out.SetName(in.GetName())
	out.SetNamespace(in.GetNamespace())
	labels := in.GetLabels()
	if manual, _, _ := unstructured.NestedBool(in.Object, "spec", "manualSelector"); !manual {
		labels = without(labels, ownLabels)
		unstructured.RemoveNestedField(out.Object, "spec", "selector")
		for _, label := range ownLabels {
			unstructured.RemoveNestedField(out.Object, "spec", "template", "metadata", "labels", label)
		}
	}
	if len(labels) > 0 {
		out.SetLabels(labels)
	}
	if owners := in.GetOwnerReferences(); len(owners) > 0 {
		out.SetOwnerReferences(owners)
	}
	if annotations := in.GetAnnotations(); len(annotations) > 0 {
		if text, ok := annotations[revisionsAnnotation]; ok { // a run that this one interrupts
			annotations[revisionsAnnotation] = strings.ReplaceAll(text, "running", "unfinished")
		}
		out.SetAnnotations(annotations)
	}
	return out
}

func without(labels map[string]string, names []string) map[string]string {
	for _, name := range names {
		delete(labels, name)
	}
	return labels
}
