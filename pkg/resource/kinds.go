package resource

import (
	"slices"
	"strings"

	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/store/index"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// kind is what one kind has beyond metadata. Its fields are read once, when an object arrives.
type kind struct {
	fields  []field
	extract func(json string, values []string)
	// cut names what is neither kept nor answered, besides hidden fields (package redaction).
	cut rawjson.Cut
	// cutAcross names what is kept and answered in the scope of a namespace only.
	cutAcross rawjson.Cut
	// params are parameters that plan reads itself, beside those that are fields.
	params []string
	// plan adds what a filter needs that is more than a comparison with a field.
	plan func(b *builder) error
	// nameField is 1 more than the position of a field that the name filter looks at too.
	nameField int
	// annotation is what another kind knows of the objects, nil for nothing.
	annotation *derivedAnnotation
	// members says that the parameter namespace asks for those who are in one, and not for objects there.
	members bool
}

// field is one value of an object: a filter by its name, a sort key, or both.
type field struct {
	name string
	// path is where in the object the field stands as it is, nil where it is put together from several. Field
	// selectors and sort keys that name the path read the field.
	path query.Path
	// match is how the parameter of that name is compared; matchNone for none. states are the values that the
	// field can have, for matchState.
	match  match
	states []string
	// sort makes the field a sort key, under its name or those in sorts; time says that it is an
	// RFC 3339 time, which gets an order of its own.
	sort  bool
	time  bool
	sorts []string
	// inside says that the store finds the objects of a namespace by a line of the field, for matchMember.
	inside bool
}

// match is how a filter's value is compared with a field.
type match uint8

const (
	matchNone match = iota
	// matchExact is equality; the field is indexed.
	matchExact
	// matchState is equality with one of the alternatives between `|`, in any case; the field is indexed.
	matchState
	// matchContains holds where the field contains the value.
	matchContains
	// matchMember holds where the value is one of the field's lines.
	matchMember
)

// indexed tells whether the store finds objects by the field.
func (f *field) indexed() bool { return f.match == matchExact || f.match == matchState }

// statesOf returns the states that a filter names, written as the field has them.
func (f *field) statesOf(filter string) []string {
	out := strings.Split(filter, "|")
	for i, want := range out {
		if at := slices.IndexFunc(f.states, func(s string) bool { return strings.EqualFold(s, want) }); at >= 0 {
			out[i] = f.states[at]
		}
	}
	return out
}

// at returns the position of the field that stands at a path, -1 where none does.
func (k *kind) at(path query.Path) int {
	return slices.IndexFunc(k.fields, func(f field) bool { return f.path != nil && slices.Equal(f.path, path) })
}

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
		core("pods"):                           pods(),
		core("nodes"):                          nodes(),
		core("namespaces"):                     namespaces(),
		core("persistentvolumeclaims"):         volumeClaims(),
		core("persistentvolumes"):              volumes(),
		in("storage.k8s.io", "storageclasses"): {annotation: claimCount()},
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
	}
}

// Schemas returns what the store has to know of the kinds with something of their own.
func Schemas() map[schema.GroupResource]index.Schema {
	out := map[schema.GroupResource]index.Schema{}
	for gr, k := range kinds() {
		s := index.Schema{Fields: len(k.fields), Ordered: k.ordered(), Extract: k.extract, Cut: k.cut, CutClusterWide: k.cutAcross}
		if k.nameField > 0 {
			s.Searched = []int{k.nameField - 1}
		}
		for i, f := range k.fields {
			if f.indexed() {
				s.Indexed = append(s.Indexed, i)
			}
			if f.inside {
				s.Members = append(s.Members, i)
			}
		}
		out[gr] = s
	}
	return out
}

// byField is a kind with one filter, by the value at a path.
func byField(param string, path ...string) *kind {
	return fieldsByPath(field{name: param, match: matchExact, path: path})
}

// fieldsByPath is a kind whose fields stand in the object as they are.
func fieldsByPath(fields ...field) *kind {
	return &kind{fields: fields, extract: func(json string, v []string) {
		for i := range fields {
			v[i] = rawjson.GetText(json, fields[i].path...)
		}
	}}
}

// The sort keys that every kind has, beside its own and the paths of fields.
const (
	sortName        = "name"
	sortNamespace   = "namespace"
	sortCreated     = "creationTimestamp"
	sortCreateTime  = "createTime"
	sortUpdateTime  = "updateTime"
	sortStoreTime   = "create_time" // as the pages of the app store write it
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
