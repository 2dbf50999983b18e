// Package rules writes the tables of docs/ that name the tests which verify each rule: tests say which rules they verify, and the
// table is written, or compared with the file, when all have run.
package rules

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Rule is one row of a table: the id that tests use, and the rule in short.
type Rule [2]string

// Section is a source of rules.
type Section struct {
	// Name is the heading.
	Name string
	// Rules are the rows, in the order of the table.
	Rules []Rule
}

// Table is a document of rules, and the tests that have verified them so far. It is safe for tests that run in parallel.
type Table struct {
	// File is the document, relative to the folder of the tests.
	File string
	// Head is the text above the sections, with the title.
	Head string
	// Sections are the parts of the table, in their order.
	Sections []Section

	mu   sync.Mutex
	held map[string]map[string]bool // rule -> names of tests
}

// Hold records that the calling test verifies the rules, if it passes. A rule that the table does not have fails the test.
func (tb *Table) Hold(t testing.TB, ids ...string) {
	t.Helper()
	for _, id := range ids {
		if !tb.has(id) {
			t.Fatalf("there is no rule %q", id)
		}
	}
	name, _, _ := strings.Cut(t.Name(), "/")
	t.Cleanup(func() {
		if t.Failed() || t.Skipped() {
			return
		}
		for _, id := range ids {
			tb.Add(map[string][]string{id: {name}})
		}
	})
}

// Held returns the tests that have verified each rule so far, for a process that runs a part of the tests.
func (tb *Table) Held() map[string][]string {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	out := map[string][]string{}
	for id, tests := range tb.held {
		out[id] = slices.Sorted(maps.Keys(tests))
	}
	return out
}

// Add records that tests have verified rules, in this process or in another one.
func (tb *Table) Add(held map[string][]string) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	if tb.held == nil {
		tb.held = map[string]map[string]bool{}
	}
	for id, tests := range held {
		if tb.held[id] == nil {
			tb.held[id] = map[string]bool{}
		}
		for _, test := range tests {
			tb.held[id][test] = true
		}
	}
}

func (tb *Table) has(id string) bool {
	return slices.ContainsFunc(tb.Sections, func(s Section) bool {
		return slices.ContainsFunc(s.Rules, func(r Rule) bool { return r[0] == id })
	})
}

// Write writes the document.
func (tb *Table) Write() error {
	doc, _ := tb.render()
	return os.WriteFile(tb.File, doc, 0o644)
}

// Check returns what is wrong with the document after all tests have passed: a rule that no test verifies, or a difference from the
// file.
func (tb *Table) Check() error {
	doc, open := tb.render()
	if len(open) > 0 {
		return fmt.Errorf("no test holds %s", strings.Join(open, ", "))
	}
	old, err := os.ReadFile(tb.File)
	if err != nil {
		return err
	}
	if !bytes.Equal(old, doc) {
		return fmt.Errorf("%s says something else than the tests; run them with -update. The first line that differs would be\n%s", tb.File,
			differing(string(old), string(doc)))
	}
	return nil
}

// differing returns the first line of now that is not at its place in old.
func differing(old, now string) string {
	was := strings.Split(old, "\n")
	for i, line := range strings.Split(now, "\n") {
		if i >= len(was) || line != was[i] {
			return line
		}
	}
	return "one line less"
}

// render returns the document, and the rules that no test verifies.
func (tb *Table) render() (doc []byte, open []string) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	var b bytes.Buffer
	b.WriteString(tb.Head)
	for _, s := range tb.Sections {
		fmt.Fprintf(&b, "\n## %s\n\n| rule | what it says | tests |\n|---|---|---|\n", s.Name)
		for _, r := range s.Rules {
			tests := slices.Sorted(maps.Keys(tb.held[r[0]]))
			if len(tests) == 0 {
				open = append(open, r[0])
			}
			fmt.Fprintf(&b, "| %s | %s | %s |\n", r[0], r[1], strings.Join(tests, ", "))
		}
	}
	return b.Bytes(), open
}
