package resourcequota

import (
	"k8s.io/apimachinery/pkg/labels"

	quotav1alpha2 "kapis.dev/ks-apiserver/pkg/api/quota/v1alpha2"
	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
)

// workspaceOf returns the workspace to which a quota is restricted, "" for none; ok is false if it selects no namespace at all. The label
// says who could write the quota: a quota with a workspace's label may limit only that workspace, whatever the selector is.
func workspaceOf(q *quotav1alpha2.ResourceQuota) (workspace string, ok bool) {
	of, selected := q.Labels[tenantv1beta1.LabelWorkspace], q.Spec.Selector[tenantv1beta1.LabelWorkspace]
	switch {
	case of == "":
		return selected, true
	case selected == "":
		return of, true
	}
	return of, of == selected
}

// selectorOf returns the labels of the namespaces that a quota selects.
func selectorOf(q *quotav1alpha2.ResourceQuota) labels.Selector {
	workspace, ok := workspaceOf(q)
	if !ok {
		return labels.Nothing()
	}
	all := labels.Set{}
	for k, v := range q.Spec.Selector {
		all[k] = v
	}
	if workspace != "" {
		all[tenantv1beta1.LabelWorkspace] = workspace
	}
	return labels.SelectorFromSet(all)
}

// selects reports whether a quota selects a namespace with these labels.
func selects(q *quotav1alpha2.ResourceQuota, of map[string]string) bool {
	workspace, ok := workspaceOf(q)
	if !ok || workspace != "" && of[tenantv1beta1.LabelWorkspace] != workspace {
		return false
	}
	for k, v := range q.Spec.Selector {
		if has, ok := of[k]; !ok || has != v {
			return false
		}
	}
	return true
}
