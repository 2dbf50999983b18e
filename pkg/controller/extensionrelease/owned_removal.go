package extensionrelease

import (
	"context"
	"fmt"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kapis.dev/ks-apiserver/pkg/extension/permission"
)

// AnnotationHelmRelease and ofHelmNamespace are annotations by which Helm says whose an object is, and helmPolicy is the one by which an
// object says that it stays when its release goes.
const (
	AnnotationHelmRelease = "meta.helm.sh/release-name"
	ofHelmNamespace       = "meta.helm.sh/release-namespace"
	helmPolicy, helmKeep  = "helm.sh/resource-policy", "keep"
)

// Without returns those of some objects that are not among others.
func Without(of, others []permission.Object) []permission.Object {
	known := map[Object]bool{}
	for i := range others {
		known[objectOf(&others[i])] = true
	}
	return slices.DeleteFunc(slices.Clone(of), func(o permission.Object) bool { return known[objectOf(&o)] })
}

// Removable returns those of some objects, without definitions of kinds, that are of the cluster, or in a namespace that is there.
func (r Records) Removable(ctx context.Context, of []permission.Object) (out []permission.Object, err error) {
	known := map[string]bool{"": true}
	for _, o := range of {
		is, ok := known[o.Namespace]
		if !ok {
			if is, err = isThere(ctx, r.Client, r.Live, o.Namespace); err != nil {
				return nil, err
			}
			known[o.Namespace] = is
		}
		if is && o.Group != apiextensionsv1.GroupName {
			out = append(out, o)
		}
	}
	return slices.Clip(out), nil
}

// Remove removes those of some objects that are a release's, as somebody. It returns what stays since it says so.
func (r Records) Remove(ctx context.Context, as client.Client, release, namespace string, objects []permission.Object) (
	kept []string, err error) {
	for i := range objects {
		stays, err := r.remove(ctx, as, release, namespace, objectOf(&objects[i]))
		if err != nil {
			return kept, err
		}
		if stays {
			kept = append(kept, objectOf(&objects[i]).String())
		}
	}
	return kept, nil
}

// remove removes an object, if it is the release's, and reports whether it says that it stays.
func (r Records) remove(ctx context.Context, as client.Client, release, namespace string, o Object) (stays bool, err error) {
	kind, err := r.Mapper.KindFor(schema.GroupVersionResource{Group: o.Group, Resource: o.Resource})
	if meta.IsNoMatchError(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look up the kind of %s: %w", o.Resource, err)
	}
	is := &metav1.PartialObjectMetadata{}
	is.SetGroupVersionKind(kind)
	err = as.Get(ctx, client.ObjectKey{Namespace: o.Namespace, Name: o.Name}, is)
	a := is.Annotations
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read %s: %w", o, err)
	case a[AnnotationHelmRelease] != release || a[ofHelmNamespace] != namespace:
		return false, nil
	case a[helmPolicy] == helmKeep:
		return true, nil
	}
	err = as.Delete(ctx, is, client.Preconditions{UID: &is.UID}, client.PropagationPolicy(metav1.DeletePropagationBackground))
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("remove %s: %w", o, err)
	}
	return false, nil
}
