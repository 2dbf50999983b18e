package kind

import (
	"testing"

	"kapis.dev/ks-apiserver/pkg/resource/plan"
)

func TestPodStates(t *testing.T) {
	const (
		running    = `{"name":"c","ready":true,"state":{"running":{}}}`
		notReady   = `{"name":"c","ready":false,"state":{"running":{}}}`
		completed  = `{"name":"c","state":{"terminated":{"exitCode":0,"reason":"Completed"}}}`
		oom        = `{"name":"c","state":{"terminated":{"exitCode":137,"reason":"OOMKilled"}}}`
		exit3      = `{"name":"c","state":{"terminated":{"exitCode":3}}}`
		signal9    = `{"name":"c","state":{"terminated":{"exitCode":137,"signal":9}}}`
		creating   = `{"name":"c","state":{"waiting":{"reason":"ContainerCreating"}}}`
		crash      = `{"name":"c","state":{"waiting":{"reason":"CrashLoopBackOff"}}}`
		pull       = `{"name":"c","state":{"waiting":{"reason":"ErrImagePull"}}}`
		initDone   = `{"name":"i","state":{"terminated":{"exitCode":0}}}`
		initFailed = `{"name":"i","state":{"terminated":{"exitCode":1,"reason":"Error"}}}`
		initRuns   = `{"name":"i","started":true,"state":{"running":{}}}`
		initWaits  = `{"name":"i","state":{"waiting":{"reason":"PodInitializing"}}}`
	)
	for _, c := range []struct{ name, status, more, want string }{
		{"RunningAndReady", `"phase":"Running","containerStatuses":[` + running + `]`, "", podRunning},
		{"RunningButNotReady", `"phase":"Running","containerStatuses":[` + notReady + `]`, "", podRunning},
		{"Pending", `"phase":"Pending"`, "", podWaiting},
		{"NoStatus", ``, "", podWaiting},
		{"Creating", `"phase":"Pending","containerStatuses":[` + creating + `]`, "", podWaiting},
		{"CrashLoop", `"phase":"Running","containerStatuses":[` + crash + `]`, "", podError},
		{"CrashLoopBesideARunningOne", `"phase":"Running","containerStatuses":[` + crash + `,` + running + `]`, "", podError},
		{"CompletedBesideARunningOne", `"phase":"Running","containerStatuses":[` + completed + `,` + running + `]`, "", podRunning},
		{"ImagePull", `"phase":"Pending","containerStatuses":[` + pull + `]`, "", podError},
		{"OOMKilled", `"phase":"Failed","containerStatuses":[` + oom + `]`, "", podError},
		{"ExitCode", `"phase":"Failed","containerStatuses":[` + exit3 + `]`, "", podError},
		{"Signal", `"phase":"Failed","containerStatuses":[` + signal9 + `]`, "", podError},
		{"Succeeded", `"phase":"Succeeded"`, "", podCompleted},
		{"Completed", `"phase":"Succeeded","containerStatuses":[` + completed + `]`, "", podCompleted},
		{"Evicted", `"phase":"Failed","reason":"Evicted"`, "", podError},
		{"Terminating", `"phase":"Running","containerStatuses":[` + running + `]`, `"deletionTimestamp":"2026-01-01T00:00:00Z"`, podWaiting},
		{"LostNode", `"phase":"Running","reason":"NodeLost"`, `"deletionTimestamp":"2026-01-01T00:00:00Z"`, podError},
		{"Initializing", `"phase":"Pending","initContainerStatuses":[` + initWaits + `],"containerStatuses":[` + creating + `]`, "", podWaiting},
		{"InitFailed", `"phase":"Pending","initContainerStatuses":[` + initFailed + `]`, "", podError},
		{"InitDone", `"phase":"Running","initContainerStatuses":[` + initDone + `],"containerStatuses":[` + running + `]`, "", podRunning},
		{"InitRuns", `"phase":"Pending","initContainerStatuses":[` + initRuns + `]`, "", podWaiting},
		{"SidecarRuns", `"phase":"Running","initContainerStatuses":[` + initRuns + `],"containerStatuses":[` + running + `]`, "sidecar", podRunning},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec := ""
			if c.more == "sidecar" {
				c.more, spec = "", `"initContainers":[{"name":"i","restartPolicy":"Always"}]`
			}
			v := make([]string, 6)
			extractPod(`{"metadata":{`+c.more+`},"spec":{`+spec+`},"status":{`+c.status+`}}`, v)
			if v[podStatus] != c.want {
				t.Errorf("got %s, want %s", v[podStatus], c.want)
			}
		})
	}
}

