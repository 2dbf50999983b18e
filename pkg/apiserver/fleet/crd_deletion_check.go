package fleet

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"kapis.dev/ks-apiserver/pkg/cluster/fleetsync"
)

var definitionsKind = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// definitionTimeout bounds the reading of one definition.
const definitionTimeout = 10 * time.Second

// definitionGoing reads the definitions of kinds: see fleetsync.Going.
func definitionGoing(definitions dynamic.ResourceInterface) fleetsync.Going {
	return func(ctx context.Context, kind schema.GroupVersionResource) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, definitionTimeout)
		defer cancel()
		o, err := definitions.Get(ctx, kind.GroupResource().String(), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return err == nil && o.GetDeletionTimestamp() != nil, err
	}
}
