// Package crd distinguishes the deletion of an object from the deletion of its kind. When a CustomResourceDefinition is
// deleted, kube-apiserver deletes all its objects, and to a controller each deletion looks as if a user had asked for
// it.
package crd

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Going reports whether the definition of name, such as "workspaces.tenant.kubesphere.io", is being deleted or is gone.
// live reads without a cache.
func Going(ctx context.Context, live client.Reader, name string) (bool, error) {
	o := &metav1.PartialObjectMetadata{}
	o.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	err := live.Get(ctx, types.NamespacedName{Name: name}, o)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("read the definition %s: %w", name, err)
	}
	return !o.DeletionTimestamp.IsZero(), nil
}

// terminating is part of the error for creating an object of a kind that is being deleted. That error has no cause that
// would distinguish it from others.
const terminating = "not allowed while custom resource definition is terminating"

// Missing reports whether an error of a write, or of a look-up of a kind, means that the kind does not exist or is being
// deleted. For an error of reading one object it only means that the object is missing.
func Missing(err error) bool {
	return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) || apierrors.IsForbidden(err) && strings.Contains(err.Error(), terminating)
}
