package kind

import (
	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/resource/plan"
)

// The states of a node besides stateRunning, as the filter status names them.
const (
	stateUnschedulable = "unschedulable"
	stateWarning       = "warning"
)

func nodes() *plan.Kind {
	return &plan.Kind{
		Fields: []plan.Field{{Name: "status", Match: plan.MatchState, States: []string{stateUnschedulable, stateWarning, stateRunning}}},
		Extract: func(json string, v []string) {
			v[0] = nodeState(json)
		},
		Annotation: allocated(),
	}
}

// nodeState returns unschedulable, or warning where a condition is not as it should be, or running.
func nodeState(json string) string {
	if rawjson.Get(json, "spec", "unschedulable") == "true" {
		return stateUnschedulable
	}
	for e := rawjson.Array(rawjson.Get(json, "status", "conditions")); e.Next(); {
		healthy := "False"
		if rawjson.GetText(e.Value, "type") == "Ready" {
			healthy = "True"
		}
		if rawjson.GetText(e.Value, "status") != healthy {
			return stateWarning
		}
	}
	return stateRunning
}

func namespaces() *plan.Kind { return fieldsByPath(phase("Active", "Terminating")) }

// claimClass is the position of a claim's storage class in its fields.
const claimClass = 1

func volumeClaims() *plan.Kind {
	k := fieldsByPath(phase("Pending", "Bound", "Lost"), storageClass())
	k.Annotation = inUse()
	return k
}

func volumes() *plan.Kind {
	return fieldsByPath(phase("Pending", "Available", "Bound", "Released", "Failed"), storageClass())
}

// phase is the filter status of kinds whose state is in status.phase.
func phase(states ...string) plan.Field {
	return plan.Field{Name: "status", Match: plan.MatchState, States: states, Path: query.Path{"status", "phase"}}
}

func storageClass() plan.Field {
	return plan.Field{Name: "storageClassName", Match: plan.MatchExact, Path: query.Path{"spec", "storageClassName"}}
}

// Secrets and ConfigMaps have no data in the cache of the cluster: their data is most of their size, and a caller who may
// list them there may not be allowed to read them. A query in a namespace returns it to callers who may: see
// plan.Planner.Snapshot.
func secrets() *plan.Kind {
	return &plan.Kind{
		Fields:         []plan.Field{{Name: "type", Match: plan.MatchExact}, {}},
		KeyCount:       2,
		Extract:        func(json string, v []string) { v[0] = rawjson.GetText(json, "type") },
		Cut:            rawjson.Cuts([]string{"stringData"}), // what is only written
		CutClusterWide: rawjson.Cuts([]string{"data"}),
	}
}

func configMaps() *plan.Kind {
	return &plan.Kind{Fields: []plan.Field{{}}, KeyCount: 1, CutClusterWide: rawjson.Cuts([]string{"data"}, []string{"binaryData"})}
}

// definitions are found by the name of their kind too.
func definitions() *plan.Kind {
	return &plan.Kind{
		Fields:    []plan.Field{{Name: "kind"}},
		NameField: 1,
		Extract: func(json string, v []string) {
			v[0] = rawjson.GetText(json, "spec", "names", "kind")
		},
	}
}

// labelObjects are found by their key and value too.
func labelObjects() *plan.Kind {
	return &plan.Kind{
		Fields:    []plan.Field{{Name: "text"}},
		NameField: 1,
		Extract: func(json string, v []string) {
			v[0] = rawjson.GetText(json, "spec", "key") + "/" + rawjson.GetText(json, "spec", "value")
		},
	}
}
