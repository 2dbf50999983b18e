package workspacetemplate

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
)

// made reports whether a template made the Workspace of its name, or an earlier installation made one from the other. Only such a
// Workspace is changed or deleted for a template: otherwise users who may create templates could end the workspaces of others by
// templates of their names (S65). A name proves nothing, and neither does an annotation that anyone may write; the uid does, since
// package admission lets only callers write AnnotationTemplateUID who may delete any workspace.
func made(t *tenantv1beta1.WorkspaceTemplate, w *tenantv1beta1.Workspace) bool {
	if w.Name == tenantv1beta1.SystemWorkspace {
		return true // it is installed together with its template, both by an administrator
	}
	if uid, ok := w.Annotations[tenantv1beta1.AnnotationTemplateUID]; ok {
		return uid != "" && uid == string(t.UID)
	}
	return owns(t, w) || earlier(t, w)
}

// owns reports whether the Workspace names the template as its owner, as older installations have it.
func owns(t *tenantv1beta1.WorkspaceTemplate, w *tenantv1beta1.Workspace) bool {
	return slices.ContainsFunc(w.OwnerReferences, func(o metav1.OwnerReference) bool {
		return o.Kind == "WorkspaceTemplate" &&
			o.UID == t.UID
	})
}

// earlier reports whether template and Workspace existed as a pair before this controller: the template is older, and another
// program, or this one in a version without that annotation, has added its finalizer, which package admission allows only with the
// right to delete any template.
func earlier(t *tenantv1beta1.WorkspaceTemplate, w *tenantv1beta1.Workspace) bool {
	_, held := t.Annotations[tenantv1beta1.AnnotationTemplateHeld]
	return !held && controllerutil.ContainsFinalizer(t, tenantv1beta1.FinalizerCascadingDeletion) &&
		!w.CreationTimestamp.Before(&t.CreationTimestamp)
}
