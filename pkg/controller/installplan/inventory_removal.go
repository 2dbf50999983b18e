package installplan

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

	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/controller/extensionrelease"
	"kapis.dev/ks-apiserver/pkg/controller/installer"
	"kapis.dev/ks-apiserver/pkg/extension/permission"
)

// Annotations by which Helm says whose an object is, and that one stays when its release goes.
const (
	ofHelmRelease, ofHelmNamespace = "meta.helm.sh/release-name", "meta.helm.sh/release-namespace"
	helmPolicy, helmKeep           = "helm.sh/resource-policy", "keep"
)

// removeNoted removes what was noted of a release whose record is gone, as it is with its namespace: webhooks, roles and bindings of the
// cluster would stay, and nothing else knows them. Definitions of kinds stay, and so does what is not the release's by now. It returns what
// stays since it says so.
func (r records) removeNoted(ctx context.Context, plan *v1alpha1.InstallPlan) (kept []string, err error) {
	known, err := r.kept().Noted(ctx, r.name(plan), plan.Status.TargetNamespace)
	if err != nil {
		return nil, err
	}
	own, err := r.within(ctx, known.Own())
	if err != nil || len(own) == 0 {
		return nil, err
	}
	err = r.installers().While(ctx, plan.Name, permission.ForRemoval(own), func() error {
		as, err := r.As(installer.User(plan.Name))
		if err != nil {
			return err
		}
		for i := range own {
			stays, err := r.removeOwn(ctx, as, plan, &own[i])
			if err != nil {
				return err
			}
			if stays != "" {
				kept = append(kept, stays)
			}
		}
		return nil
	})
	return kept, err
}

// within returns those of some objects, without definitions of kinds, that are of the cluster, or in a namespace that is there.
func (r records) within(ctx context.Context, of []permission.Object) (out []permission.Object, err error) {
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

// removeOwn removes an object, if it is the release's, and returns its name where it says that it stays.
func (r records) removeOwn(ctx context.Context, as client.Client, plan *v1alpha1.InstallPlan, o *permission.Object) (
	stays string, err error) {
	kind, err := r.Mapper.KindFor(schema.GroupVersionResource{Group: o.Group, Resource: o.Resource})
	if meta.IsNoMatchError(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("look up the kind of %s: %w", o.Resource, err)
	}
	name := extensionrelease.Object{Group: o.Group, Resource: o.Resource, Namespace: o.Namespace, Name: o.Name}
	is := &metav1.PartialObjectMetadata{}
	is.SetGroupVersionKind(kind)
	err = as.Get(ctx, client.ObjectKey{Namespace: o.Namespace, Name: o.Name}, is)
	a := is.Annotations
	switch {
	case apierrors.IsNotFound(err):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("read %s: %w", name, err)
	case a[ofHelmRelease] != r.release(plan.Name) || a[ofHelmNamespace] != plan.Status.TargetNamespace:
		return "", nil
	case a[helmPolicy] == helmKeep:
		return name.String(), nil
	}
	err = as.Delete(ctx, is, client.Preconditions{UID: &is.UID}, client.PropagationPolicy(metav1.DeletePropagationBackground))
	if client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("remove %s: %w", name, err)
	}
	return "", nil
}
