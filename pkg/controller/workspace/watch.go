package workspace

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
	"kapis.dev/ks-apiserver/pkg/controller/builtinrole"
)

func request(name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Name: name}}
}

// managerOf is the index function of managerField.
func managerOf(o client.Object) []string {
	if w := o.(*tenantv1beta1.Workspace); w.Spec.Manager != "" {
		return []string{w.Spec.Manager}
	}
	return nil
}

// managedBy returns the workspaces that a user manages.
func (r *Reconciler) managedBy(ctx context.Context, user client.Object) []reconcile.Request {
	return r.list(ctx, client.MatchingFields{managerField: user.GetName()})
}

// patterned returns the workspaces that a pattern of roles may concern.
func (r *Reconciler) patterned(ctx context.Context, o client.Object) []reconcile.Request {
	if builtinrole.KindOf(o.(*iamv1beta1.BuiltinRole)) == iamv1beta1.KindRole {
		return nil
	}
	return r.list(ctx)
}

func (r *Reconciler) list(ctx context.Context, options ...client.ListOption) []reconcile.Request {
	all := &tenantv1beta1.WorkspaceList{}
	if err := r.Client.List(ctx, all, append(options, client.UnsafeDisableDeepCopy)...); err != nil {
		klog.ErrorS(err, "Can't list the workspaces that a change may concern")
		return nil
	}
	out := make([]reconcile.Request, len(all.Items))
	for i := range all.Items {
		out[i] = request(all.Items[i].Name)
	}
	return out
}
