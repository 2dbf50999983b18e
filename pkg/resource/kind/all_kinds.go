package kind

import (
	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/resource/plan"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	iamGroup  = "iam.kubesphere.io"
	rbacGroup = "rbac.authorization.k8s.io"
)

func core(resource string) schema.GroupResource { return schema.GroupResource{Resource: resource} }

func in(group string, resource string) schema.GroupResource {
	return schema.GroupResource{Group: group, Resource: resource}
}

// All returns the kinds with fields or annotations of their own.
func All() map[schema.GroupResource]*plan.Kind {
	return map[schema.GroupResource]*plan.Kind{
		core("pods"):                           pods(),
		core("nodes"):                          nodes(),
		core("namespaces"):                     namespaces(),
		core("persistentvolumeclaims"):         volumeClaims(),
		core("persistentvolumes"):              volumes(),
		in("storage.k8s.io", "storageclasses"): {Annotation: claimCount()},
		core("secrets"):                        secrets(),
		core("configmaps"):                     configMaps(),

		in("apps", "deployments"):  deployments(),
		in("apps", "statefulsets"): statefulSets(),
		in("apps", "daemonsets"):   daemonSets(),
		in("batch", "jobs"):        jobs(),
		in("batch", "cronjobs"):    cronJobs(),

		in("autoscaling", "horizontalpodautoscalers"):           autoscalers(),
		in("apiextensions.k8s.io", "customresourcedefinitions"): definitions(),

		in(iamGroup, "users"):          users(),
		in(iamGroup, "loginrecords"):   byField("type", "spec", "type"),
		in(iamGroup, "groupbindings"):  groupBindings(),
		in(iamGroup, "workspaceroles"): roles("workspace"),
		in(iamGroup, "globalroles"):    roles(""),
		in(iamGroup, "clusterroles"):   roles(""),
		in(iamGroup, "roles"):          roles(""),
		in(rbacGroup, "roles"):         roles(""),
		in(rbacGroup, "clusterroles"):  roles(""),

		in(iamGroup, "globalrolebindings"):    roleBindings(),
		in(iamGroup, "workspacerolebindings"): roleBindings(),
		in(iamGroup, "clusterrolebindings"):   roleBindings(),
		in(iamGroup, "rolebindings"):          roleBindings(),

		in("cluster.kubesphere.io", "labels"): labelObjects(),
		in("kubesphere.io", "extensions"):     extensions(),

		in("application.kubesphere.io", "applicationversions"): appVersions(),
	}
}

// byField is a kind with one filter, by the value at a path.
func byField(param string, path ...string) *plan.Kind {
	return fieldsByPath(plan.Field{Name: param, Match: plan.MatchExact, Path: path})
}

// fieldsByPath is a kind whose fields stand in the object as they are.
func fieldsByPath(fields ...plan.Field) *plan.Kind {
	return &plan.Kind{Fields: fields, Extract: func(json string, v []string) {
		for i := range fields {
			v[i] = rawjson.GetText(json, fields[i].Path...)
		}
	}}
}
