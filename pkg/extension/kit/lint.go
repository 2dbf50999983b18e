package kit

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
	"kapis.dev/ks-apiserver/pkg/chart"
	"kapis.dev/ks-apiserver/pkg/extension/permission"
)

// Finding is something about a chart that is wrong, or may not be meant so.
type Finding struct {
	// File is the one that it is about.
	File string
	// Refused says that the server refuses the chart for it.
	Refused bool
	// What says what is found, and Do what to do about it.
	What, Do string
}

// Kind is "error" for what the platform refuses, and "warning" otherwise.
func (f *Finding) Kind() string {
	if f.Refused {
		return "error"
	}
	return "warning"
}

// Report is what the server would say of a chart, and what its installation asks for.
type Report struct {
	// Name and Version are empty where the chart does not say them as it has to.
	Name, Version string
	Findings      []Finding
	// Request is what a user approves who installs the extension; nil where it can't be read.
	Request *permission.Request
}

// Refused returns how many findings the server refuses the chart for.
func (r *Report) Refused() (n int) {
	for _, f := range r.Findings {
		if f.Refused {
			n++
		}
	}
	return n
}

// Lint reads a chart as the server does, and returns all that it would refuse. Besides, it warns of what is allowed and does hardly what
// its writer means. Templates are not rendered: that takes a cluster.
func Lint(a *chart.Archive) *Report {
	l := &linter{Archive: a, report: &Report{}}
	m, err := a.Metadata()
	if err != nil {
		l.refused(fileChart, err, "write the fields apiVersion, name and version; without the file, it is made of extension.yaml")
	} else {
		l.dependencies(m)
		l.hooks(m)
		e, err := a.Extension()
		if err != nil {
			l.refused(fileExtension, err, "correct that field; docs/writing-extensions.md has all of them")
		} else {
			l.report.Name, l.report.Version = e.Name, e.Version
			l.extension(e)
			l.agent(e)
		}
		l.permissions(e, m)
	}
	l.values()
	l.files()
	return l.report
}

// linter collects what is found.
type linter struct {
	*chart.Archive
	report *Report
}

func (l *linter) refused(file string, err error, do string) {
	l.report.Findings = append(l.report.Findings, Finding{file, true, strings.TrimPrefix(err.Error(), file+": "), do})
}

func (l *linter) warn(file, what, do string) {
	l.report.Findings = append(l.report.Findings, Finding{file, false, what, do})
}

func (l *linter) has(name string) bool {
	_, ok := l.File(name)
	return ok
}

// dependencies finds subcharts that are not in the chart: nothing is fetched at an installation.
func (l *linter) dependencies(m *chart.Metadata) {
	packed := map[string]bool{}
	for _, f := range l.Files {
		rest, below := strings.CutPrefix(f.Name, "charts/")
		switch folder, name, deep := strings.Cut(rest, "/"); {
		case !below:
		case deep && name == fileChart:
			var sub chart.Metadata
			if yaml.Unmarshal(f.Data, &sub) == nil {
				packed[cmp.Or(sub.Name, folder)] = true
			}
		case !deep && strings.HasSuffix(rest, ".tgz"):
			if sub, err := chart.Read(f.Data); err == nil {
				if is, err := sub.Metadata(); err == nil {
					packed[is.Name] = true
				}
			}
		}
	}
	for i, d := range m.Dependencies {
		if !packed[d.Name] {
			l.refused(fileChart, fmt.Errorf("dependencies[%d]: the subchart %.100q is not in the folder charts", i, d.Name),
				"put its folder, or its package, into charts/: an installation fetches nothing")
		}
	}
}

// hooks finds images that a chart wants to run around an operation.
func (l *linter) hooks(m *chart.Metadata) {
	for _, image := range m.HookImages() {
		l.warn(fileChart, fmt.Sprintf("an annotation names the image %.200q, which runs before operations with all that is approved", image),
			"where less is enough, use hooks of Helm: objects with the annotation helm.sh/hook")
	}
}

// agent finds objects that the agents of other clusters would have, too. A template that looks at the tags or at the cluster is meant so.
func (l *linter) agent(e *chart.Extension) {
	if e.InstallationMode != v1alpha1.InstallationMulticluster {
		return
	}
	var all []string
	for _, f := range l.Files {
		text := string(f.Data)
		if strings.HasPrefix(f.Name, "templates/") && strings.Contains(text, "kind:") && !strings.Contains(text, "tags") &&
			!strings.Contains(text, "clusterInfo") {
			all = append(all, f.Name)
		}
	}
	if len(all) == 0 {
		return
	}
	slices.Sort(all)
	l.warn(all[0], fmt.Sprintf("the agent has the objects of this file, too, as of %d in templates: in each cluster that gets one, and in"+
		" the hub's they are there already", len(all)), `move them into a subchart with the tag extension, or begin each file with`+
		` {{- if not (dig "agent" false (.Values.tags | default dict)) }} and end it with {{- end }}`)
}

