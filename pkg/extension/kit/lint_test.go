package kit_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/chart"
	"kapis.dev/ks-apiserver/pkg/chart/charttest"
	"kapis.dev/ks-apiserver/pkg/extension/kit"
)

const extensionYAML = "{apiVersion: kubesphere.io/v1alpha1, name: shop, version: 1.0.0, displayName: {en: Shop}}"

// shop are the files of a chart that nothing is wrong with, but for what is changed; an empty text takes a file away.
func shop(changes map[string]string) map[string]string {
	files := map[string]string{"extension.yaml": extensionYAML, "README.md": "Shop", "templates/a.yaml": "a",
		"values.yaml": "a: 1\n", "values.schema.json": `{"properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {}}}`}
	maps.Copy(files, changes)
	maps.DeleteFunc(files, func(_, text string) bool { return text == "" })
	return files
}

// opened returns the chart in a folder with files.
func opened(t *testing.T, files map[string]string) (*chart.Archive, error) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return kit.Open(dir)
}

// refuses reports whether the platform refuses a chart, as its controllers read it.
func refuses(a *chart.Archive) bool {
	_, err := a.Extension()
	if err == nil {
		_, err = a.Permissions()
	}
	return err != nil
}

func TestLintSaysWhatThePlatformSays(t *testing.T) {
	with := func(text string) string { return strings.TrimSuffix(extensionYAML, "}") + ", " + text + "}" }
	const chartYAML = "{apiVersion: v2, name: shop, version: 1.0.0"
	for name, c := range map[string]struct {
		change map[string]string
		file   string // of the one finding, "" for none
		// refused says that the platform does not take the chart, and later that its installation fails.
		refused, later bool
		say            string
	}{
		"Nothing":        {},
		"Name":           {change: map[string]string{"extension.yaml": "{name: Shop, version: 1.0.0}"}, file: "extension.yaml", refused: true, say: "Shop"},
		"NoName":         {change: map[string]string{"extension.yaml": "{version: 1.0.0}"}, file: "extension.yaml", refused: true, say: "name"},
		"Version":        {change: map[string]string{"extension.yaml": "{name: shop, version: v1}"}, file: "extension.yaml", refused: true, say: "v1"},
		"OtherVersion":   {change: map[string]string{"Chart.yaml": "{name: shop, version: 1.0.1}"}, file: "extension.yaml", refused: true, say: "1.0.1"},
		"Range":          {change: map[string]string{"extension.yaml": with("ksVersion: four")}, file: "extension.yaml", refused: true, say: "ksVersion"},
		"Mode":           {change: map[string]string{"extension.yaml": with("installationMode: All")}, file: "extension.yaml", refused: true, say: "All"},
		"Chart":          {change: map[string]string{"Chart.yaml": "- x"}, file: "Chart.yaml", refused: true, say: "can't be read"},
		"PermissionKind": {change: map[string]string{"permissions.yaml": "kind: Secret"}, file: "permissions.yaml", refused: true, say: "Secret"},
		"Permissions":    {change: map[string]string{"permissions.yaml": "kind: [Role"}, file: "permissions.yaml", refused: true, say: "document 1"},
		"Values":         {change: map[string]string{"values.yaml": "- a"}, file: "values.yaml", later: true, say: "mapping"},
		"Schema":         {change: map[string]string{"values.schema.json": "{"}, file: "values.schema.json", later: true, say: "no JSON"},
		"SchemaElsewhere": {change: map[string]string{"values.schema.json": `{"a": [{"$ref": "https://x.example.com/s"}]}`}, file: "values.schema.json",
			later: true, say: "x.example.com"},
		"SchemaOfSub": {change: map[string]string{"charts/b/values.schema.json": `{"$ref": "file:///etc/passwd"}`}, file: "charts/b/values.schema.json",
			later: true, say: "passwd"},
		"Subchart": {change: map[string]string{"extension.yaml": with("dependencies: [{name: web}]")}, file: "Chart.yaml", later: true, say: `"web"`},
		"SubchartOfOtherName": {change: map[string]string{"extension.yaml": with("dependencies: [{name: web}]"), "charts/web/Chart.yaml": "name: other"},
			file: "Chart.yaml", later: true, say: `"web"`},
		"SubchartThere": {change: map[string]string{"extension.yaml": with("dependencies: [{name: web}]"), "charts/frontend/Chart.yaml": "name: web"}},
		"SubchartPacked": {change: map[string]string{"extension.yaml": with("dependencies: [{name: web}]"),
			"charts/web-1.0.0.tgz": string(charttest.Pack(t, "web", map[string]string{"Chart.yaml": "{name: web, version: 1.0.0}"}))}},
		"Field":      {change: map[string]string{"extension.yaml": with("displayTitle: x")}, file: "extension.yaml", say: "displayTitle"},
		"Display":    {change: map[string]string{"extension.yaml": "{name: shop, version: 1.0.0}"}, file: "extension.yaml", say: "en"},
		"Icon":       {change: map[string]string{"extension.yaml": with("icon: a.svg")}, file: "extension.yaml", say: "a.svg"},
		"IconInside": {change: map[string]string{"extension.yaml": with("icon: ./a.svg"), "a.svg": "<svg/>"}},
		"Namespace":  {change: map[string]string{"extension.yaml": with("namespace: kube-system")}, file: "extension.yaml", say: "system"},
		"Everything": {change: map[string]string{"permissions.yaml": "kind: ClusterRole\nrules: [{apiGroups: ['*'], resources: ['*'], verbs: ['*']}]"},
			file: "permissions.yaml", say: "all others"},
		"Hook": {change: map[string]string{"Chart.yaml": chartYAML + ", annotations: {executor-hook-image.kubesphere.io/install: x/y}}"},
			file: "Chart.yaml", say: "x/y"},
		"Agent": {change: map[string]string{"extension.yaml": with("installationMode: Multicluster"), "templates/a.yaml": "kind: ConfigMap"},
			file: "templates/a.yaml", say: "as of 1 in"},
		"AgentByTag": {change: map[string]string{"extension.yaml": with("installationMode: Multicluster"),
			"templates/a.yaml": "{{- if not .Values.tags.agent }}\nkind: ConfigMap\n{{- end }}", "templates/_helpers.tpl": "{{/* none */}}"}},
		"NoReadme":  {change: map[string]string{"README.md": ""}, file: "README.md", say: "none"},
		"NoObjects": {change: map[string]string{"templates/a.yaml": ""}, file: "templates", say: "nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			a, err := opened(t, shop(c.change))
			if err != nil {
				t.Fatal(err)
			}
			r := kit.Lint(a)
			if c.file == "" {
				if len(r.Findings) > 0 {
					t.Errorf("%+v", r.Findings)
				}
				return
			}
			if len(r.Findings) != 1 {
				t.Fatalf("%+v", r.Findings)
			}
			is := r.Findings[0]
			if is.File != c.file || !strings.Contains(is.What, c.say) || is.Do == "" || is.Refused != (c.refused || c.later) {
				t.Errorf("%+v", is)
			}
			if refuses(a) != c.refused {
				t.Errorf("the platform refuses it: %v", refuses(a))
			}
			if raw, _, err := kit.Package(a); err != nil || (raw == nil) != is.Refused {
				t.Errorf("a chart that is refused is packed: %v %v", raw != nil, err)
			}
		})
	}
}

