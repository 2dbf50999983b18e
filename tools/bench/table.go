package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
)

// met reports whether a figure reaches its goal; ok is false where there is none.
func (f figure) met() (met, ok bool) {
	value, goal := f.value, f.goal
	if rest, ratio := strings.CutPrefix(goal, "ratio "); ratio {
		value, goal = f.value/f.base, rest
	}
	var sign string
	var bound float64
	if n, _ := fmt.Sscan(goal, &sign, &bound); n != 2 {
		return false, false
	}
	switch sign {
	case "<=":
		return value <= bound, true
	case ">=":
		return value >= bound, true
	}
	return false, false
}

// table writes the figures as a Markdown document; an empty name writes none.
func (r *report) table(name, machine string, rounds int) error {
	if name == "" {
		return nil
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Benchmarks\n\nWritten by `make bench`: medians of %d rounds (of lists: %d) over the real binary and a real control plane on loopback,\n",
		rounds, listRounds*rounds)
	b.WriteString("each beside its yardstick in the same run. Ratios travel to other machines, absolute values do not. " +
		"`@100000` names the number of pods where it\nis not the smallest. What is known of goals that are missed: [profile.md](profile.md).\n\n")
	fmt.Fprintf(&b, "%s\n\n", strings.TrimPrefix(machine, "# "))
	b.WriteString("| figure | value | unit | yardstick | its value | ratio | goal | met |\n|---|---:|---|---|---:|---:|---|---|\n")
	for _, f := range r.figures {
		yardstick, base, ratio, met := "", "", "", ""
		if f.yardstick != "" {
			yardstick, base, ratio = f.yardstick, number(f.base), number(f.value/f.base)
		}
		if reached, ok := f.met(); ok {
			met = map[bool]string{true: "yes", false: "**no**"}[reached]
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s | %s |\n", f.name, number(f.value), f.unit, yardstick, base, ratio, f.goal, met)
	}
	if err := os.WriteFile(name, b.Bytes(), 0o644); err != nil { //nolint:gosec // a document for everybody
		return fmt.Errorf("write the table of figures: %w", err)
	}
	return nil
}
