package fleet

import (
	"context"
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"kapis.dev/ks-apiserver/pkg/cluster/fleetsync"
)

var definitionsKind = apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")

// definitionTimeout bounds the reading of one definition.
const definitionTimeout = 10 * time.Second

// definitionOf reads the definitions of kinds: see fleetsync.Definition.
func definitionOf(definitions dynamic.ResourceInterface) fleetsync.Definition {
	return func(ctx context.Context, kind schema.GroupVersionResource) (since time.Time, err error) {
		ctx, cancel := context.WithTimeout(ctx, definitionTimeout)
		defer cancel()
		o, err := definitions.Get(ctx, kind.GroupResource().String(), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return time.Time{}, nil
		}
		if err != nil {
			return time.Time{}, err
		}
		d := &apiextensionsv1.CustomResourceDefinition{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, d); err != nil {
			return time.Time{}, err
		}
		serves := slices.ContainsFunc(d.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
			return v.Name == kind.Version && v.Served
		})
		if !serves || !d.DeletionTimestamp.IsZero() {
			return time.Time{}, nil
		}
		return d.CreationTimestamp.Time, nil
	}
}
