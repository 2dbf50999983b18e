package kind

import (
	"strings"

	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/resource/plan"
)

// The fields of pods.
const (
	podNode = iota
	podStatus
	podPhase
	podIP
	podClaims
	podStart
)

// The states of a pod, as the filter status names them.
const (
	podWaiting   = "Waiting"
	podRunning   = "Running"
	podError     = "Error"
	podCompleted = "Completed"
)

func pods() *plan.Kind {
	return &plan.Kind{
		Fields: []plan.Field{
			podNode:   {Name: "nodeName", Match: plan.MatchExact, Path: query.Path{"spec", "nodeName"}},
			podStatus: {Name: "status", Match: plan.MatchState, States: []string{podWaiting, podRunning, podError, podCompleted}},
			podPhase: {Name: "phase", Match: plan.MatchState, Path: query.Path{"status", "phase"},
				States: []string{"Pending", "Running", "Succeeded", "Failed", "Unknown"}},
			podIP:     {Name: "podIP", Match: plan.MatchContains, Path: query.Path{"status", "podIP"}},
			podClaims: {Name: "pvcName", Match: plan.MatchMember, Inside: true},
			podStart:  {Name: plan.SortStartTime, Sort: true, Time: true, Path: query.Path{"status", "startTime"}},
		},
		Extract: extractPod,
		Params:  []string{paramServiceName},
		Plan:    planPods,
	}
}

func extractPod(json string, v []string) {
	var deleted bool
	var name, spec, status string
	for m := rawjson.Object(json); m.Next(); {
		switch m.Key {
		case "metadata":
			deleted = rawjson.Get(m.Value, "deletionTimestamp") != ""
			name = rawjson.GetText(m.Value, "name")
		case "spec":
			spec = m.Value
		case "status":
			status = m.Value
		}
	}
	for m := rawjson.Object(spec); m.Next(); {
		switch m.Key {
		case "nodeName":
			v[podNode] = rawjson.Text(m.Value)
		case "volumes":
			v[podClaims] = claims(m.Value, name)
		}
	}
	var s podState
	for m := rawjson.Object(status); m.Next(); {
		switch m.Key {
		case "phase":
			s.phase = rawjson.Text(m.Value)
		case "reason":
			s.reason = rawjson.Text(m.Value)
		case "podIP":
			v[podIP] = rawjson.Text(m.Value)
		case "startTime":
			v[podStart] = rawjson.Text(m.Value)
		case "initContainerStatuses":
			s.init = m.Value
		case "containerStatuses":
			s.containers = m.Value
		}
	}
	v[podPhase] = s.phase
	v[podStatus] = s.state(deleted, spec)
}

// claims returns the names of the volume claims of a pod, one a line: those that it names, and those that are made for it alone.
func claims(volumes, pod string) string {
	var out string
	for e := rawjson.Array(volumes); e.Next(); {
		name := rawjson.GetText(e.Value, "persistentVolumeClaim", "claimName")
		if name == "" && rawjson.Get(e.Value, "ephemeral") != "" {
			name = pod + "-" + rawjson.GetText(e.Value, "name")
		}
		switch {
		case name == "":
		case out == "":
			out = name
		default:
			out += "\n" + name
		}
	}
	return out
}

// podState is what decides about the state of a pod.
type podState struct {
	phase, reason    string
	init, containers string // arrays of container statuses
}

// state returns how a pod is in one word, from the reason that `kubectl get pods` shows: Completed and Running for those
// reasons, Error for a failure, and Waiting for anything that is starting or ending.
func (s *podState) state(deleted bool, spec string) string {
	reason := s.phase
	if s.reason != "" {
		reason = s.reason
	}
	starting := false
	if why, ok := s.initReason(spec); ok {
		reason, starting = why, true
	}
	if !starting {
		reason = s.containerReason(reason)
	}
	if deleted && s.reason != "NodeLost" && s.phase != "Succeeded" && s.phase != "Failed" {
		reason = "Terminating"
	}
	switch {
	case reason == "Running":
		return podRunning
	case reason == "Completed", reason == "Succeeded":
		return podCompleted
	case failed(reason):
		return podError
	}
	return podWaiting
}

