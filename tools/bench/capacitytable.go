package main

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"runtime"
	"strings"
)

// advice are the resources that a number of pods needs.
type advice struct {
	cpu             int // thousandths of a core
	request, memory int // MiB: the request, and the limit, which is GOMEMLIMIT
}

const (
	// cachesOfLimit is the share of GOMEMLIMIT that caches may take (docs/operations.md).
	cachesOfLimit = 0.4
	// reserve is how much more than measured is recommended, for what a cluster grows by.
	reserve = 1.25
	// freeCores is the figure of the cores that were free, and quietCores the share of all below which other programs disturb.
	freeCores, quietCores = "cores-that-were-free", 0.9
)

// advise derives resources from what was measured: the limit holds the caches at their share of it, and the most memory, each with the
// reserve; the request is what the process had at the end of the load, and the CPU what lists and streams used.
func (s capacity) advise() advice {
	limit := reserve * s.caches / cachesOfLimit
	if !s.limited() { // else the most memory says what the limit was
		limit = max(limit, reserve*s.peak)
	}
	return advice{
		cpu:     roundUp(1000*s.cpu, 100),
		request: roundUp(s.rss/mebibyte, 128),
		memory:  roundUp(limit/mebibyte, 256),
	}
}

// leastFree returns the least share of the cores that was free, of all numbers of pods.
func leastFree(sizes []capacity) float64 {
	least := math.Inf(1)
	for _, s := range sizes {
		for _, f := range s.figures {
			if f.name == freeCores {
				least = min(least, f.value)
			}
		}
	}
	return least
}

// roundUp returns the least multiple of step that is not less than v, and at least one step.
func roundUp(v float64, step int) int { return max(int(math.Ceil(v/float64(step))), 1) * step }

// writeCapacity writes what was measured as a Markdown document; an empty name writes none.
func writeCapacity(name, machine string, people crowd, sizes []capacity) error {
	if name == "" {
		return nil
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, `# Capacity

Written by `+"`make capacity`"+`: what one replica of ks-apiserver needs for a number of objects. For each number a replica of its own is
started, and measured over loopback, on the machine where its control plane and its clients run too:

* The objects are pods of 5.6 KB. In the cluster are also %v.
* "idle" is a replica that nobody but the measuring client asks. With "streams" %d watchers (of one namespace each, names only) and %d live pages
  of %d users are open, and %d pods a second change. With "logins" users also log in with a password: %d a second are aimed at, by %d clients, so that
  fewer are the most that the cores allow.
* Lists are pages of ten, number 1 to 40 in turn, in the order by creation: of all pods ("page"), of a quarter by a label ("filter"), of a word ("search").
  A yardstick is beside the figure: a handler that answers prepared bytes, a moment later.
* Other programs on the machine show in "`+freeCores+`": the processor time that a program had when it wanted all cores, per second.
`, people, capacityWatchers, capacityLive, capacityPeople, capacityChanges, capacityLogins, capacityClients)
	for _, s := range sizes {
		if s.recorded {
			fmt.Fprintf(&b, "* **%d pods are a recorded watch**: a server that answers lists and watches of all pods with copies of one pod of the cluster, and passes everything\n"+
				"  else on to kube-apiserver.\n", s.pods)
		}
		if s.limited() {
			fmt.Fprintf(&b, "* The replica with %d pods has GOMEMLIMIT=%s and `cacheMemory: %s`, so that the machine's memory suffices: its collector works more often than without a limit.\n",
				s.pods, limitOfMany, cachesOfMany)
		}
	}
	fmt.Fprintf(&b, "\n%s\n\n", strings.TrimPrefix(machine, "# "))
	if least := leastFree(sizes); least < quietCores*float64(runtime.NumCPU()) {
		fmt.Fprintf(&b, "**Other programs worked on this machine meanwhile**: down to %s of its %d cores were free. Memory hardly depends on that; times do, the more\n"+
			"the higher the percentile.\n\n", number(least), runtime.NumCPU())
	}
	b.WriteString("| figure | unit |")
	rule := "|---|---|"
	for _, s := range sizes {
		fmt.Fprintf(&b, " %d pods |", s.pods)
		rule += "---:|"
	}
	fmt.Fprintf(&b, "\n%s\n", rule)
	for i, row := range sizes[0].figures {
		fmt.Fprintf(&b, "| %s | %s |", row.name, row.unit)
		for _, s := range sizes {
			f := s.figures[i]
			text := number(f.value)
			if f.yardstick != "" {
				text += " (" + f.yardstick + ": " + number(f.base) + ")"
			}
			fmt.Fprintf(&b, " %s |", text)
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, `
## Resources

From the figures above, for one replica, with %d %% in reserve: the memory limit is GOMEMLIMIT too (the Deployment sets it), and the caches may take two fifths
of it ([Sizing](operations.md#sizing)); where that is more than the process needs, `+"`resources.cacheMemory`"+` allows a lower limit, which must then
be more than "most-memory". The memory request is "rss-at-the-end", the CPU request is "processor-with-streams". A CPU limit is not recommended: logins
and the start use what there is.

| up to | requests.cpu | requests.memory | limits.memory and GOMEMLIMIT |
|---:|---:|---:|---:|
`, int(math.Round(100*(reserve-1))))
	for _, s := range sizes {
		a := s.advise()
		fmt.Fprintf(&b, "| %d pods | %dm | %dMi | %dMi |\n", s.pods, a.cpu, a.request, a.memory)
	}
	b.WriteString(`
Other kinds take other sizes: [memory.md](memory.md) has them. With too many objects for the limit one kind is refused by name and the process goes on, which
TestASmallProcessRefusesTooManyObjects (tools/memory) verifies with a real process that has a limit.
`)
	if err := os.WriteFile(name, b.Bytes(), 0o644); err != nil { //nolint:gosec // a document for everybody
		return fmt.Errorf("write the table of capacity: %w", err)
	}
	return nil
}
