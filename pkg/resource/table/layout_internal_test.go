package table

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

// now is when the tests' objects are shown: an hour after those of made were made.
var now = time.Date(2026, 1, 2, 4, 4, 5, 0, time.UTC)

// made is the metadata of an object, without the closing brace.
const made = `"metadata":{"name":"x","namespace":"a","creationTimestamp":"2026-01-02T03:04:05Z"`

func cellsOf(t *testing.T, l *layout, object string, dataHidden bool) []any {
	t.Helper()
	r := row{now: now, dataHidden: dataHidden}
	l.cells(&r, value(object))
	var cells []any
	if err := json.Unmarshal([]byte("["+string(r.cells)+"]"), &cells); err != nil {
		t.Fatalf("%s: %v: %s", object, err, r.cells)
	}
	if len(cells) != len(l.columns) {
		t.Fatalf("%s: %d cells for %d columns: %v", object, len(cells), len(l.columns), cells)
	}
	return cells
}

func shown(cells []any) string {
	out := make([]string, len(cells))
	for i, c := range cells {
		out[i] = fmt.Sprint(c)
	}
	return strings.Join(out, "|")
}

// Expected cells are what kubectl prints for these objects at kube-apiserver 1.37.
func TestBuiltInKindsAreShownAsKubectlsUsersKnowThem(t *testing.T) { // O33
	for _, c := range []struct {
		name   string
		layout *layout
		object string
		want   string
	}{
		{"pod", pods(), `{` + made + `},"spec":{"nodeName":"n","containers":[{"name":"c"},{"name":"d"}],"readinessGates":[{"conditionType":"g"},
			{"conditionType":"h"}]},"status":{"phase":"Running","podIP":"10.0.0.1","podIPs":[{"ip":"10.0.0.2"}],"conditions":[{"type":"g","status":"True"}],
			"containerStatuses":[{"ready":true,"restartCount":2,"state":{"running":{}},"lastState":{"terminated":{"finishedAt":"2026-01-02T03:59:05Z"}}},
			{"restartCount":1,"state":{"waiting":{"reason":"CrashLoopBackOff"}}}]}}`,
			"x|1/2|CrashLoopBackOff|3 (5m ago)|60m|10.0.0.2|n|<none>|1/2"},
		{"pod that ends", pods(), `{` + made + `,"deletionTimestamp":"2026-01-02T03:05:05Z"},"status":{"phase":"Running"}}`,
			"x|0/0|Terminating|0|60m|<none>|<none>|<none>|<none>"},
		{"evicted pod", pods(), `{` + made + `},"spec":{"containers":[{}]},"status":{"phase":"Failed","reason":"Evicted"}}`,
			"x|0/1|Evicted|0|60m|<none>|<none>|<none>|<none>"},
		{"pod with init containers", pods(), `{` + made + `},"spec":{"containers":[{}],"initContainers":[{"name":"i"},{"name":"j"}]},
			"status":{"phase":"Pending","initContainerStatuses":[{"name":"i","state":{"terminated":{"exitCode":0}}},{"name":"j","restartCount":1,
			"state":{"running":{}}}]}}`, "x|0/1|Init:1/2|1|60m|<none>|<none>|<none>|<none>"},
		{"pod whose init container fails", pods(), `{` + made + `},"spec":{"containers":[{}],"initContainers":[{"name":"i"}]},
			"status":{"phase":"Pending","initContainerStatuses":[{"name":"i","state":{"terminated":{"exitCode":3}}}]}}`,
			"x|0/1|Init:ExitCode:3|0|60m|<none>|<none>|<none>|<none>"},
		{"pod with a sidecar", pods(), `{` + made + `},"spec":{"containers":[{"name":"c"}],"initContainers":[{"name":"i","restartPolicy":"Always"}]},
			"status":{"phase":"Running","initContainerStatuses":[{"name":"i","started":true,"ready":true,"restartCount":4,"state":{"running":{}}}],
			"containerStatuses":[{"ready":true,"state":{"running":{}}}]}}`, "x|2/2|Running|4|60m|<none>|<none>|<none>|<none>"},
		{"pod that was killed", pods(), `{` + made + `},"spec":{"containers":[{}]},"status":{"phase":"Failed",
			"containerStatuses":[{"state":{"terminated":{"signal":9,"exitCode":137}}}]}}`, "x|0/1|Signal:9|0|60m|<none>|<none>|<none>|<none>"},
		{"gated pod", pods(), `{` + made + `},"spec":{"containers":[{}]},"status":{"phase":"Pending","conditions":[{"type":"PodScheduled",
			"status":"False","reason":"SchedulingGated"}]}}`, "x|0/1|SchedulingGated|0|60m|<none>|<none>|<none>|<none>"},
		{"deployment", deployments(), `{` + made + `},"spec":{"replicas":3,"selector":{"matchLabels":{"b":"2","a":"1"}},"template":{"spec":{"containers":
			[{"name":"c","image":"i:1"},{"name":"d","image":"j:2"}]}}},"status":{"readyReplicas":2,"updatedReplicas":3,"availableReplicas":1}}`,
			"x|2/3|3|1|60m|c,d|i:1,j:2|a=1,b=2"},
		{"job", jobs(), `{` + made + `},"spec":{"completions":4},"status":{"succeeded":1,"startTime":"2026-01-02T04:03:05Z"}}`,
			"x|Running|1/4|60s|60m|||<none>"},
		{"failed job", jobs(), `{` + made + `},"spec":{"parallelism":2},"status":{"startTime":"2026-01-02T04:00:05Z","conditions":[{"type":"Failed",
			"status":"True","lastTransitionTime":"2026-01-02T04:00:15Z"}]}}`, "x|Failed|0/1 of 2|10s|60m|||<none>"},
		{"cron job", cronJobs(), `{` + made + `},"spec":{"schedule":"* * * * *","suspend":true},"status":{"active":[{},{}],
			"lastScheduleTime":"2026-01-02T04:03:05Z"}}`, "x|* * * * *|<none>|True|2|60s|60m|||<none>"},
		{"service", services(), `{` + made + `},"spec":{"type":"LoadBalancer","clusterIP":"10.0.0.1","selector":{"app":"x"},"ports":[{"port":80,
			"nodePort":30080,"protocol":"TCP"}]},"status":{"loadBalancer":{"ingress":[{"ip":"1.2.3.4"},{"hostname":"h.example"}]}}}`,
			"x|LoadBalancer|10.0.0.1|1.2.3.4,h.example|80:30080/TCP|60m|app=x"},
		{"node", nodes(), `{"metadata":{"name":"n","labels":{"node-role.kubernetes.io/worker":"","kubernetes.io/role":"edge"}},
			"spec":{"unschedulable":true},"status":{"conditions":[{"type":"Ready","status":"Unknown"}],"addresses":[{"type":"InternalIP","address":"10.0.0.9"}],
			"nodeInfo":{"kubeletVersion":"v1.37.1","kernelVersion":"6","architecture":"arm64"}}}`,
			"n|NotReady,SchedulingDisabled|edge,worker|<unknown>|v1.37.1|10.0.0.9|<none>|<unknown>|6 (arm64)|<unknown>"},
		{"claim", claims(), `{` + made + `},"spec":{"volumeName":"v","storageClassName":"slow","volumeMode":"Block"},"status":{"phase":"Bound",
			"capacity":{"storage":"1Gi"},"accessModes":["ReadWriteMany","ReadWriteOnce"]}}`, "x|Bound|v|1Gi|RWO,RWX|slow|<unset>|60m|Block"},
		{"event", events(), `{"metadata":{"name":"e"},"type":"Normal","reason":"Pulled","message":" done\n","involvedObject":{"kind":"Pod","name":"p",
			"fieldPath":"spec"},"source":{"component":"kubelet","host":"n"},"count":3,"firstTimestamp":"2026-01-02T03:04:05Z",
			"lastTimestamp":"2026-01-02T04:04:00Z"}`, "5s|Normal|Pulled|pod/p|spec|kubelet, n|done|60m|3|e"},
		{"event of the other group", events(), `{"metadata":{"name":"e"},"type":"Normal","reason":"Pulled","note":"done","regarding":{"kind":"Node"},
			"reportingController":"k","eventTime":"2026-01-02T04:03:05.000001Z","series":{"count":7,"lastObservedTime":"2026-01-02T04:04:00.000001Z"}}`,
			"4s|Normal|Pulled|node||k|done|59s|7|e"},
		{"binding", bindings(), `{` + made + `},"roleRef":{"kind":"Role","name":"r"},"subjects":[{"kind":"User","name":"ann"},{"kind":"User","name":"bob"},
			{"kind":"ServiceAccount","namespace":"a","name":"s"}]}`, "x|Role/r|60m|ann, bob||a/s"},
		{"quota", quotas(), `{` + made + `},"status":{"hard":{"pods":"5","limits.cpu":"2","cpu":"1"},"used":{"pods":"1"}}}`,
			"x|cpu: 0/1, pods: 1/5|limits.cpu: 0/2|60m"},
		{"autoscaler", autoscalers(), `{` + made + `},"spec":{"scaleTargetRef":{"kind":"Deployment","name":"d"},"maxReplicas":5,"metrics":[{"type":"Resource",
			"resource":{"name":"cpu","target":{"averageUtilization":50}}}]},"status":{"currentReplicas":2,"currentMetrics":[{"type":"Resource",
			"resource":{"name":"cpu","current":{"averageUtilization":70}}}]}}`, "x|Deployment/d|cpu: 70%/50%|<unset>|5|2|60m"},
	} {
		if got := shown(cellsOf(t, c.layout, c.object, false)); got != c.want {
			t.Errorf("%s: got\n%s, want\n%s", c.name, got, c.want)
		}
	}
}