func TestFieldsOfKinds(t *testing.T) {
	condition := func(kind, status string) string {
		return `{"type":"` + kind + `","status":"` + status + `","lastTransitionTime":"2026-01-02T00:00:00Z","lastUpdateTime":"2026-01-03T00:00:00Z"}`
	}
	for _, c := range []struct {
		name, json string
		kind       *plan.Kind
		field      int
		want       string
	}{
		{"DeploymentStopped", `{"spec":{"replicas":0},"status":{}}`, deployments(), 0, stateStopped},
		{"DeploymentRunning", `{"spec":{"replicas":2},"status":{"readyReplicas":2}}`, deployments(), 0, stateRunning},
		{"DeploymentUpdating", `{"spec":{"replicas":2},"status":{"readyReplicas":1}}`, deployments(), 0, stateUpdating},
		{"DeploymentDefaultReplicas", `{"spec":{},"status":{"readyReplicas":1}}`, deployments(), 0, stateRunning},
		{"DeploymentUpdateTime", `{"status":{"conditions":[{"lastUpdateTime":"2026-01-01T00:00:00Z"},` + condition("x", "True") + `]}}`, deployments(), 1,
			"2026-01-03T00:00:00Z"},
		{"StatefulSet", `{"spec":{"replicas":1},"status":{"readyReplicas":0}}`, statefulSets(), 0, stateUpdating},
		{"DaemonSetStopped", `{"status":{"desiredNumberScheduled":0,"numberReady":0}}`, daemonSets(), 0, stateStopped},
		{"DaemonSetRunning", `{"status":{"desiredNumberScheduled":3,"numberReady":3}}`, daemonSets(), 0, stateRunning},
		{"JobRunning", `{"status":{"active":1}}`, jobs(), 0, stateRunning},
		{"JobComplete", `{"status":{"conditions":[` + condition("Complete", "True") + `]}}`, jobs(), 0, stateCompleted},
		{"JobFailed", `{"status":{"conditions":[` + condition("Failed", "True") + `]}}`, jobs(), 0, stateFailed},
		{"JobNotYetFailed", `{"status":{"conditions":[` + condition("Failed", "False") + `]}}`, jobs(), 0, stateRunning},
		{"CronJobPaused", `{"spec":{"suspend":true}}`, cronJobs(), 0, statePaused},
		{"CronJobRunning", `{"spec":{"suspend":false}}`, cronJobs(), 0, stateRunning},
		{"NodeRunning", `{"status":{"conditions":[` + condition("Ready", "True") + `,` + condition("DiskPressure", "False") + `]}}`, nodes(), 0, stateRunning},
		{"NodeWarning", `{"status":{"conditions":[` + condition("Ready", "True") + `,` + condition("DiskPressure", "Unknown") + `]}}`, nodes(), 0, "warning"},
		{"NodeNotReady", `{"status":{"conditions":[` + condition("Ready", "False") + `]}}`, nodes(), 0, "warning"},
		{"NodeUnschedulable", `{"spec":{"unschedulable":true},"status":{"conditions":[` + condition("Ready", "False") + `]}}`, nodes(), 0, "unschedulable"},
		{"NamespacePhase", `{"status":{"phase":"Active"}}`, namespaces(), 0, "Active"},
		{"ClaimClass", `{"spec":{"storageClassName":"fast"},"status":{"phase":"Bound"}}`, volumeClaims(), 1, "fast"},
		{"AutoscalerTarget", `{"spec":{"scaleTargetRef":{"kind":"Deployment","name":"d"}}}`, autoscalers(), 1, "d"},
		{"DefinitionKind", `{"spec":{"names":{"kind":"Widget"}}}`, definitions(), 0, "Widget"},
		{"UserEmail", `{"spec":{"email":"a@b"}}`, users(), 0, "a@b"},
		{"GroupBindingUsers", `{"users":["a","b"]}`, groupBindings(), 0, "a\nb"},
		{"LoginRecordType", `{"spec":{"type":"Token"}}`, byField("type", "spec", "type"), 0, "Token"},
		{"LabelText", `{"spec":{"key":"k","value":"v"}}`, labelObjects(), 0, "k/v"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := make([]string, len(c.kind.Fields))
			c.kind.Extract(c.json, v)
			if v[c.field] != c.want {
				t.Errorf("got %q, want %q", v[c.field], c.want)
			}
		})
	}
}

func FuzzExtractorsReadAnything(f *testing.F) {
	f.Add(`{"metadata":{},"spec":{"volumes":[{}]},"status":{"containerStatuses":[{"state":{"waiting":{}}}]}}`)
	f.Add(`{"spec":[],"status":7,"users":{}}`)
	f.Fuzz(func(t *testing.T, json string) {
		for _, k := range All() {
			if k.Extract != nil {
				k.Extract(json, make([]string, len(k.Fields)))
			}
		}
	})
}
