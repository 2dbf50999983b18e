package crd

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
)

// DropWorkspaceOwners removes the owner references to workspaces and their templates from an object, and reports whether it had any. Older
// installations have them on namespaces, roles, bindings and groups: with the definition of the owners all owners are deleted, and
// Kubernetes' garbage collector would delete what they own.
func DropWorkspaceOwners(o client.Object) bool {
	had := o.GetOwnerReferences()
	left := slices.DeleteFunc(slices.Clone(had), func(owner metav1.OwnerReference) bool {
		group, _, _ := strings.Cut(owner.APIVersion, "/")
		return group == tenantv1beta1.GroupName && (owner.Kind == "Workspace" || owner.Kind == "WorkspaceTemplate")
	})
	if len(left) == len(had) {
		return false
	}
	o.SetOwnerReferences(left)
	return true
}
