package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"time"
)

// soakRun is the result of one soak.
type soakRun struct {
	name      string
	raced     bool // the product was built with the race detector
	changes   float64
	delivered float64
	lists     float64
	listP50   time.Duration
	listP99   time.Duration
	streams   int64
	errors    int
	races     int
	seen      seen
}

// rows returns the figures, of the first and the last minute after the warm-up where something was measured more than once.
func (r soakRun) rows() []figure {
	figures := []figure{
		{name: "changes-made", value: r.changes, unit: "1/s"},
		{name: "events-taken-in", value: r.seen.taken, unit: "1/s"},
		{name: "events-and-pages-delivered", value: r.delivered, unit: "1/s"},
		{name: "lists", value: r.lists, unit: "1/s"},
		{name: "list-p50", value: micros(r.listP50) / 1000, unit: "ms"},
		{name: "list-p99", value: micros(r.listP99) / 1000, unit: "ms"},
		{name: "streams-opened", value: float64(r.streams), unit: "streams"},
		{name: "errors", value: float64(r.errors), unit: "errors", goal: "<= 0"},
		{name: "data-races", value: float64(r.races), unit: "races", goal: "<= 0"},
		{name: "processor", value: 100 * r.seen.cpu, unit: "% of a core"},
	}
	for _, memory := range []struct {
		name   string
		values []float64
		judged bool
	}{{"rss", r.seen.rss, !r.raced}, {"heap", r.seen.heap, r.raced}} {
		first, last := ends(memory.values)
		grown := figure{
			name: memory.name + "-at-the-end", value: last / mebibyte, unit: "MiB", yardstick: "after-a-minute", base: first / mebibyte,
		}
		if memory.judged {
			grown.goal = fmt.Sprintf("ratio <= %.2f", soakGrowth)
		}
		figures = append(figures, figure{name: memory.name + "-after-a-minute", value: first / mebibyte, unit: "MiB"}, grown)
	}
	first, last := ends(r.seen.goroutines)
	return append(figures,
		figure{name: "goroutines-after-a-minute", value: first, unit: "goroutines"},
		figure{name: "goroutines-at-the-end", value: last, unit: "goroutines"})

}

// say reports the figures.
func (r soakRun) say(to *report) {
	prefix := "soak-"
	if r.raced {
		prefix = "soak-race-"
	}
	for _, f := range r.rows() {
		f.name = prefix + f.name
		to.add(f)
	}
}

// writeSoak writes the runs as a Markdown document; an empty name writes none.
func writeSoak(name, machine string, length time.Duration, runs []soakRun) error {
	if name == "" {
		return nil
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, `# Soak

Written by `+"`make soak`"+`: the real binary and a real control plane on loopback, loaded for %v by another process on the same
machine. A change is an object written through kube-apiserver and etcd; %d a second are aimed at:
%s.

%d watchers follow pods of one namespace (50), pods by label, names only (25), Leases by label (25), ConfigMaps with
their data of one namespace (25), and live pages of pods (50) and ConfigMaps (25). %d clients list, filter, search and sort pods,
ConfigMaps and Leases, each over a connection of its own with %v between two lists on the average. Memory is the least of
the first minute behind a warm-up of a minute, and of the last minute; with the race detector, whose shadow of all memory that was ever
used is resident, the heap tells whether it grows. On a machine that does other things as well fewer changes are made than are aimed at.

%s

`, length, churnRate, mixed, soakWatchers, soakListers, soakPause, strings.TrimPrefix(machine, "# "))
	b.WriteString("| figure | unit |")
	rule := "|---|---|"
	for _, r := range runs {
		fmt.Fprintf(&b, " %s |", r.name)
		rule += "---:|"
	}
	fmt.Fprintf(&b, "\n%s\n", rule)
	for i, row := range runs[0].rows() {
		fmt.Fprintf(&b, "| %s | %s |", row.name, row.unit)
		for _, r := range runs {
			text := number(r.rows()[i].value)
			if row.name == "data-races" && !r.raced {
				text = "" // they were not searched for
			}
			fmt.Fprintf(&b, " %s |", text)
		}
		b.WriteByte('\n')
	}
	if err := os.WriteFile(name, b.Bytes(), 0o644); err != nil { //nolint:gosec // a document for everybody
		return fmt.Errorf("write the table of the soak: %w", err)
	}
	return nil
}
