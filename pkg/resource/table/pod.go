package table

import (
	"fmt"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
)

const terminating = "Terminating"

func pods() *layout {
	return layoutOf("Name,Ready,Status,Restarts,Age,IP+,Node+,Nominated Node+,Readiness Gates+", func(r *row, o value) {
		spec, status := o.at("spec"), o.at("status")
		p := podState{spec: spec, status: status, reason: status.text("phase")}
		p.read(o.has("metadata", "deletionTimestamp"))
		r.name(o)
		r.text(strconv.Itoa(p.ready) + "/" + strconv.Itoa(p.total))
		r.text(p.reason)
		restarts := strconv.FormatInt(p.restarts, 10)
		if p.restarts != 0 && !p.restarted.IsZero() {
			restarts += " (" + duration.HumanDuration(r.now.Sub(p.restarted)) + " ago)"
		}
		r.text(restarts)
		r.age(o)
		ip := status.text("podIP")
		if first := status.text("podIPs", "0", "ip"); first != "" {
			ip = first
		}
		r.or(ip, none)
		r.or(spec.text("nodeName"), none)
		r.or(status.text("nominatedNodeName"), none)
		r.text(gates(spec.at("readinessGates"), status.at("conditions")))
	})
}

// gates returns how many of a pod's readiness gates are open.
func gates(all, conditions value) string {
	open, total := 0, 0
	for _, g := range all.each() {
		total++
		if conditions.holds(g.text("conditionType")) {
			open++
		}
	}
	if total == 0 {
		return none
	}
	return strconv.Itoa(open) + "/" + strconv.Itoa(total)
}

// podState is what the columns of a pod say of its containers.
type podState struct {
	spec, status value
	reason       string
	ready, total int
	restarts     int64
	restarted    time.Time // of the last one
}

func (p *podState) read(deleted bool) {
	own := p.status.text("reason")
	if own != "" {
		p.reason = own
	}
	conditions := p.status.at("conditions")
	if c := conditions.condition("PodScheduled"); c.text("reason") == "SchedulingGated" {
		p.reason = "SchedulingGated"
	}
	sidecars := map[string]bool{} // init containers that go on
	inits := 0
	for _, c := range p.spec.at("initContainers").each() {
		inits++
		if c.text("restartPolicy") == "Always" {
			sidecars[c.text("name")] = true
		}
	}
	p.total = p.spec.at("containers").length() + len(sidecars)
	starting, rest := p.initial(sidecars, inits)
	if !starting || conditions.holds("Initialized") {
		p.restarts, p.restarted = rest.restarts, rest.restarted
		p.running(conditions)
	}
	phase := p.status.text("phase")
	switch {
	case deleted && own == "NodeLost":
		p.reason = "Unknown"
	case deleted && phase != "Succeeded" && phase != "Failed":
		p.reason = terminating
	}
}

// again counts the restarts of a container.
func (p *podState) again(c value) {
	p.restarts += c.number("restartCount")
	if t := c.time("lastState", "terminated", "finishedAt"); t.After(p.restarted) {
		p.restarted = t
	}
}

// initial reads the init containers, and reports whether the pod waits for one of them. sidecar has the restarts of those that go on.
func (p *podState) initial(sidecars map[string]bool, total int) (waits bool, sidecar podState) {
	for i, c := range p.status.at("initContainerStatuses").each() {
		p.again(c)
		ended, goesOn := c.at("state", "terminated"), sidecars[c.text("name")]
		if goesOn {
			sidecar.again(c)
		}
		waiting := c.text("state", "waiting", "reason")
		switch {
		case ended.has() && ended.number("exitCode") == 0:
			continue
		case goesOn && c.is("started"):
			if c.is("ready") {
				p.ready++
			}
			continue
		case ended.has():
			p.reason = "Init:" + endOf(ended)
		case waiting != "" && waiting != "PodInitializing":
			p.reason = "Init:" + waiting
		default:
			p.reason = fmt.Sprintf("Init:%d/%d", i, total)
		}
		return true, sidecar
	}
	return false, sidecar
}

// running reads the other containers. The first that is not running says why the pod is not.
func (p *podState) running(conditions value) {
	runs, first := false, ""
	for _, c := range p.status.at("containerStatuses").each() {
		p.again(c)
		ended, why := c.at("state", "terminated"), ""
		switch {
		case c.text("state", "waiting", "reason") != "":
			why = c.text("state", "waiting", "reason")
		case ended.has():
			why = endOf(ended)
		case c.is("ready") && c.has("state", "running"):
			runs = true
			p.ready++
		}
		if first == "" {
			first = why
		}
	}
	if first != "" {
		p.reason = first
	}
	if p.reason == "Completed" && runs {
		p.reason = "NotReady"
		if conditions.holds("Ready") {
			p.reason = "Running"
		}
	}
}

// endOf returns how a container ended.
func endOf(ended value) string {
	if why := ended.text("reason"); why != "" {
		return why
	}
	if signal := ended.number("signal"); signal != 0 {
		return "Signal:" + strconv.FormatInt(signal, 10)
	}
	return "ExitCode:" + strconv.FormatInt(ended.number("exitCode"), 10)
}
