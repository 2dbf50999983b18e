package resource

import (
	"kapis.dev/ks-apiserver/pkg/rawjson"
)

func nodes() *kind {
	return &kind{
		fields: []field{{name: "status", match: matchExact}},
		extract: func(json string, v []string) {
			v[0] = nodeState(json)
		},
	}
}

// nodeState says unschedulable, or warning where a condition is not as it should be, or running.
func nodeState(json string) string {
	if rawjson.Get(json, "spec", "unschedulable") == "true" {
		return "unschedulable"
	}
	for e := rawjson.Array(rawjson.Get(json, "status", "conditions")); e.Next(); {
		healthy := "False"
		if rawjson.GetText(e.Value, "type") == "Ready" {
			healthy = "True"
		}
		if rawjson.GetText(e.Value, "status") != healthy {
			return "warning"
		}
	}
	return stateRunning
}

func namespaces() *kind { return byField("status", "status", "phase") }

func volumeClaims() *kind {
	return &kind{
		fields: []field{{name: "status", match: matchFold}, {name: "storageClassName", match: matchExact}},
		extract: func(json string, v []string) {
			v[0], v[1] = rawjson.GetText(json, "status", "phase"), rawjson.GetText(json, "spec", "storageClassName")
		},
	}
}

func volumes() *kind {
	return &kind{
		fields: []field{{name: "status", match: matchExact}, {name: "storageClassName", match: matchExact}},
		extract: func(json string, v []string) {
			v[0], v[1] = rawjson.GetText(json, "status", "phase"), rawjson.GetText(json, "spec", "storageClassName")
		},
	}
}

// Secrets and ConfigMaps keep no data in memory: who may list them through the cache need not be one
// who may read them, and their data is most of their size.
func secrets() *kind {
	return &kind{
		fields:  []field{{name: "type", match: matchExact}},
		extract: func(json string, v []string) { v[0] = rawjson.GetText(json, "type") },
		cut:     rawjson.Cuts([]string{"data"}, []string{"stringData"}),
	}
}

func configMaps() *kind {
	return &kind{cut: rawjson.Cuts([]string{"data"}, []string{"binaryData"})}
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

// clusters never show how they are reached.
func clusters() *kind {
	return &kind{cut: rawjson.Cuts(
		[]string{"spec", "connection", "kubeconfig"}, []string{"spec", "connection", "token"},
	)}
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
