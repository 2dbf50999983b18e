package kind

import (
	"strconv"

	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/resource/plan"
)

// The states of a workload, as the filter status names them.
const (
	stateStopped   = "stopped"
	stateRunning   = "running"
	stateUpdating  = "updating"
	statePaused    = "paused"
	stateCompleted = "completed"
	stateFailed    = "failed"
)

// workloadStatus is the filter status of what has replicas.
func workloadStatus() plan.Field {
	return plan.Field{Name: "status", Match: plan.MatchState, States: []string{stateStopped, stateRunning, stateUpdating}}
}

// replicated returns the state of a workload that wants so many replicas and has so many ready.
func replicated(want, ready int64) string {
	switch {
	case want == 0 && ready == 0:
		return stateStopped
	case want == ready:
		return stateRunning
	}
	return stateUpdating
}

// whole returns the whole number at path, or absent.
func whole(json string, absent int64, path ...string) int64 {
	n, err := strconv.ParseInt(rawjson.Get(json, path...), 10, 64)
	if err != nil {
		return absent
	}
	return n
}

func deployments() *plan.Kind {
	return &plan.Kind{
		Fields: []plan.Field{
			workloadStatus(),
			{Name: plan.SortUpdateTime, Sort: true, Time: true, Sorts: []string{plan.SortLastUpdated}},
		},
		Extract: func(json string, v []string) {
			status := rawjson.Get(json, "status")
			v[0] = replicated(whole(json, 1, "spec", "replicas"), whole(status, 0, "readyReplicas"))
			v[1] = latest(status, "lastUpdateTime")
		},
	}
}

// latest returns the latest time that the conditions of a status name as key. Times in one form, as
// the API writes them, are ordered as texts are.
func latest(status, key string) string {
	out := ""
	for e := rawjson.Array(rawjson.Get(status, "conditions")); e.Next(); {
		out = max(out, rawjson.GetText(e.Value, key))
	}
	return out
}

func statefulSets() *plan.Kind {
	return &plan.Kind{
		Fields: []plan.Field{workloadStatus()},
		Extract: func(json string, v []string) {
			v[0] = replicated(whole(json, 1, "spec", "replicas"), whole(json, 0, "status", "readyReplicas"))
		},
	}
}

func daemonSets() *plan.Kind {
	return &plan.Kind{
		Fields: []plan.Field{workloadStatus()},
		Extract: func(json string, v []string) {
			status := rawjson.Get(json, "status")
			v[0] = replicated(whole(status, 0, "desiredNumberScheduled"), whole(status, 0, "numberReady"))
		},
	}
}

func jobs() *plan.Kind {
	return &plan.Kind{
		Fields: []plan.Field{
			{Name: "status", Match: plan.MatchState, States: []string{stateRunning, stateCompleted, stateFailed}, Sort: true},
			{Name: plan.SortUpdateTime, Sort: true, Time: true, Sorts: []string{plan.SortLastUpdated}},
		},
		Extract: func(json string, v []string) {
			status := rawjson.Get(json, "status")
			v[0] = stateRunning
			for e := rawjson.Array(rawjson.Get(status, "conditions")); e.Next(); {
				if rawjson.GetText(e.Value, "status") != "True" {
					continue
				}
				switch rawjson.GetText(e.Value, "type") {
				case "Complete":
					v[0] = stateCompleted
				case "Failed":
					v[0] = stateFailed
				}
			}
			v[1] = max(latest(status, "lastTransitionTime"), rawjson.GetText(status, "startTime"))
		},
	}
}

func cronJobs() *plan.Kind {
	return &plan.Kind{
		Fields: []plan.Field{{Name: "status", Match: plan.MatchState, States: []string{statePaused, stateRunning}, Sort: true}},
		Extract: func(json string, v []string) {
			v[0] = stateRunning
			if rawjson.Get(json, "spec", "suspend") == "true" {
				v[0] = statePaused
			}
		},
	}
}

func autoscalers() *plan.Kind {
	return fieldsByPath(
		plan.Field{Name: "targetKind", Match: plan.MatchExact, Path: query.Path{"spec", "scaleTargetRef", "kind"}},
		plan.Field{Name: "targetName", Match: plan.MatchExact, Path: query.Path{"spec", "scaleTargetRef", "name"}},
	)
}
