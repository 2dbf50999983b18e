package kind

import (
	"crypto/sha256"
	"encoding/json"
	"strings"

	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/resource/plan"
	"kapis.dev/ks-apiserver/pkg/store/index"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The fields of users.
const (
	userEmail = iota
	userGroups
)

// The parameters that select users by the bindings to a role.
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
func users() *plan.Kind {
	return &plan.Kind{
		Fields: []plan.Field{
			userEmail:  {Name: "email", Match: plan.MatchExact, Path: query.Path{"spec", "email"}},
			userGroups: {Name: "ingroup", Match: plan.MatchMember},
		},
		Extract: func(json string, v []string) {
			spec := rawjson.Get(json, "spec")
			v[userEmail], v[userGroups] = rawjson.GetText(spec, "email"), joinLines(rawjson.Get(spec, "groups"))
		},
		Members: true,
		Params: []string{
			paramNamespace, paramRole, paramWorkspace, paramWorkspaceRole, paramCluster, paramClusterRole, paramGlobalRole, paramNotInGroup,
		},
		Plan: planUsers,
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

// planUsers selects the users whom bindings name: in a namespace, in a workspace, in the cluster or on the platform, and
// with one role of those where the query names it.
func planUsers(b *plan.Builder) error {
	for _, m := range [...]struct {
		param, role, bindings string
		term                  func(value string) index.Term
	}{
		{paramNamespace, paramRole, "rolebindings", index.InNamespace},
		{paramWorkspace, paramWorkspaceRole, "workspacerolebindings",
			func(w string) index.Term { return index.HasLabel(plan.WorkspaceLabel, w) }},
		{paramCluster, paramClusterRole, "clusterrolebindings", func(string) index.Term { return index.All() }},
		{paramGlobalRole, paramGlobalRole, "globalrolebindings", func(string) index.Term { return index.All() }},
	} {
		value, _ := b.Query.Param(m.param)
		role, _ := b.Query.Param(m.role)
		if value == "" || m.param == paramCluster && value != "true" {
			continue
		}
		if err := boundBy(b, m.bindings, m.term(value), role); err != nil {
			return err
		}
	}
	if group, ok := b.Query.Param(paramNotInGroup); ok {
		b.Check(func(r *index.Record) bool { return !plan.IsLine(r.Fields[userGroups], group) })
	}
	return nil
}

// roleBindings can be selected by the role that they give.
func roleBindings() *plan.Kind { return byField("rolename", "roleRef", "name") }

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
func boundBy(b *plan.Builder, bindings string, term index.Term, role string) error {
	snap, err := b.Snapshot(schema.GroupVersionResource{Group: iamGroup, Version: "v1beta1", Resource: bindings})
	if err != nil {
		return err
	}
	who := plan.Memoize(&b.Planner.Memo, bindingsKey{bindings, term, role}, snap, func() *boundUsers { return boundUsersOf(snap, term, role) })
	b.Vary(who.digest)
	b.Names(who.names)
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

func groupBindings() *plan.Kind {
	return &plan.Kind{
		Fields:  []plan.Field{{Name: "user", Match: plan.MatchMember}},
		Extract: func(json string, v []string) { v[0] = joinLines(rawjson.Get(json, "users")) },
	}
}

const (
	aggregationAnnotation = "iam.kubesphere.io/aggregation-roles"
	paramAggregateTo      = "aggregateTo"
)

// roles can be selected by the role that they aggregate into: its annotation names them. workspaceParam is the parameter
// that names their workspace, empty where they are in none.
func roles(workspaceParam string) *plan.Kind {
	k := &plan.Kind{Params: []string{paramAggregateTo}}
	if workspaceParam != "" {
		k.Params = append(k.Params, workspaceParam)
	}
	k.Plan = func(b *plan.Builder) error {
		if w, ok := b.Query.Param(workspaceParam); ok && workspaceParam != "" {
			b.Label(query.Requirement{Key: plan.WorkspaceLabel, Op: query.In, Values: []string{w}})
		}
		role, ok := b.Query.Param(paramAggregateTo)
		if !ok {
			return nil
		}
		own, err := b.Snapshot(b.Kind.GVR)
		if err != nil {
			return err
		}
		aggregated(b, own, role)
		return nil
	}
	return k
}

// aggregated restricts the plan to the roles that are aggregated into one of a name, each in its own namespace.
func aggregated(b *plan.Builder, own *index.Snapshot, role string) {
	parts := map[string]map[string]struct{}{} // namespace -> names
	all := map[string]struct{}{}
	own.Named(b.Namespace, role, func(ref *index.Ref) {
		list, _ := own.Record(ref).Annotations.Get(aggregationAnnotation)
		b.Vary(ref.Namespace)
		b.Vary(list)
		var names []string
		if err := json.Unmarshal([]byte(list), &names); err != nil {
			return // a broken annotation names none
		}
		parts[ref.Namespace] = plan.SetOf(names)
		for _, n := range names {
			all[n] = struct{}{}
		}
	})
	b.Names(all)
	if b.Kind.Namespaced && b.Namespace == "" {
		b.Check(func(r *index.Record) bool {
			_, ok := parts[r.Namespace][r.Name]
			return ok
		})
	}
}
