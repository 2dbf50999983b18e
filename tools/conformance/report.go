package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// pass is one run of the tests.
type pass struct {
	name       string // direct or through
	kubeconfig string
	results    map[string]result // by the name of the test
	took       time.Duration
}

// result is the end of one test.
type result struct {
	state   string // as ginkgo calls it: passed, failed, timedout, interrupted ...
	message string // why it failed, its first line
	took    time.Duration
}

const passed = "passed"

// suite is what is read of ginkgo's JSON report.
type suite struct {
	RunTime     time.Duration
	SpecReports []struct {
		LeafNodeType            string
		ContainerHierarchyTexts []string
		LeafNodeText            string
		State                   string
		RunTime                 time.Duration
		Failure                 struct{ Message string }
	}
}

// read reads the report of a pass. A report without tests is an error: it would compare as if all was well.
func (p *pass) read(dir string) error {
	file := filepath.Join(dir, p.name+".json")
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("the tests left no report: %w; their log is %s", err, filepath.Join(dir, p.name+".log"))
	}
	return p.parse(text)
}

func (p *pass) parse(text []byte) error {
	var suites []suite
	if err := json.Unmarshal(text, &suites); err != nil {
		return fmt.Errorf("read the report of %s: %w", p.name, err)
	}
	p.results = map[string]result{}
	for _, s := range suites {
		p.took += s.RunTime
		for _, r := range s.SpecReports {
			if r.LeafNodeType != "It" || r.State == "skipped" && r.RunTime == 0 {
				continue
			}
			message, _, _ := strings.Cut(strings.TrimSpace(r.Failure.Message), "\n")
			name := strings.Join(append(slices.Clone(r.ContainerHierarchyTexts), r.LeafNodeText), " ")
			p.results[name] = result{state: r.State, message: message, took: r.RunTime}
		}
	}
	if len(p.results) == 0 {
		return fmt.Errorf("the report of %s has no test: none ran", p.name)
	}
	return nil
}

func (p *pass) count(state string) int {
	n := 0
	for _, r := range p.results {
		if r.state == state {
			n++
		}
	}
	return n
}

// compare writes docs/conformance.md, and returns how many tests pass directly and not through ks-apiserver.
func compare(direct, through *pass, o options) (text string, worse int) {
	var b strings.Builder
	focus, skip := selection(o.real)
	fmt.Fprintf(&b, `# Conformance tests of Kubernetes, directly and through ks-apiserver

Written by `+"`make conformance`"+`: the tests of Kubernetes v1.37.1 (`+"`k8s.io/kubernetes/test/e2e`"+`), first against kube-apiserver, then
with the same command against ks-apiserver's TLS port, as the administrator of each. %d tests run at a time.

| | passed | of | time of the pass |
|---|---|---|---|
| directly | %d | %d | %s |
| through ks-apiserver | %d | %d | %s |

`, o.procs, direct.count(passed), len(direct.results), direct.took.Round(time.Second), through.count(passed), len(through.results), through.took.Round(time.Second))
	var sum [2]time.Duration
	var lines, both []string
	for _, name := range slices.Sorted(maps.Keys(direct.results)) {
		a, b := direct.results[name], through.results[name]
		switch {
		case a.state == passed && b.state == passed:
			sum[0] += a.took
			sum[1] += b.took
		case a.state == passed:
			lines = append(lines, fmt.Sprintf("* %s: %s", name, reason(b)))
		default:
			both = append(both, fmt.Sprintf("* %s: directly %s; through ks-apiserver %s", name, reason(a), reason(b)))
		}
	}
	if sum[0] > 0 {
		fmt.Fprintf(&b, "Tests that pass on both ways took %s directly and %s through ks-apiserver: %.2f times as long (goal: 1.10).\n",
			sum[0].Round(time.Second), sum[1].Round(time.Second), float64(sum[1])/float64(sum[0]))
	}
	if o.note != "" {
		fmt.Fprintf(&b, "\n%s\n", o.note)
	}
	section(&b, "Pass directly and not through ks-apiserver", lines)
	section(&b, "Do not pass directly", both)
	fmt.Fprintf(&b, `
## How to run it

`+"```sh\nmake conformance              # builds the tests, some minutes the first time, starts a cluster, and runs both passes\n"+
		"make conformance NODE=real    # with a real node: the tests that run containers, exec, logs and port-forward too\n```"+`

Selected are the tests that match `+"`%s`"+`, without `+"`%s`"+`. What they printed is in `+"`.dev/conformance/`"+`.
On a machine that does other work at the time, compare the counts; the times say little.
`, focus, skip)
	return b.String(), len(lines)
}

func section(b *strings.Builder, head string, lines []string) {
	if len(lines) == 0 {
		lines = []string{"None."}
	}
	fmt.Fprintf(b, "\n## %s\n\n%s\n", head, strings.Join(lines, "\n"))
}

func reason(r result) string {
	switch {
	case r.state == "":
		return "not run"
	case r.message == "":
		return r.state
	}
	const most = 200
	message := []rune(r.message)
	if len(message) > most {
		message = append(message[:most], []rune("...")...)
	}
	return r.state + " (" + string(message) + ")"
}