// failed reports whether a reason is a failure, and not a temporary state.
func failed(reason string) bool {
	reason = strings.TrimPrefix(reason, "Init:")
	switch reason {
	case "Failed", "OOMKilled", "Evicted", "NodeLost", "Unknown", "ContainerCannotRun", "DeadlineExceeded",
		"InvalidImageName", "NodeAffinity", "OutOfcpu", "OutOfmemory", "Shutdown", "UnexpectedAdmissionError":
		return true
	}
	return strings.HasPrefix(reason, "Signal:") || strings.HasPrefix(reason, "ExitCode:") || strings.HasPrefix(reason, "Err") ||
		strings.HasSuffix(reason, "BackOff") || strings.HasSuffix(reason, "Error")
}

// initReason returns why the pod is still initializing, and whether it is.
func (s *podState) initReason(spec string) (string, bool) {
	var sidecars map[string]bool
	for e := rawjson.Array(s.init); e.Next(); {
		if sidecars == nil {
			sidecars = sidecarsOf(spec)
		}
		c := statusOf(e.Value)
		switch {
		case c.terminated != "" && rawjson.Get(c.terminated, "exitCode") == "0":
			continue
		case c.started && sidecars[c.name]:
			continue
		case c.terminated != "":
			return "Init:" + ended(c.terminated), true
		case c.waiting != "":
			if why := rawjson.GetText(c.waiting, "reason"); why != "" && why != "PodInitializing" {
				return "Init:" + why, true
			}
		}
		return "Init:Waiting", true
	}
	return "", false
}

// sidecarsOf returns the init containers that keep running.
func sidecarsOf(spec string) map[string]bool {
	out := map[string]bool{}
	for e := rawjson.Array(rawjson.Get(spec, "initContainers")); e.Next(); {
		if rawjson.GetText(e.Value, "restartPolicy") == "Always" {
			out[rawjson.GetText(e.Value, "name")] = true
		}
	}
	return out
}

// containerReason returns the reason of the containers, or reason where they have none. The first that waits or ended
// decides; a pod with a running container next to completed ones is running.
func (s *podState) containerReason(reason string) string {
	said, running := "", false
	for e := rawjson.Array(s.containers); e.Next(); {
		c := statusOf(e.Value)
		why := ""
		if c.waiting != "" {
			why = rawjson.GetText(c.waiting, "reason")
		}
		switch {
		case why != "":
		case c.terminated != "":
			why = ended(c.terminated)
		default:
			running = running || c.running && c.ready
		}
		if said == "" {
			said = why
		}
	}
	switch {
	case said == "":
		return reason
	case said == "Completed" && running:
		return "Running"
	}
	return said
}

// ended returns how a container ended.
func ended(terminated string) string {
	if why := rawjson.GetText(terminated, "reason"); why != "" {
		return why
	}
	if signal := rawjson.GetText(terminated, "signal"); signal != "" && signal != "0" {
		return "Signal:" + signal
	}
	return "ExitCode:" + rawjson.GetText(terminated, "exitCode")
}

// containerStatus is what the state of a pod needs of one container.
type containerStatus struct {
	name                string
	waiting, terminated string // objects of its state
	running             bool
	ready, started      bool
}

func statusOf(json string) containerStatus {
	var c containerStatus
	for m := rawjson.Object(json); m.Next(); {
		switch m.Key {
		case "name":
			c.name = rawjson.Text(m.Value)
		case "ready":
			c.ready = m.Value == "true"
		case "started":
			c.started = m.Value == "true"
		case "state":
			for st := rawjson.Object(m.Value); st.Next(); {
				switch st.Key {
				case "waiting":
					c.waiting = st.Value
				case "terminated":
					c.terminated = st.Value
				case "running":
					c.running = true
				}
			}
		}
	}
	return c
}
