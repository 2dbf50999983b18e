package exchange

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/dynamic"

	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/status"
)

// IsDigest reports whether a text is a SHA-256.
var IsDigest = regexp.MustCompile(`^[0-9a-f]{64}$`).MatchString

// IsHub reports whether a text can be the UID of a hub, which is the value of a label.
func IsHub(s string) bool { return s != "" && len(validation.IsValidLabelValue(s)) == 0 }

// Kept returns the objects of a kind that a hub keeps here.
func Kept(ctx context.Context, of dynamic.ResourceInterface, resource, hub string) ([]unstructured.Unstructured, error) {
	list, err := of.List(ctx, metav1.ListOptions{LabelSelector: clusterv1alpha1.LabelFleet + "=" + hub})
	if err != nil {
		return nil, fmt.Errorf("list %s of the fleet: %w", resource, err)
	}
	return list.Items, nil
}

// Object is what Write writes.
type Object interface {
	runtime.Object
	metav1.Object
}

// Write creates an object with the label of a hub, or gives the one that is here its spec, its labels and its annotations. An annotation
// with no text is left out.
func Write(ctx context.Context, of dynamic.ResourceInterface, kind schema.GroupVersionKind, o Object, hub string) error {
	raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return fmt.Errorf("encode the %s %s: %w", kind.Kind, o.GetName(), err)
	}
	next := &unstructured.Unstructured{Object: raw}
	next.SetGroupVersionKind(kind)
	delete(next.Object, "status")
	now, err := of.Get(ctx, o.GetName(), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		now = nil
	case err != nil:
		return err
	case now.GetLabels()[clusterv1alpha1.LabelFleet] == "":
		return status.Errorf(http.StatusConflict, "this cluster has a %s %s of its own: remove it there", kind.Kind, o.GetName())
	case now.GetLabels()[clusterv1alpha1.LabelFleet] != hub:
		return status.Errorf(http.StatusConflict, "another hub keeps the %s %s in this cluster", kind.Kind, o.GetName())
	case now.GetDeletionTimestamp() != nil:
		return status.Errorf(http.StatusConflict, "the %s %s is still being removed in this cluster", kind.Kind, o.GetName())
	}
	labels, annotations := map[string]string{}, map[string]string{}
	if now != nil {
		maps.Copy(labels, now.GetLabels())
		maps.Copy(annotations, now.GetAnnotations())
	}
	maps.Copy(labels, o.GetLabels())
	labels[clusterv1alpha1.LabelFleet] = hub
	for key, value := range o.GetAnnotations() {
		if annotations[key] = value; value == "" {
			delete(annotations, key)
		}
	}
	if now == nil {
		next.SetLabels(labels)
		next.SetAnnotations(annotations)
		_, err = of.Create(ctx, next, metav1.CreateOptions{})
		return err
	}
	before := now.DeepCopy()
	now.SetLabels(labels)
	now.SetAnnotations(annotations)
	now.Object["spec"] = next.Object["spec"]
	if EqualJSON(before.Object, now.Object) {
		return nil
	}
	_, err = of.Update(ctx, now, metav1.UpdateOptions{})
	return err
}

// Remove deletes an object of a hub, whose controller then removes what it installed.
func Remove(ctx context.Context, of dynamic.ResourceInterface, o *unstructured.Unstructured) error {
	uid := o.GetUID()
	err := of.Delete(ctx, o.GetName(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// EqualJSON reports whether two values have the same JSON.
func EqualJSON(a, b any) bool {
	one, err := json.Marshal(a)
	other, err2 := json.Marshal(b)
	return err == nil && err2 == nil && bytes.Equal(one, other)
}