func TestLintShowsWhatIsAskedFor(t *testing.T) {
	a, err := opened(t, shop(map[string]string{"permissions.yaml": "kind: ClusterRole\nrules:\n" +
		"- {apiGroups: ['', apps], resources: [nodes], verbs: [get], resourceNames: [a]}\n" +
		"- {nonResourceURLs: [/x], verbs: [get]}\n---\nkind: Role\nrules: [{apiGroups: [x.io], resources: [ys], verbs: ['*']}]\n"}))
	if err != nil {
		t.Fatal(err)
	}
	r := kit.Lint(a)
	lines := kit.Describe(r.Request)
	for _, want := range []string{`in the cluster: get nodes of "" (core), apps named a`, "in the cluster: get /x", "in extension-shop: * ys of x.io"} {
		if !slices.Contains(lines, want) {
			t.Errorf("%q is not shown: %q", want, lines)
		}
	}
	if r.Request.Level() != "cluster" {
		t.Errorf("level %s", r.Request.Level())
	}
}

func TestChartYAMLIsMadeOfTheExtension(t *testing.T) {
	a, err := opened(t, shop(map[string]string{"extension.yaml": "{name: shop, version: 1.0.0, displayName: {en: Shop}, " +
		"description: {en: Sells}, annotations: {a: b}," +
		" dependencies: [{name: web, tags: [extension], condition: web.enabled}, {name: agent, version: 1.x}], maintainers: [{name: ann}]}"}))
	if err != nil {
		t.Fatal(err)
	}
	raw, _ := a.File("Chart.yaml")
	for _, want := range []string{"apiVersion: v2", "name: shop", "version: 1.0.0", "description: Sells", "type: application", "condition: web.enabled",
		"version: '>=0.0.0-0'", "version: 1.x", "- name: ann", "a: b"} {
		if !strings.Contains(string(raw), want) {
			t.Errorf("%q is missing:\n%s", want, raw)
		}
	}
	own := "{name: shop, version: 1.0.0} # mine"
	if a, err = opened(t, shop(map[string]string{"Chart.yaml": own})); err != nil {
		t.Fatal(err)
	}
	if raw, _ := a.File("Chart.yaml"); string(raw) != own {
		t.Errorf("a Chart.yaml is replaced: %s", raw)
	}
}

func TestWhatIsNoExtensionIsSaid(t *testing.T) {
	for name, files := range map[string]map[string]string{"an empty folder": {}, "a chart of Helm": {"Chart.yaml": "{name: shop, version: 1.0.0}"}} {
		if _, err := opened(t, files); err == nil || !strings.Contains(err.Error(), "extension.yaml") {
			t.Errorf("%s: %v", name, err)
		}
	}
	file := filepath.Join(t.TempDir(), "x.tgz")
	if err := os.WriteFile(file, []byte("no chart"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, say := range map[string]string{file: "no gzipped archive", file + "x": "no such file"} {
		if _, err := kit.Open(path); err == nil || !strings.Contains(err.Error(), say) {
			t.Errorf("%s: %v", path, err)
		}
	}
}
