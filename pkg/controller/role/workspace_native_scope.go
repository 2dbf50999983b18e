package role

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
	"kapis.dev/ks-apiserver/pkg/controller/mirror"
)

// A role of a workspace becomes one native ClusterRole, a RoleBinding of it in every namespace of the workspace, and for the
// synthetic group of the role a ClusterRoleBinding for the workspace's cluster-scoped objects.

// workspaceField is the index of workspace roles and namespaces by their workspace.
const workspaceField = "kapis.dev/workspace"

// workspacePlace returns all namespaces of the role's workspace. A binding counts in the role's own workspace only: a
// binding of another workspace gives nothing.
func workspacePlace(ctx context.Context, c client.Reader, role client.Object) (mirror.NativeScope, error) {
	name, workspace := role.GetName(), role.GetLabels()[tenantv1beta1.LabelWorkspace]
	p := mirror.NativeScope{
		Workspace: workspace,
		Name:      mirror.NamePrefix + "workspace:" + name, Group: iamv1beta1.SyntheticGroup(iamv1beta1.ScopeWorkspace, workspace, name),
		ConditionalName:  conditionalPrefix + "workspace:" + name,
		ConditionalGroup: iamv1beta1.ConditionalGroup(iamv1beta1.ScopeWorkspace, "", name),
		Admit: func(binding client.Object) bool {
			return workspace != "" && binding.GetLabels()[tenantv1beta1.LabelWorkspace] == workspace
		},
	}
	if workspace == "" {
		return p, nil
	}
	namespaces := &metav1.PartialObjectMetadataList{}
	namespaces.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NamespaceList"))
	if err := c.List(ctx, namespaces, client.MatchingFields{workspaceField: workspace}, client.UnsafeDisableDeepCopy); err != nil {
		return p, fmt.Errorf("list the namespaces of workspace %q: %w", workspace, err)
	}
	for i := range namespaces.Items {
		p.Namespaces = append(p.Namespaces, namespaces.Items[i].Name)
	}
	return p, nil
}

// ofWorkspace returns the roles of a namespace's workspace.
func ofWorkspace(ctx context.Context, c client.Reader, namespace client.Object) []types.NamespacedName {
	workspace := namespace.GetLabels()[tenantv1beta1.LabelWorkspace]
	if workspace == "" {
		return nil
	}
	roles := &iamv1beta1.WorkspaceRoleList{}
	if err := c.List(ctx, roles, client.MatchingFields{workspaceField: workspace}, client.UnsafeDisableDeepCopy); err != nil {
		klog.ErrorS(err, "Can't list the roles of a namespace's workspace", "namespace", namespace.GetName(), "workspace", workspace)
		return nil
	}
	keys := make([]types.NamespacedName, len(roles.Items))
	for i := range roles.Items {
		keys[i] = types.NamespacedName{Name: roles.Items[i].Name}
	}
	return keys
}

// namespaceKind returns a Namespace of which only the metadata is read.
func namespaceKind() *metav1.PartialObjectMetadata {
	o := &metav1.PartialObjectMetadata{}
	o.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	return o
}

// workspaceOf is the index function of workspaceField.
func workspaceOf(o client.Object) []string {
	if workspace := o.GetLabels()[tenantv1beta1.LabelWorkspace]; workspace != "" {
		return []string{workspace}
	}
	return nil
}
