package table

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// layout is how the objects of a kind are shown: the columns, and a function that adds one cell for each of them, in their order.
type layout struct {
	columns []metav1.TableColumnDefinition
	cells   func(r *row, o value)
}

// layoutOf returns a layout. Columns are written in one text, with commas between them: a name, "#" after it for an integer and "?" for
// true or false, "+" after that for a column that is shown with -o wide only.
func layoutOf(columns string, cells func(r *row, o value)) *layout {
	l := &layout{cells: cells}
	for name := range strings.SplitSeq(columns, ",") {
		c := metav1.TableColumnDefinition{Name: name, Type: "string"}
		if short, ok := strings.CutSuffix(c.Name, "+"); ok {
			c.Name, c.Priority = short, 1
		}
		if short, ok := strings.CutSuffix(c.Name, "#"); ok {
			c.Name, c.Type = short, "integer"
		}
		if short, ok := strings.CutSuffix(c.Name, "?"); ok {
			c.Name, c.Type = short, "boolean"
		}
		if c.Name == "Name" {
			c.Format = "name"
		}
		l.columns = append(l.columns, c)
	}
	return l
}

// plain is the layout of kinds that have no other.
func plain() *layout {
	return layoutOf("Name,Age", func(r *row, o value) {
		r.name(o)
		r.age(o)
	})
}

// dated is the layout of built-in kinds that say when they were made.
func dated() *layout {
	return layoutOf("Name,Created At", func(r *row, o value) {
		r.name(o)
		r.created(o)
	})
}

const rights = "rbac.authorization.k8s.io"

// layouts are those of built-in kinds, which kubectl's users know.
var layouts = map[schema.GroupResource]*layout{
	{Resource: "configmaps"}:                     configMaps(),
	{Resource: "endpoints"}:                      endpoints(),
	{Resource: "events"}:                         events(),
	{Group: "events.k8s.io", Resource: "events"}: events(),
	{Resource: "limitranges"}:                    dated(),
	{Resource: "namespaces"}:                     namespaces(),
	{Resource: "nodes"}:                          nodes(),
	{Resource: "persistentvolumeclaims"}:         claims(),
	{Resource: "persistentvolumes"}:              volumes(),
	{Resource: "pods"}:                           pods(),
	{Resource: "replicationcontrollers"}:         replicationControllers(),
	{Resource: "resourcequotas"}:                 quotas(),
	{Resource: "secrets"}:                        secrets(),
	{Resource: "services"}:                       services(),
	{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}: definitions(),
	{Group: "apiregistration.k8s.io", Resource: "apiservices"}:             apiServices(),
	{Group: "apps", Resource: "daemonsets"}:                                daemonSets(),
	{Group: "apps", Resource: "deployments"}:                               deployments(),
	{Group: "apps", Resource: "replicasets"}:                               replicaSets(),
	{Group: "apps", Resource: "statefulsets"}:                              statefulSets(),
	{Group: "autoscaling", Resource: "horizontalpodautoscalers"}:           autoscalers(),
	{Group: "batch", Resource: "cronjobs"}:                                 cronJobs(),
	{Group: "batch", Resource: "jobs"}:                                     jobs(),
	{Group: "coordination.k8s.io", Resource: "leases"}:                     leases(),
	{Group: "discovery.k8s.io", Resource: "endpointslices"}:                endpointSlices(),
	{Group: "networking.k8s.io", Resource: "ingressclasses"}:               ingressClasses(),
	{Group: "networking.k8s.io", Resource: "ingresses"}:                    ingresses(),
	{Group: "networking.k8s.io", Resource: "networkpolicies"}:              networkPolicies(),
	{Group: "policy", Resource: "poddisruptionbudgets"}:                    disruptionBudgets(),
	{Group: rights, Resource: "clusterrolebindings"}:                       bindings(),
	{Group: rights, Resource: "clusterroles"}:                              dated(),
	{Group: rights, Resource: "rolebindings"}:                              bindings(),
	{Group: rights, Resource: "roles"}:                                     dated(),
	{Group: "scheduling.k8s.io", Resource: "priorityclasses"}:              priorityClasses(),
	{Group: "storage.k8s.io", Resource: "storageclasses"}:                  storageClasses(),
}
