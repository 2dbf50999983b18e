package namespace

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
	"kapis.dev/ks-apiserver/pkg/controller/builtinrole"
)

// roles makes the roles that the namespace lacks and updates the others. The first time, its creator gets one if the
// namespace is in a workspace.
func (r *Reconciler) roles(ctx context.Context, ns *metav1.PartialObjectMetadata, inWorkspace bool) error {
	all, broken, err := builtinrole.Patterns(ctx, r.Client, iamv1beta1.KindRole)
	if err != nil {
		return err
	}
	if broken != nil {
		r.Events.Eventf(ns, nil, corev1.EventTypeWarning, "RolesIncomplete", "MakeRoles", "%v", broken)
	}
	patterns := builtinrole.For(all, ns.Labels)
	switch {
	case len(all) == 0:
		return nil // they may come later, and the creator is due a role then
	case len(patterns) == 0 && inWorkspace && ns.Annotations[tenantv1beta1.AnnotationCreator] != "":
		return r.settle(ctx, ns)
	case len(patterns) == 0:
		return nil
	}
	first := ns.Annotations[AnnotationInitialized] == ""
	if first && inWorkspace {
		if err := r.creator(ctx, ns, patterns); err != nil {
			return err
		}
	}
	for _, p := range patterns {
		role := &iamv1beta1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: p.Name}}
		if _, err := p.Keep(ctx, r.Client, role); err != nil {
			return fmt.Errorf("in namespace %q: %w", ns.Name, err)
		}
	}
	return r.settle(ctx, ns)
}
