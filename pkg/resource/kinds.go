package resource

import (
	"slices"

	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/store"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// kind is what one kind has beyond metadata. Its fields are read once, when an object arrives.
type kind struct {
	fields  []field
	extract func(json string, values []string)
	// cut names what is neither kept nor answered.
	cut rawjson.Cut
	// params are parameters that plan reads itself, beside those that are fields.
	params []string
	// plan adds what a filter needs that is more than a comparison with a field.
	plan func(b *builder) error
	// nameField is 1 more than the position of a field that the name filter looks at too.
	nameField int
}

// field is one value of an object: a filter by its name, a sort key, or both.
type field struct {
	name string
	// match is how the parameter of that name is compared; matchNone for none.
	match match
	// sort makes the field a sort key, under its name or those in sorts; time says that it is an
	// RFC 3339 time, which gets an order of its own.
	sort  bool
	time  bool
	sorts []string
}

// match is how a filter's value is compared with a field.
type match uint8

const (
	matchNone match = iota
	// matchExact is equality; the field is indexed.
	matchExact
	// matchFold is equality in any case with one of the alternatives between `|`.
	matchFold
	// matchContains holds where the field contains the value.
	matchContains
	// matchMember holds where the value is one of the field's lines.
	matchMember
)

func core(resource string) schema.GroupResource { return schema.GroupResource{Resource: resource} }

func in(group string, resource string) schema.GroupResource {
	return schema.GroupResource{Group: group, Resource: resource}
}

const (
	iamGroup  = "iam.kubesphere.io"
	rbacGroup = "rbac.authorization.k8s.io"
)

// kinds returns the kinds with something of their own.
func kinds() map[schema.GroupResource]*kind {
	return map[schema.GroupResource]*kind{
		core("pods"):                   pods(),
		core("nodes"):                  nodes(),
		core("namespaces"):             namespaces(),
		core("persistentvolumeclaims"): volumeClaims(),
		core("persistentvolumes"):      volumes(),
		core("secrets"):                secrets(),
		core("configmaps"):             configMaps(),

		in("apps", "deployments"):  deployments(),
		in("apps", "statefulsets"): statefulSets(),
		in("apps", "daemonsets"):   daemonSets(),
		in("batch", "jobs"):        jobs(),
		in("batch", "cronjobs"):    cronJobs(),

		in("autoscaling", "horizontalpodautoscalers"):           autoscalers(),
		in("apiextensions.k8s.io", "customresourcedefinitions"): definitions(),

		in(iamGroup, "users"):                 users(),
		in(iamGroup, "loginrecords"):          byField("type", "spec", "type"),
		in(iamGroup, "groupbindings"):         groupBindings(),
		in(iamGroup, "workspaceroles"):        roles("workspace"),
		in(iamGroup, "globalroles"):           roles(""),
		in(iamGroup, "clusterroles"):          roles(""),
		in(iamGroup, "roles"):                 roles(""),
		in(rbacGroup, "roles"):                roles(""),
		in(rbacGroup, "clusterroles"):         roles(""),
		in(iamGroup, "workspacerolebindings"): byField("rolename", "roleRef", "name"),

		in("cluster.kubesphere.io", "clusters"): clusters(),
		in("cluster.kubesphere.io", "labels"):   labelObjects(),
	}
}

// Schemas returns what the store has to know of the kinds with something of their own.
func Schemas() map[schema.GroupResource]store.Schema {
	out := map[schema.GroupResource]store.Schema{}
	for gr, k := range kinds() {
		s := store.Schema{Fields: len(k.fields), Ordered: k.ordered(), Extract: k.extract, Cut: k.cut}
		for i, f := range k.fields {
			if f.match == matchExact {
				s.Indexed = append(s.Indexed, i)
			}
		}
		out[gr] = s
	}
	return out
}

// byField is a kind with one filter, by the value at a path.
func byField(param string, path ...string) *kind {
	return &kind{
		fields: []field{{name: param, match: matchExact}},
		extract: func(json string, v []string) {
			v[0] = rawjson.GetText(json, path...)
		},
	}
}

// The sort keys that every kind has, beside its own and the paths of fields.
const (
	sortName        = "name"
	sortNamespace   = "namespace"
	sortCreated     = "creationTimestamp"
	sortCreateTime  = "createTime"
	sortUpdateTime  = "updateTime"
	sortStartTime   = "startTime"
	sortLastUpdated = "lastUpdateTimestamp"
)

// filterParams are the names of the parameters that say which objects of the kind match.
func (k *kind) filterParams() []string {
	out := append([]string(nil), k.params...)
	for _, f := range k.fields {
		if f.match != matchNone {
			out = append(out, f.name)
		}
	}
	return out
}

// ordered returns the positions of the fields that have an order of their own.
func (k *kind) ordered() []int {
	var out []int
	for i, f := range k.fields {
		if f.sort && f.time {
			out = append(out, i)
		}
	}
	return out
}

// sortField returns the position of the field that is the sort key name, -1 where none is.
func (k *kind) sortField(name string) int {
	for i, f := range k.fields {
		if !f.sort {
			continue
		}
		if f.name == name {
			return i
		}
		for _, s := range f.sorts {
			if s == name {
				return i
			}
		}
	}
	return -1
}

// sortKeys names the sort keys of the kind.
func (k *kind) sortKeys() []string {
	out := []string{sortName, sortNamespace, sortCreated, sortCreateTime, sortUpdateTime, sortStartTime}
	for _, f := range k.fields {
		if !f.sort {
			continue
		}
		for _, name := range append([]string{f.name}, f.sorts...) {
			if !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
	}
	return append(out, "a field path such as .spec.replicas")
}
