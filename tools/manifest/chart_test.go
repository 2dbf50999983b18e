package manifest

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// templated returns the objects that the chart renders with values, as JSON by kind and name.
func templated(t *testing.T, values string) (map[string][]byte, error) {
	t.Helper()
	chart, err := loader.Load(filepath.Join(config, "chart"))
	if err != nil {
		t.Fatal(err)
	}
	var given map[string]any
	if err := yaml.Unmarshal([]byte(values), &given); err != nil {
		t.Fatal(err)
	}
	all, err := util.ToRenderValues(chart, given, common.ReleaseOptions{Name: "ks", Namespace: "kubesphere-system", IsInstall: true}, nil)
	if err != nil {
		return nil, err
	}
	files, err := engine.Engine{Strict: true}.RenderWithContext(t.Context(), chart, all)
	if err != nil {
		return nil, err
	}
	found := map[string][]byte{}
	for file, text := range files {
		for document := range strings.SplitSeq(text, "\n---\n") {
			if strings.TrimSpace(document) == "" {
				continue
			}
			object, err := yaml.YAMLToJSONStrict([]byte(document))
			if err != nil {
				t.Fatalf("%s: %v\n%s", file, err, document)
			}
			if string(object) == "null" { // comments alone
				continue
			}
			var meta metav1.PartialObjectMetadata
			if err := json.Unmarshal(object, &meta); err != nil {
				t.Fatal(err)
			}
			if _, ok := found[meta.Kind+" "+meta.Name]; ok {
				t.Errorf("%s %s is rendered twice", meta.Kind, meta.Name)
			}
			found[meta.Kind+" "+meta.Name] = object
		}
	}
	return found, nil
}

// valuesOf returns the text of a file of values.
func valuesOf(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(config, "chart", file))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// An installation by Helm runs the same as one by kustomize.
func TestTheChartRendersWhatTheOverlaysRender(t *testing.T) {
	for _, c := range []struct {
		values string
		folder []string
	}{
		{"values.yaml", []string{"default"}},
		{"values-dev.yaml", []string{"overlays", "dev"}},
		{"values-prod.yaml", []string{"overlays", "prod"}},
	} {
		t.Run(c.values, func(t *testing.T) {
			got, err := templated(t, valuesOf(t, c.values))
			if err != nil {
				t.Fatal(err)
			}
			same(t, got, rendered(t, c.folder...))
			if got, err = templated(t, setAggregated(valuesOf(t, c.values))); err != nil {
				t.Fatal(err)
			}
			want := map[string][]byte{}
			for name, text := range aggregated(t, filepath.Join(c.folder...)) {
				want[name] = []byte(text)
			}
			same(t, got, want)
		})
	}
}

// setAggregated switches the aggregated API on in values that may say that it is off.
func setAggregated(values string) string {
	return strings.Replace(values, "\naggregated:\n  enabled: false", "", 1) + "\naggregated: {enabled: true}\n"
}

// same checks that the chart renders the objects of an overlay.
func same(t *testing.T, got, want map[string][]byte) {
	t.Helper()
	if g, w := slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)); !slices.Equal(g, w) {
		t.Errorf("the chart renders %q, and the overlay %q", g, w)
	}
	for name, text := range want {
		var mine, theirs any
		if err := json.Unmarshal(text, &theirs); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(got[name], &mine); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !reflect.DeepEqual(mine, theirs) {
			t.Errorf("%s: the chart renders\n%s\nand the overlay\n%s", name, got[name], text)
		}
	}
}

func TestTheValuesOfTheChart(t *testing.T) {
	got, err := templated(t, `
images: {registry: registry.example.com/team, tag: v1, pullSecrets: [pull, other]}
priorityClass: {create: false, name: system-cluster-critical}
controllerManager: {args: ["--metrics-bind-address=:9999"]}
`)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := got["PriorityClass system-cluster-critical"]; ok {
		t.Error("a priority class is rendered that is there already")
	}
	for _, want := range []string{`"image":"registry.example.com/team/ks-controller-manager:v1"`, `"imagePullSecrets":[{"name":"pull"},{"name":"other"}]`,
		`"priorityClassName":"system-cluster-critical"`, `"--metrics-bind-address=:9999"`} {
		if !strings.Contains(string(got["Deployment ks-controller-manager"]), want) {
			t.Errorf("ks-controller-manager has not %s: %s", want, got["Deployment ks-controller-manager"])
		}
	}
}

func TestAValueThatNothingReadsIsAnError(t *testing.T) {
	for values, want := range map[string]string{
		"replicas: 3":                     "replicas",
		"apiserver: {replica: 3}":         "replica",
		"images: {pullPolicy: Sometimes}": "pullPolicy",
		"networkPolicies: \"yes\"":        "networkPolicies",
		"aggregated: {enable: true}":      "enable",
	} {
		if _, err := templated(t, values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want an error with %s", values, err, want)
		}
	}
}
