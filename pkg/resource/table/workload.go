package table

import (
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
)

func deployments() *layout {
	return layoutOf("Name,Ready,Up-to-date,Available,Age,Containers+,Images+,Selector+", func(r *row, o value) {
		spec, status := o.at("spec"), o.at("status")
		r.name(o)
		r.text(share(status.number("readyReplicas"), spec.number("replicas")))
		r.number(status.number("updatedReplicas"))
		r.number(status.number("availableReplicas"))
		r.age(o)
		r.containers(spec.at("template", "spec"))
		r.selector(spec.at("selector"))
	})
}

const replicaColumns = "Name,Desired#,Current#,Ready#,Age,Containers+,Images+,Selector+"

func replicas(r *row, o value) {
	spec, status := o.at("spec"), o.at("status")
	r.name(o)
	r.number(spec.number("replicas"))
	r.number(status.number("replicas"))
	r.number(status.number("readyReplicas"))
	r.age(o)
	r.containers(spec.at("template", "spec"))
}

func replicaSets() *layout {
	return layoutOf(replicaColumns, func(r *row, o value) {
		replicas(r, o)
		r.selector(o.at("spec", "selector"))
	})
}

func replicationControllers() *layout {
	return layoutOf(replicaColumns, func(r *row, o value) {
		replicas(r, o)
		r.text(o.at("spec", "selector").pairs()) // labels alone
	})
}

func statefulSets() *layout {
	return layoutOf("Name,Ready,Age,Containers+,Images+", func(r *row, o value) {
		spec := o.at("spec")
		r.name(o)
		r.text(share(o.number("status", "readyReplicas"), spec.number("replicas")))
		r.age(o)
		r.containers(spec.at("template", "spec"))
	})
}

func daemonSets() *layout {
	const columns = "Name,Desired#,Current#,Ready#,Up-to-date#,Available#,Node Selector,Age,Containers+,Images+,Selector+"
	return layoutOf(columns, func(r *row, o value) {
		spec, status := o.at("spec"), o.at("status")
		pod := spec.at("template", "spec")
		r.name(o)
		for _, field := range [...]string{"desiredNumberScheduled", "currentNumberScheduled", "numberReady", "updatedNumberScheduled",
			"numberAvailable"} {
			r.number(status.number(field))
		}
		r.text(pod.at("nodeSelector").pairs())
		r.age(o)
		r.containers(pod)
		r.selector(spec.at("selector"))
	})
}

func jobs() *layout {
	return layoutOf("Name,Status,Completions,Duration,Age,Containers+,Images+,Selector+", func(r *row, o value) {
		spec, status := o.at("spec"), o.at("status")
		r.name(o)
		r.text(jobState(o, status.at("conditions")))
		done := status.number("succeeded")
		parallel := spec.number("parallelism")
		switch {
		case spec.has("completions"):
			r.text(share(done, spec.number("completions")))
		case parallel > 1:
			r.text(share(done, 1) + " of " + strconv.FormatInt(parallel, 10))
		default:
			r.text(share(done, 1))
		}
		r.text(jobDuration(status, r.now))
		r.age(o)
		r.containers(spec.at("template", "spec"))
		r.selector(spec.at("selector"))
	})
}

func jobState(o, conditions value) string {
	switch {
	case conditions.holds("Complete"):
		return "Complete"
	case conditions.holds("Failed"):
		return "Failed"
	case o.has("metadata", "deletionTimestamp"):
		return terminating
	case conditions.holds("Suspended"):
		return "Suspended"
	case conditions.holds("FailureTarget"):
		return "FailureTarget"
	case conditions.holds("SuccessCriteriaMet"):
		return "SuccessCriteriaMet"
	}
	return "Running"
}

// jobDuration returns how long a job has run, "" for one that has not begun.
func jobDuration(status value, now time.Time) string {
	start, end := status.time("startTime"), status.time("completionTime")
	if start.IsZero() {
		return ""
	}
	if failed := status.at("conditions").condition("Failed"); end.IsZero() && failed.text("status") == "True" {
		end = failed.time("lastTransitionTime")
	}
	if end.IsZero() {
		end = now
	}
	return duration.HumanDuration(end.Sub(start))
}

func cronJobs() *layout {
	const columns = "Name,Schedule,Timezone,Suspend?,Active#,Last Schedule,Age,Containers+,Images+,Selector+"
	return layoutOf(columns, func(r *row, o value) {
		spec := o.at("spec")
		job := spec.at("jobTemplate", "spec")
		r.name(o)
		r.text(spec.text("schedule"))
		r.or(spec.text("timeZone"), none)
		r.text(truth(spec.at("suspend")))
		r.number(int64(o.at("status", "active").length()))
		if last := o.time("status", "lastScheduleTime"); last.IsZero() {
			r.text(none)
		} else {
			r.text(r.since(last))
		}
		r.age(o)
		r.containers(job.at("template", "spec"))
		r.selector(job.at("selector"))
	})
}

// truth returns a boolean as these columns show it.
func truth(v value) string {
	switch v {
	case "true":
		return "True"
	case "false":
		return "False"
	}
	return unset
}

func autoscalers() *layout {
	return layoutOf("Name,Reference,Targets,MinPods,MaxPods,Replicas,Age", func(r *row, o value) {
		spec, status := o.at("spec"), o.at("status")
		r.name(o)
		r.text(spec.text("scaleTargetRef", "kind") + "/" + spec.text("scaleTargetRef", "name"))
		r.text(targets(spec, status))
		r.or(spec.text("minReplicas"), unset)
		r.number(spec.number("maxReplicas"))
		r.number(status.number("currentReplicas"))
		r.age(o)
	})
}

// targets returns the metrics of an autoscaler (autoscaling/v2), each as "what it is/what it should be".
func targets(spec, status value) string {
	var current []value
	for _, m := range status.at("currentMetrics").each() {
		current = append(current, m)
	}
	var out []string
	for i, m := range spec.at("metrics").each() {
		typ := m.text("type")
		if typ == "" {
			continue
		}
		member := strings.ToLower(typ[:1]) + typ[1:]
		want, is := m.at(member), value("")
		if i < len(current) {
			is = current[i].at(member, "current")
		}
		name := ""
		if typ == "Resource" || typ == "ContainerResource" {
			name = want.text("name") + ": "
		}
		out = append(out, name+target(want.at("target"), is))
	}
	switch {
	case len(out) == 0:
		return none
	case len(out) > 2:
		return strings.Join(out[:2], ", ") + " + " + strconv.Itoa(len(out)-2) + " more..."
	}
	return strings.Join(out, ", ")
}

func target(want, is value) string {
	of := func(field, suffix string) string {
		have := unknown
		if is.has(field) {
			have = is.text(field) + suffix
		}
		return have + "/" + want.text(field) + suffix
	}
	switch {
	case want.has("averageUtilization"):
		return of("averageUtilization", "%")
	case want.has("averageValue"):
		return of("averageValue", "")
	}
	return of("value", "")
}

func disruptionBudgets() *layout {
	return layoutOf("Name,Min Available,Max Unavailable,Allowed Disruptions#,Age", func(r *row, o value) {
		r.name(o)
		r.or(o.text("spec", "minAvailable"), "N/A")
		r.or(o.text("spec", "maxUnavailable"), "N/A")
		r.number(o.number("status", "disruptionsAllowed"))
		r.age(o)
	})
}