func TestHowManyKeysIsShownOnlyWhereTheKeysAre(t *testing.T) { // O33
	secret := `{` + made + `},"type":"Opaque","data":{"a":"YQ==","b":"Yg=="}}`
	if got := shown(cellsOf(t, secrets(), secret, false)); got != "x|Opaque|2|60m" {
		t.Errorf("got %s", got)
	}
	if got := shown(cellsOf(t, secrets(), `{`+made+`},"type":"Opaque"}`, true)); got != "x|Opaque|<hidden>|60m" {
		t.Errorf("got %s", got)
	}
	if got := shown(cellsOf(t, configMaps(), `{`+made+`},"data":{"a":""},"binaryData":{"b":"","c":""}}`, false)); got != "x|3|60m" {
		t.Errorf("got %s", got)
	}
}

const definition = `{"spec":{"versions":[{"name":"v1","additionalPrinterColumns":[
	{"name":"Length","type":"integer","jsonPath":".spec.length"},
	{"name":"Crew","type":"string","jsonPath":".spec.crew[*].name"},
	{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].status"},
	{"name":"Launched","type":"date","jsonPath":".spec.launched"},
	{"name":"Flag","type":"string","jsonPath":".metadata.annotations.example\\.com/flag","priority":1},
	{"name":"Steel","type":"boolean","jsonPath":".spec.steel"},
	{"name":"Weight","type":"number","jsonPath":".spec.weight"},
	{"name":"Second","type":"string","jsonPath":".spec.crew[1].name"},
	{"name":"Deep","type":"string","jsonPath":"..a..b..c"},
	{"name":"Broken","type":"string","jsonPath":".["}]},{"name":"v2"}]}}`

