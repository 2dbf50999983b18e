package resource

import (
	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/rawjson"
)

// The states of a node beside stateRunning, as the filter status names them.
const (
	stateUnschedulable = "unschedulable"
	stateWarning       = "warning"
)

func nodes() *kind {
	return &kind{
		fields: []field{{name: "status", match: matchState, states: []string{stateUnschedulable, stateWarning, stateRunning}}},
		extract: func(json string, v []string) {
			v[0] = nodeState(json)
		},
	}
}

// nodeState says unschedulable, or warning where a condition is not as it should be, or running.
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

func namespaces() *kind { return fieldsByPath(phase("Active", "Terminating")) }

// claimClass is the position of a claim's storage class in its fields.
const claimClass = 1

func volumeClaims() *kind {
	k := fieldsByPath(phase("Pending", "Bound", "Lost"), storageClass())
	k.annotation = inUse()
	return k
}

func volumes() *kind {
	return fieldsByPath(phase("Pending", "Available", "Bound", "Released", "Failed"), storageClass())
}

// phase is the filter status of kinds whose state is in status.phase.
func phase(states ...string) field {
	return field{name: "status", match: matchState, states: states, path: query.Path{"status", "phase"}}
}

func storageClass() field {
	return field{name: "storageClassName", match: matchExact, path: query.Path{"spec", "storageClassName"}}
}

// Secrets and ConfigMaps keep no data in the cache of the cluster: their data is most of their size, and who may
// list them there need not be one who may read them. A query in a namespace has it, for who may: see snapshot_select.go.
func secrets() *kind {
	return &kind{
		fields:    []field{{name: "type", match: matchExact}},
		extract:   func(json string, v []string) { v[0] = rawjson.GetText(json, "type") },
		cut:       rawjson.Cuts([]string{"stringData"}), // what is only written
		cutAcross: rawjson.Cuts([]string{"data"}),
	}
}

func configMaps() *kind {
	return &kind{cutAcross: rawjson.Cuts([]string{"data"}, []string{"binaryData"})}
}

// definitions are found by the name of their kind too.
func definitions() *kind {
	return &kind{
		fields:    []field{{name: "kind"}},
		nameField: 1,
		extract: func(json string, v []string) {
			v[0] = rawjson.GetText(json, "spec", "names", "kind")
		},
	}
}

// labelObjects are found by their key and value too.
func labelObjects() *kind {
	return &kind{
		fields:    []field{{name: "text"}},
		nameField: 1,
		extract: func(json string, v []string) {
			v[0] = rawjson.GetText(json, "spec", "key") + "/" + rawjson.GetText(json, "spec", "value")
		},
	}
}
