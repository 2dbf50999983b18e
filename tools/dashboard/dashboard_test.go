package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

var root = filepath.Join("..", "..")

// ofTheCode returns the metrics of the code by name.
func ofTheCode(t *testing.T) map[string]Metric {
	t.Helper()
	metrics, err := Metrics(root, "pkg")
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]Metric{}
	for _, m := range metrics {
		if _, ok := byName[m.Name]; ok {
			t.Errorf("%s is registered twice", m.Name)
		}
		if m.Help == "" || !slices.Contains([]string{"counter", "gauge", "histogram"}, m.Kind) {
			t.Errorf("%+v lacks its help, or is of no known kind", m)
		}
		byName[m.Name] = m
	}
	return byName
}

func read(t *testing.T, elements ...string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(append([]string{root}, elements...)...))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// A metric that is added, renamed or gone changes the dashboard.
func TestTheDashboardIsOfTheMetricsOfTheCode(t *testing.T) {
	metrics, err := Metrics(root, "pkg")
	if err != nil {
		t.Fatal(err)
	}
	want, err := Dashboard(metrics)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, read(t, output)) {
		t.Error("config/prometheus/dashboard.json is not what the metrics of the code give: go run ./tools/dashboard")
	}
}

// What looks like a metric's name in the code and is none that was found would be missing in the dashboard.
func TestEveryMetricIsFound(t *testing.T) {
	found := ofTheCode(t)
	// A name and a help in a call are a metric, whatever is called.
	name := regexp.MustCompile(`Name:\s+"(ks_[a-z0-9_]+)"|\w\("(ks_[a-z0-9_]*[a-z0-9])",\s*"`)
	err := filepath.WalkDir(filepath.Join(root, "pkg"), func(file string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return err
		}
		text, err := os.ReadFile(file)
		for _, match := range name.FindAllStringSubmatch(string(text), -1) {
			if _, ok := found[match[1]+match[2]]; !ok {
				t.Errorf("%s has %s, which was not found", file, match[1]+match[2])
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"ks_cache_failing", "ks_cache_events_total", "ks_server_request_total", "ks_mirror_lag_seconds"} {
		if _, ok := found[want]; !ok {
			t.Errorf("%s was not found", want)
		}
	}
	if m := found["ks_cache_failing"]; m.Kind != "gauge" || !slices.Equal(m.Labels, []string{"gvr"}) || m.Package != "pkg/store" {
		t.Errorf("it is taken for %+v", m)
	}
}

// rules are the alerts, as far as they are checked here.
type rules struct {
	Spec struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
}

func alerts(t *testing.T) rules {
	t.Helper()
	var r rules
	if err := yaml.Unmarshal(read(t, "config", "prometheus", "rules.yaml"), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

var (
	// quoted are texts of PromQL, spans the lengths of time.
	quoted = regexp.MustCompile(`"[^"]*"`)
	spans  = regexp.MustCompile(`\[[^]]*\]`)
	// matchers are the labels that a metric is chosen by, grouped those that a sum keeps.
	matchers = regexp.MustCompile(`([a-z_][a-z0-9_]*)\{([^}]*)\}`)
	grouped  = regexp.MustCompile(`\b(?:by|without|on|ignoring)\s*\(([^)]*)\)`)
	word     = regexp.MustCompile(`[a-zA-Z_:][a-zA-Z0-9_:]*`)
)

// language are the words of PromQL that the alerts use.
var language = []string{"sum", "max", "min", "rate", "increase", "histogram_quantile", "time", "absent", "and", "or", "by"}

// ofPrometheus are the labels that Prometheus gives each metric that it reads, and the metric that says whether it could.
var ofPrometheus = []string{"job", "instance", "pod", "namespace"}

// problems returns what an expression names that the code does not have.
func problems(expr string, metrics map[string]Metric) []string {
	var wrong []string
	metric := func(name string) (Metric, bool) {
		if m, ok := metrics[name]; ok {
			return m, true
		}
		for _, suffix := range []string{"_bucket", "_count", "_sum"} {
			if m, ok := metrics[strings.TrimSuffix(name, suffix)]; ok && m.Kind == "histogram" {
				return m, true
			}
		}
		return Metric{}, slices.Contains([]string{"up", "leader_election_master_status"}, name) // Prometheus', controller-runtime's
	}
	plain := spans.ReplaceAllString(quoted.ReplaceAllString(expr, `""`), "")
	var labels []string
	for _, match := range grouped.FindAllStringSubmatch(plain, -1) {
		labels = append(labels, word.FindAllString(match[1], -1)...)
	}
	for _, match := range matchers.FindAllStringSubmatch(plain, -1) {
		m, _ := metric(match[1])
		for _, label := range word.FindAllString(match[2], -1) {
			if !slices.Contains(m.Labels, label) && !slices.Contains(ofPrometheus, label) {
				wrong = append(wrong, match[1]+" has no label "+label)
			}
		}
	}
	bare := grouped.ReplaceAllString(matchers.ReplaceAllString(plain, "$1"), "")
	var named []Metric
	for _, w := range word.FindAllString(bare, -1) {
		if slices.Contains(language, w) {
			continue
		}
		m, ok := metric(w)
		if !ok {
			wrong = append(wrong, "there is no metric "+w)
		}
		named = append(named, m)
	}
	for _, label := range labels {
		has := func(m Metric) bool { return slices.Contains(m.Labels, label) || label == "le" && m.Kind == "histogram" }
		if !slices.ContainsFunc(named, has) && !slices.Contains(ofPrometheus, label) {
			wrong = append(wrong, "no metric has the label "+label)
		}
	}
	return wrong
}

func TestTheAlertsNameWhatTheCodeHas(t *testing.T) {
	metrics, operations := ofTheCode(t), string(read(t, "docs", "operations.md"))
	seen := 0
	for _, g := range alerts(t).Spec.Groups {
		for _, r := range g.Rules {
			seen++
			for _, problem := range problems(r.Expr, metrics) {
				t.Errorf("%s: %s", r.Alert, problem)
			}
			if strings.Contains(r.Expr, "ks_server_request_") && strings.Count(r.Expr, "ks_server_request_") != strings.Count(r.Expr, `verb!="probe"`) {
				t.Errorf("%s counts probes, which are many and fast: %s", r.Alert, r.Expr)
			}
			if r.For == "" || r.Labels["severity"] == "" || r.Annotations["summary"] == "" {
				t.Errorf("%s says not how long, how bad or what: %+v", r.Alert, r)
			}
			if !regexp.MustCompile(`(?m)^\| ` + r.Alert + ` \|( [^|]+ \|){3}$`).MatchString(operations) {
				t.Errorf("docs/operations.md has not three steps for %s", r.Alert)
			}
		}
	}
	if seen < 10 {
		t.Errorf("there are %d alerts", seen)
	}
}

func TestAnAlertOnWhatIsNotThereIsSeen(t *testing.T) {
	metrics := ofTheCode(t)
	for expr, want := range map[string]string{
		`rate(ks_server_requests_total[5m]) > 1`:                                        "there is no metric ks_server_requests_total",
		`sum by (codes) (rate(ks_server_request_total[5m])) > 1`:                        "no metric has the label codes",
		`rate(ks_server_request_total{status="500"}[5m]) > 1`:                           "ks_server_request_total has no label status",
		`ks_sessions_bucket > 1`:                                                        "there is no metric ks_sessions_bucket",
		`histogram_quantile(0.9, sum by (le) (rate(ks_mirror_lag_seconds_bucket[5m])))`: "",
	} {
		got := problems(expr, metrics)
		if want == "" && len(got) > 0 || want != "" && !slices.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", expr, got, want)
		}
	}
}