func TestCustomResourcesHaveTheColumnsOfTheirDefinition(t *testing.T) { // O33
	l := definedBy(definition, "v1")
	if len(l.columns) != 11 || l.columns[0].Name != "Name" || l.columns[5].Name != "Flag" || l.columns[5].Priority != 1 || l.columns[1].Type != "integer" {
		t.Errorf("got %+v", l.columns)
	}
	for object, want := range map[string]string{
		`{"metadata":{"name":"x","annotations":{"example.com/flag":"de"}},"spec":{"length":12,"crew":[{"name":"ann"},{"name":"bob"}],
			"launched":"2026-01-02T04:03:05Z","steel":true,"weight":1.5},"status":{"conditions":[{"type":"Old","status":"False"},{"type":"Ready","status":"True"}]}}`: "x|12|ann|True|60s|de|true|1.5|bob|<nil>|<nil>",
		`{"metadata":{"name":"x"},"spec":{"length":"twelve","crew":7,"launched":"soon","steel":1,"weight":"heavy"}}`: "x|<nil>|<nil>|<nil>|<invalid>|<nil>|<nil>|<nil>|<nil>|<nil>|<nil>",
	} {
		if got := shown(cellsOf(t, l, object, false)); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if l := definedBy(definition, "v2"); len(l.columns) != 2 || l.columns[1].Name != "Age" {
		t.Errorf("a version without columns: %+v", l.columns)
	}
}

// FuzzEveryObjectHasACellForEachColumn shows objects of any form in every layout.
func FuzzEveryObjectHasACellForEachColumn(f *testing.F) {
	for _, seed := range []string{`{}`, `null`, `[]`, `{"metadata":7,"spec":[],"status":"x"}`, `{"spec":{"containers":{"a":1},"ports":[[],7,null]}}`,
		`{"status":{"conditions":[{"type":"Ready"}],"containerStatuses":[{"state":[]}],"hard":{"a":{}}},"spec":{"metrics":[{"type":"é"}]}}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, object string) {
		if !json.Valid([]byte(object)) {
			return
		}
		for _, l := range layouts {
			cellsOf(t, l, object, false)
		}
		cellsOf(t, definedBy(definition, "v1"), object, false)
	})
}
