package workspacetemplate

import (
	corev1 "k8s.io/api/core/v1"

	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
	"kapis.dev/ks-apiserver/pkg/controller/crd"
)

// fill updates a Workspace from its template. Labels and annotations that others wrote stay. For the display name, the
// template's own metadata, which pages edit, takes precedence over spec.template, which pages write once.
func fill(w *tenantv1beta1.Workspace, t *tenantv1beta1.WorkspaceTemplate) {
	inner := t.Spec.Template.ObjectMeta
	for k, v := range inner.Labels {
		set(&w.Labels, k, v)
	}
	if v, ok := t.Labels[tenantv1beta1.LabelProtectedResource]; ok {
		set(&w.Labels, tenantv1beta1.LabelProtectedResource, v)
	} else if inner.Labels[tenantv1beta1.LabelProtectedResource] == "" {
		delete(w.Labels, tenantv1beta1.LabelProtectedResource)
	}
	for k, v := range inner.Annotations {
		if k != corev1.LastAppliedConfigAnnotation {
			set(&w.Annotations, k, v)
		}
	}
	for _, k := range []string{tenantv1beta1.AnnotationAliasName, tenantv1beta1.AnnotationDescription} {
		v, ok := t.Annotations[k]
		if !ok {
			v, ok = inner.Annotations[k]
		}
		if ok {
			set(&w.Annotations, k, v)
		} else {
			delete(w.Annotations, k)
		}
	}
	if v, ok := t.Annotations[tenantv1beta1.AnnotationCreator]; ok {
		set(&w.Annotations, tenantv1beta1.AnnotationCreator, v)
	}
	fillPropagation(w, t)
	set(&w.Annotations, AnnotationTemplate, t.Name)
	set(&w.Annotations, tenantv1beta1.AnnotationTemplateUID, string(t.UID))
	crd.DropWorkspaceOwners(w)
	w.Spec.Manager = t.Spec.Template.Spec.Manager
}

// fillPropagation writes into a Workspace, which may be deleted on its own, what its template says about the namespaces at its deletion.
// What the template no longer says is removed, since the deletion that it was for may have been refused; what a user wrote into the
// Workspace only stays.
func fillPropagation(w *tenantv1beta1.Workspace, t *tenantv1beta1.WorkspaceTemplate) {
	const key = tenantv1beta1.AnnotationDeletionPropagation
	if v, ok := t.Annotations[key]; ok {
		set(&w.Annotations, key, v)
		set(&w.Annotations, annotationTold, v)
		return
	}
	if told, ok := w.Annotations[annotationTold]; ok {
		if w.Annotations[key] == told {
			delete(w.Annotations, key)
		}
		delete(w.Annotations, annotationTold)
	}
}

func set(m *map[string]string, key, value string) {
	if *m == nil {
		*m = map[string]string{}
	}
	(*m)[key] = value
}
