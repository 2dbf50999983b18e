package resource

import (
	"encoding/json"

	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/rawjson"
)

// Users never show their password.
func users() *kind {
	return &kind{
		fields:  []field{{name: "email", match: matchExact}},
		extract: func(json string, v []string) { v[0] = rawjson.GetText(json, "spec", "email") },
		cut:     rawjson.Cuts([]string{"spec", "password"}),
	}
}

func groupBindings() *kind {
	return &kind{
		fields: []field{{name: "user", match: matchMember}},
		extract: func(json string, v []string) {
			for e := rawjson.Array(rawjson.Get(json, "users")); e.Next(); {
				if v[0] != "" {
					v[0] += "\n"
				}
				v[0] += rawjson.Text(e.Value)
			}
		},
	}
}

const (
	workspaceLabel        = "kubesphere.io/workspace"
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
		names := map[string]struct{}{}
		if r, ok := own.Get(b.scope.Namespace, role); ok {
			list, _ := r.Annotations.Get(aggregationAnnotation)
			var parsed []string
			if err := json.Unmarshal([]byte(list), &parsed); err == nil { // a broken annotation names none
				for _, n := range parsed {
					names[n] = struct{}{}
				}
			}
		}
		b.names(names)
		return nil
	}
	return k
}
