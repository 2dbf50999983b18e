package exchange

import (
	"context"
	"encoding/base64"
	"slices"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
)

// partSize is how much of a file one ConfigMap has, in bytes.
const partSize = 700 << 10

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

// Parts returns how many ConfigMaps a file of a size is in.
func Parts(size int) int { return (size + partSize - 1) / partSize }

// PartName returns the name of one of the ConfigMaps of a file.
func PartName(file string, part int) string { return file + "-" + strconv.Itoa(part) }

// Files are files that a hub has brought, each in ConfigMaps of a namespace.
type Files struct {
	Objects   dynamic.Interface
	Namespace string
	// Key is where a ConfigMap has its part.
	Key string
}

// Put keeps a file.
func (f Files) Put(ctx context.Context, hub, name string, raw []byte) error {
	to := f.Objects.Resource(configMaps).Namespace(f.Namespace)
	i := 0
	for part := range slices.Chunk(raw, partSize) {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
			"binaryData": map[string]any{f.Key: base64.StdEncoding.EncodeToString(part)}}}
		o.SetName(PartName(name, i))
		o.SetLabels(map[string]string{clusterv1alpha1.LabelFleet: hub})
		_, err := to.Create(ctx, o, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			_, err = to.Update(ctx, o, metav1.UpdateOptions{})
		}
		if err != nil {
			return err
		}
		i++
	}
	return nil
}

// Delete deletes those parts of a file that are not before the first one.
func (f Files) Delete(ctx context.Context, name string, first, parts int) error {
	for i := first; i < parts; i++ {
		err := f.Objects.Resource(configMaps).Namespace(f.Namespace).Delete(ctx, PartName(name, i), metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}
