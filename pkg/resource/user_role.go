package resource

import (
	"crypto/sha256"
	"encoding/json"
	"strings"

	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/store/index"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The fields of users.
const (
	userEmail = iota
	userGroups
)

// The parameters that ask for users by what binds them to a role.
const (
	paramNamespace     = "namespace"
	paramRole          = "role"
	paramWorkspace     = "workspace"
	paramWorkspaceRole = "workspacerole"
	paramCluster       = "cluster"
	paramClusterRole   = "clusterrole"
	paramGlobalRole    = "globalrole"
	paramNotInGroup    = "notingroup"
)

// users are found by their e-mail address, groups and bindings.
func users() *kind {
	return &kind{
		fields: []field{
			userEmail:  {name: "email", match: matchExact, path: query.Path{"spec", "email"}},
			userGroups: {name: "ingroup", match: matchMember},
		},
		extract: func(json string, v []string) {
			spec := rawjson.Get(json, "spec")
			v[userEmail], v[userGroups] = rawjson.GetText(spec, "email"), joinLines(rawjson.Get(spec, "groups"))
		},
		members: true,
		params: []string{
			paramNamespace, paramRole, paramWorkspace, paramWorkspaceRole, paramCluster, paramClusterRole, paramGlobalRole, paramNotInGroup,
		},
		plan: planUsers,
	}
}

// joinLines returns the texts of an array, one a line. A text of several lines is left out: it would be read as others.
func joinLines(array string) string {
	var out strings.Builder
	for e := rawjson.Array(array); e.Next(); {
		text := rawjson.Text(e.Value)
		if text == "" || strings.Contains(text, "\n") {
			continue
		}
		if out.Len() > 0 {
			out.WriteByte('\n')
		}
		out.WriteString(text)
	}
	return out.String()
}

// planUsers asks for those whom bindings name, in a namespace, in a workspace, in the cluster or on the
// platform, and with one role of those where the query names it.
func planUsers(b *builder) error {
	for _, m := range [...]struct {
		param, role, bindings string
		term                  func(value string) index.Term
	}{
		{paramNamespace, paramRole, "rolebindings", index.InNamespace},
		{paramWorkspace, paramWorkspaceRole, "workspacerolebindings", func(w string) index.Term { return index.HasLabel(workspaceLabel, w) }},
		{paramCluster, paramClusterRole, "clusterrolebindings", func(string) index.Term { return index.All() }},
		{paramGlobalRole, paramGlobalRole, "globalrolebindings", func(string) index.Term { return index.All() }},
	} {
		value, _ := b.query.Param(m.param)
		role, _ := b.query.Param(m.role)
		if value == "" || m.param == paramCluster && value != "true" {
			continue
		}
		if err := b.boundBy(m.bindings, m.term(value), role); err != nil {
			return err
		}
	}
	if group, ok := b.query.Param(paramNotInGroup); ok {
		b.check(func(r *index.Record) bool { return !isLine(r.Fields[userGroups], group) })
	}
	return nil
}

// roleBindings can be asked for by the role that they give.
func roleBindings() *kind { return byField("rolename", "roleRef", "name") }

// bindingRole is the position of the role's name in the fields of a binding.
const bindingRole = 0

// bindingsKey is the key of the users whom bindings name.
type bindingsKey struct {
	resource string
	term     index.Term
	role     string
}

// boundUsers are the users whom bindings name.
type boundUsers struct {
	names  map[string]struct{}
	digest string
}

// boundBy restricts the plan to the users whom the bindings of a term name, with the role where it is not empty.
func (b *builder) boundBy(bindings string, term index.Term, role string) error {
	snap, err := b.snapshot(schema.GroupVersionResource{Group: iamGroup, Version: "v1beta1", Resource: bindings})
	if err != nil {
		return err
	}
	who := memoize(&b.service.memo, bindingsKey{bindings, term, role}, snap, func() *boundUsers { return boundUsersOf(snap, term, role) })
	b.vary(who.digest)
	b.names(who.names)
	return nil
}

func boundUsersOf(snap *index.Snapshot, term index.Term, role string) *boundUsers {
	if role != "" && term == index.All() {
		term = index.FieldIs(bindingRole, role)
	}
	out, hash := &boundUsers{names: map[string]struct{}{}}, sha256.New()
	snap.ByCreated(term).Walk(0, false, func(ref *index.Ref) bool {
		r := snap.Record(ref)
		if role != "" && r.Fields[bindingRole] != role {
			return true
		}
		for e := rawjson.Array(rawjson.Get(r.JSON.String(), "subjects")); e.Next(); {
			name := rawjson.GetText(e.Value, "name")
			if rawjson.GetText(e.Value, "kind") != "User" || name == "" {
				continue
			}
			out.names[name] = struct{}{}
			hash.Write(rawjson.AppendString(nil, name))
		}
		return true
	})
	out.digest = string(hash.Sum(nil))
	return out
}

func groupBindings() *kind {
	return &kind{
		fields:  []field{{name: "user", match: matchMember}},
		extract: func(json string, v []string) { v[0] = joinLines(rawjson.Get(json, "users")) },
	}
}

const (
	aggregationAnnotation = "iam.kubesphere.io/aggregation-roles"
	paramAggregateTo      = "aggregateTo"
)

// roles can be asked for by the role that they make up: its annotation names them. workspaceParam is
// the parameter that names their workspace, empty where they are in none.
func roles(workspaceParam string) *kind {
	k := &kind{params: []string{paramAggregateTo}}
	if workspaceParam != "" {
		k.params = append(k.params, workspaceParam)
	}
	k.plan = func(b *builder) error {
		if w, ok := b.query.Param(workspaceParam); ok && workspaceParam != "" {
			b.label(query.Requirement{Key: workspaceLabel, Op: query.In, Values: []string{w}})
		}
		role, ok := b.query.Param(paramAggregateTo)
		if !ok {
			return nil
		}
		own, err := b.snapshot(b.kind.GVR)
		if err != nil {
			return err
		}
		b.aggregated(own, role)
		return nil
	}
	return k
}

// aggregated restricts the plan to the roles that make up one of a name, each in its own namespace.
func (b *builder) aggregated(own *index.Snapshot, role string) {
	parts := map[string]map[string]struct{}{} // namespace -> names
	all := map[string]struct{}{}
	own.Named(b.namespace, role, func(ref *index.Ref) {
		list, _ := own.Record(ref).Annotations.Get(aggregationAnnotation)
		b.vary(ref.Namespace)
		b.vary(list)
		var names []string
		if err := json.Unmarshal([]byte(list), &names); err != nil {
			return // a broken annotation names none
		}
		parts[ref.Namespace] = setOf(names)
		for _, n := range names {
			all[n] = struct{}{}
		}
	})
	b.names(all)
	if b.kind.Namespaced && b.namespace == "" {
		b.check(func(r *index.Record) bool {
			_, ok := parts[r.Namespace][r.Name]
			return ok
		})
	}
}
