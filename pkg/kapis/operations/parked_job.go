package operations

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Annotations of a parked Job.
const (
	rerunOfAnnotation  = "operations.kapis.dev/rerun-of"
	manifestAnnotation = "operations.kapis.dev/manifest"
)

// parkedName returns the name of the Job that holds the manifest of another while that is replaced. It is always the same for one Job,
// so that it is found again, and short enough for the names of the Pods of an indexed Job.
func parkedName(name string) string {
	sum := sha256.Sum256([]byte(name))
	base := strings.TrimRight(name[:min(len(name), 40)], "-.")
	return base + "-rerun-" + hex.EncodeToString(sum[:4])
}

// parked returns the Job that holds m: suspended, so it runs nothing, and without an owner, so it is not garbage collected. The
// manifest is an annotation, since the specification of a Job that runs nothing is not that of m.
func parked(m *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	text, err := json.Marshal(m.Object)
	if err != nil {
		return nil, fmt.Errorf("encode Job %s: %w", m.GetName(), err)
	}
	spec := m.DeepCopy().Object["spec"]
	out := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "batch/v1", "kind": "Job", "spec": spec}}
	out.SetName(parkedName(m.GetName()))
	out.SetNamespace(m.GetNamespace())
	out.SetAnnotations(map[string]string{rerunOfAnnotation: m.GetName(), manifestAnnotation: string(text)})
	unstructured.RemoveNestedField(out.Object, "spec", "selector")
	unstructured.RemoveNestedField(out.Object, "spec", "manualSelector")
	if err := unstructured.SetNestedField(out.Object, true, "spec", "suspend"); err != nil {
		return nil, fmt.Errorf("suspend Job %s: %w", m.GetName(), err)
	}
	return out, nil
}

// unparked returns the manifest of the Job called name that p holds.
func unparked(p *unstructured.Unstructured, name string) (*unstructured.Unstructured, error) {
	annotations := p.GetAnnotations()
	if annotations[rerunOfAnnotation] != name {
		return nil, errors.New("it is another Job's")
	}
	m := &unstructured.Unstructured{}
	if err := m.UnmarshalJSON([]byte(annotations[manifestAnnotation])); err != nil {
		return nil, fmt.Errorf("read the parked manifest: %w", err)
	}
	if m.GetName() != name || m.GetNamespace() != p.GetNamespace() || m.GetKind() != "Job" || m.GetAPIVersion() != "batch/v1" {
		return nil, errors.New("its manifest is not this Job's")
	}
	return m, nil
}
