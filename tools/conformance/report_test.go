package main

import (
	"strings"
	"testing"
)

const report = `[{"RunTime":2000000000,"SpecReports":[
 {"LeafNodeType":"It","ContainerHierarchyTexts":["[sig-auth]","Kind"],"LeafNodeText":"works","State":"passed","RunTime":1000000000},
 {"LeafNodeType":"It","ContainerHierarchyTexts":["[sig-auth]"],"LeafNodeText":"breaks","State":"STATE","RunTime":TIME,"Failure":{"Message":"first\nsecond"}},
 {"LeafNodeType":"It","LeafNodeText":"not selected","State":"skipped"},
 {"LeafNodeType":"BeforeSuite","State":"passed"}]}]`

func parsed(t *testing.T, name, state, time string) *pass {
	t.Helper()
	p := &pass{name: name}
	if err := p.parse([]byte(strings.NewReplacer("STATE", state, "TIME", time).Replace(report))); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestComparison(t *testing.T) {
	for claim, tc := range map[string]struct {
		direct, through string
		worse           int
		says            string
	}{
		"Equal":         {"passed", "passed", 0, "1.50 times as long"},
		"WorseThrough":  {"passed", "failed", 1, "* [sig-auth] breaks: failed (first)\n"},
		"FailsDirectly": {"failed", "passed", 0, "* [sig-auth] breaks: directly failed (first); through ks-apiserver passed"},
	} {
		t.Run(claim, func(t *testing.T) {
			direct, through := parsed(t, "direct", tc.direct, "1000000000"), parsed(t, "through", tc.through, "2000000000")
			text, worse := compare(direct, through, options{procs: 2})
			if worse != tc.worse || !strings.Contains(text, tc.says) {
				t.Errorf("%d are worse, want %d; the text has to say %q:\n%s", worse, tc.worse, tc.says, text)
			}
		})
	}
}

func TestAReportWithoutTestsIsAnError(t *testing.T) {
	for _, text := range []string{``, `[]`, `[{"SpecReports":[{"LeafNodeType":"It","State":"skipped"}]}]`, `{}`} {
		if err := (&pass{name: "direct"}).parse([]byte(text)); err == nil {
			t.Errorf("%q is taken for a report", text)
		}
	}
}

func TestATestThatDidNotRunThroughUsCounts(t *testing.T) {
	through := parsed(t, "through", "passed", "1")
	delete(through.results, "[sig-auth] breaks")
	if text, worse := compare(parsed(t, "direct", "passed", "1"), through, options{}); worse != 1 || !strings.Contains(text, "not run") {
		t.Errorf("%d\n%s", worse, text)
	}
}