// known are the fields of extension.yaml.
var known = []string{"apiVersion", "name", "version", "displayName", "description", "icon", "provider", "category", "keywords", "home",
	"docs", "sources", "kubeVersion", "ksVersion", "maintainers", "staticFileDirectory", "screenshots", "dependencies", "installationMode",
	"namespace", "images", "externalDependencies", "annotations"}

// extension finds what pages would not show.
func (l *linter) extension(e *chart.Extension) {
	raw, _ := l.File(fileExtension)
	var fields map[string]any
	if yaml.Unmarshal(raw, &fields) == nil {
		for _, field := range slices.Sorted(maps.Keys(fields)) {
			if !slices.ContainsFunc(known, func(k string) bool { return strings.EqualFold(k, field) }) { // as the platform reads them
				l.warn(fileExtension, fmt.Sprintf("%.100q is no field that the platform knows", field), "look for a slip in its name, or leave it out")
			}
		}
	}
	if e.DisplayName["en"] == "" {
		l.warn(fileExtension, "displayName has no text for en, which is shown where a language has none", "add displayName.en")
	}
	if e.Icon != "" && l.Icon(e.Icon) == "" {
		l.warn(fileExtension, fmt.Sprintf("icon is %.200q, which pages don't show", e.Icon),
			fmt.Sprintf("name a URL, or a file of the chart: svg, png, jpg, gif or webp, of at most %d KiB", chart.MaxIcon>>10))
	}
}

// permissions finds what the installation asks for.
func (l *linter) permissions(e *chart.Extension, m *chart.Metadata) {
	asked, err := l.Permissions()
	if err != nil {
		l.refused(filePermissions, err, "write documents of the kind ClusterRole (for the cluster) or Role (for the extension's namespace),"+
			" with rules")
		return
	}
	if e == nil {
		return
	}
	r := &permission.Request{ClusterRules: asked.Cluster, Rules: asked.Namespace,
		Namespace: cmp.Or(e.Namespace, v1alpha1.ExtensionNamespace(e.Name)), HookImages: m.HookImages()}
	l.report.Request = r
	if r.Level() == permission.LevelEverything {
		l.warn(filePermissions, "it asks for rights by which all others can be had: only who holds everything may install it",
			"name the API groups, resources and verbs that the templates need, and no *")
	}
	if e.Namespace != "" && tenantv1beta1.IsSystemNamespace(e.Namespace) {
		l.warn(fileExtension, "namespace is one of the system: only who holds everything may install it", "leave namespace out")
	}
}

// values finds values and schemas that an installation would be refused for.
func (l *linter) values() {
	if raw, ok := l.File(fileValues); ok {
		var values map[string]any
		if err := yaml.Unmarshal(raw, &values); err != nil {
			l.refused(fileValues, fmt.Errorf("it is no YAML mapping: %.300s", strings.Join(strings.Fields(err.Error()), " ")),
				"write keys and values")
		}
	}
	for _, f := range l.Files {
		if path.Base(f.Name) != fileSchema {
			continue
		}
		var schema any
		if err := json.Unmarshal(f.Data, &schema); err != nil {
			l.refused(f.Name, fmt.Errorf("it is no JSON: %w", err), "write a JSON Schema, or remove the file")
			continue
		}
		if ref := outside(schema); ref != "" {
			l.refused(f.Name, fmt.Errorf("$ref is %.200q: nothing is loaded", ref), "move what it leads to into the schema, and write #/$defs/...")
		}
	}
}

// outside returns a reference of a schema that does not lead to the schema itself, "" for none.
func outside(schema any) string {
	switch in := schema.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(in)) {
			if ref, ok := in[key].(string); ok && key == "$ref" && !strings.HasPrefix(ref, "#") {
				return ref
			}
			if ref := outside(in[key]); ref != "" {
				return ref
			}
		}
	case []any:
		for _, one := range in {
			if ref := outside(one); ref != "" {
				return ref
			}
		}
	}
	return ""
}

// files finds what is missing.
func (l *linter) files() {
	if !slices.ContainsFunc(l.Files, func(f chart.File) bool {
		return strings.HasPrefix(f.Name, "templates/") || strings.HasPrefix(f.Name, "charts/") || strings.HasPrefix(f.Name, "crds/")
	}) {
		l.warn("templates", "the chart has neither templates nor subcharts: it installs nothing",
			"write the objects of the extension into templates/")
	}
	if !l.has("README.md") {
		l.warn("README.md", "there is none, and the extension's page shows it", "write what the extension does, and in README_zh.md in Chinese")
	}
}
