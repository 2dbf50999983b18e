package rules

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func newTable(t *testing.T) *Table {
	t.Helper()
	return &Table{
		File:     filepath.Join(t.TempDir(), "rules.md"),
		Head:     "# Rules\n",
		Sections: []Section{{"Doors", []Rule{{"D1", "are shut"}, {"D2", "have a lock"}}}},
	}
}

func TestARuleThatNothingHoldsFails(t *testing.T) {
	tb := newTable(t)
	t.Run("a", func(t *testing.T) { tb.Hold(t, "D1") })
	if err := tb.Check(); err == nil || !strings.Contains(err.Error(), "no test holds D2") {
		t.Errorf("%v", err)
	}
}

func TestATestThatWasSkippedHoldsNothing(t *testing.T) {
	tb := newTable(t)
	fake := &skipped{TB: t}
	tb.Hold(fake, "D1")
	fake.cleanup()
	if _, open := tb.render(); len(open) != 2 {
		t.Errorf("open are %v", open)
	}
}

// skipped is a test that was skipped after it named its rules.
type skipped struct {
	testing.TB
	cleanup func()
}

func (s *skipped) Cleanup(f func()) { s.cleanup = f }
func (s *skipped) Skipped() bool    { return true }

func TestTheDocumentIsWrittenAndCompared(t *testing.T) {
	tb := newTable(t)
	t.Run("b", func(t *testing.T) { tb.Hold(t, "D1", "D2") })
	t.Run("a", func(t *testing.T) { tb.Hold(t, "D1") })
	if err := tb.Write(); err != nil {
		t.Fatal(err)
	}
	const want = "# Rules\n\n## Doors\n\n| rule | what it says | tests |\n|---|---|---|\n" +
		"| D1 | are shut | TestTheDocumentIsWrittenAndCompared |\n| D2 | have a lock | TestTheDocumentIsWrittenAndCompared |\n"
	if got, err := os.ReadFile(tb.File); err != nil || string(got) != want {
		t.Errorf("%v\n%s", err, got)
	}
	if err := tb.Check(); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(tb.File, []byte("# Rules\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := tb.Check(); err == nil || !strings.Contains(err.Error(), "-update") {
		t.Errorf("%v", err)
	}
}

func TestProcessesTellEachOtherWhatTheyHold(t *testing.T) {
	part, whole := newTable(t), newTable(t)
	t.Run("b", func(t *testing.T) { part.Hold(t, "D1", "D2") })
	whole.Add(part.Held())
	t.Run("a", func(t *testing.T) { whole.Hold(t, "D1") })
	const here = "TestProcessesTellEachOtherWhatTheyHold"
	if _, open := whole.render(); len(open) > 0 || !whole.held["D2"][here] {
		t.Errorf("open are %v, held is %v", open, whole.held)
	}
}

// The threat model promises by the ids of rules: each is a row of a table, which names the tests that verify it.
func TestEveryRuleOfTheThreatModelHasARow(t *testing.T) {
	const docs = "../../docs/"
	var tables string
	for _, name := range []string{"rules.md", "rules-access.md"} {
		raw, err := os.ReadFile(docs + name)
		if err != nil {
			t.Fatal(err)
		}
		tables += string(raw)
	}
	model, err := os.ReadFile(docs + "threat-model.md")
	if err != nil {
		t.Fatal(err)
	}
	ids := regexp.MustCompile(`\bS[0-9]+\b`).FindAllString(string(model), -1)
	if len(ids) == 0 {
		t.Error("no rule is named")
	}
	for _, id := range ids {
		if !strings.Contains(tables, "\n| "+id+" | ") {
			t.Errorf("the threat model names %s, and no table of rules has it", id)
		}
	}
}

// A table names unit tests in its words too: each test that is named is one of the tree.
func TestEveryTestThatIsNamedExists(t *testing.T) {
	const root = "../.."
	tests := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	for _, folder := range []string{"cmd", "pkg", "tools"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(name string, _ os.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(name, "_test.go") {
				return err
			}
			raw, err := os.ReadFile(name)
			for _, m := range declared.FindAllSubmatch(raw, -1) {
				tests[string(m[1])] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, least := range map[string]int{"rules.md": 50, "rules-access.md": 50, "rules-aggregated.md": 20, "rules-operate.md": 1, "rules-fleet.md": 30, "rules-extensions.md": 12} {
		raw, err := os.ReadFile(filepath.Join(root, "docs", name))
		if err != nil {
			t.Fatal(err)
		}
		named := regexp.MustCompile(`\bTest\w+`).FindAllString(string(raw), -1)
		if len(named) < least {
			t.Errorf("%s names %d tests", name, len(named))
		}
		for _, test := range named {
			if !tests[test] {
				t.Errorf("%s names %s, and there is no such test", name, test)
			}
		}
	}
}

// What the documentation of a package and of the tree says is in a file is found there: a page's links from where the page is, and the files
// that a doc.go names from its folder or from the tree's.
func TestEveryFileThatIsNamedExists(t *testing.T) {
	const root = "../.."
	word, link := regexp.MustCompile(`[\w./-]*\w\.go\b`), regexp.MustCompile(`\]\(([^)#:\s]+)(?:#[^)]*)?\)`)
	path := regexp.MustCompile("`((?:pkg|cmd|tools|hack|config)/[\\w/.-]+\\.(?:go|sh|yaml|json|md))`")
	named := 0
	check := func(where, name string, from ...string) {
		named++
		for _, folder := range from {
			if _, err := os.Stat(filepath.Join(folder, name)); err == nil {
				return
			}
		}
		t.Errorf("%s names %s, which is not there", where, name)
	}
	err := filepath.WalkDir(root, func(name string, entry os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != root && strings.HasPrefix(entry.Name(), "."),
			slices.Contains([]string{"bin", "testdata", "node_modules"}, entry.Name()): // what is made, read by tests, or others'
			return filepath.SkipDir
		case entry.Name() != "doc.go" && filepath.Ext(name) != ".md":
			return nil
		}
		raw, err := os.ReadFile(name)
		folder := filepath.Dir(name)
		if entry.Name() == "doc.go" {
			for _, file := range word.FindAllString(string(raw), -1) {
				check(name, file, folder, filepath.Join(root, "pkg"), root)
			}
			return err
		}
		for _, m := range link.FindAllStringSubmatch(string(raw), -1) {
			check(name, m[1], folder)
		}
		for _, m := range path.FindAllStringSubmatch(string(raw), -1) {
			check(name, m[1], root)
		}
		return err
	})
	if err != nil || named < 500 {
		t.Errorf("%v, %d files are named", err, named)
	}
}

// A comment that names a rule leads to a row of a table.
func TestEveryRuleThatIsNamedHasARow(t *testing.T) {
	const root = "../.."
	var tables strings.Builder
	for _, name := range []string{"rules.md", "rules-access.md", "rules-aggregated.md", "rules-operate.md", "rules-fleet.md", "rules-extensions.md", "needs.md"} {
		raw, err := os.ReadFile(filepath.Join(root, "docs", name))
		if err != nil {
			t.Fatal(err)
		}
		tables.Write(raw)
	}
	id := regexp.MustCompile(`\b(?:[SUOFX][0-9]{1,2}|T[0-9A-Z][A-Za-z0-9]*-[0-9]+)\b`)
	named := 0
	for _, folder := range []string{"cmd", "pkg", "tools"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(name string, _ os.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(name, ".go") {
				return err
			}
			raw, err := os.ReadFile(name)
			for line := range strings.Lines(string(raw)) {
				_, comment, _ := strings.Cut(line, "// ")
				for _, rule := range id.FindAllString(comment, -1) {
					if named++; !strings.Contains(tables.String(), "\n| "+rule+" | ") {
						t.Errorf("%s names %s, and no table has it", name, rule)
					}
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if named < 100 {
		t.Errorf("%d rules are named", named)
	}
}
