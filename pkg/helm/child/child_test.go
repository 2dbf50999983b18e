package child

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	rcommon "helm.sh/helm/v4/pkg/release/common"
	release "helm.sh/helm/v4/pkg/release/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"kapis.dev/ks-apiserver/pkg/helm"
	"kapis.dev/ks-apiserver/pkg/helm/record"
)

// X21: what a chart gives has one digest, in whatever order and with whatever else it is rendered.
func TestWhatAChartGivesHasADigest(t *testing.T) {
	const role, binding = `{kind: ClusterRole, apiVersion: rbac.authorization.k8s.io/v1, metadata: {name: a}, rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]}`,
		`{kind: RoleBinding, apiVersion: rbac.authorization.k8s.io/v1, metadata: {name: a, namespace: shop}, roleRef: {kind: ClusterRole, name: a}}`
	const template = `{kind: RoleTemplate, apiVersion: iam.kubesphere.io/v1beta1, metadata: {name: a}, spec: {rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]}}`
	digestOf := func(docs ...string) (digest string) {
		t.Helper()
		p := &postRenderer{rendered: func() {}, given: func(d string) error { digest = d; return nil }}
		if _, err := p.Run(bytes.NewBufferString(strings.Join(docs, "\n---\n"))); err != nil {
			t.Fatal(err)
		}
		return digest
	}
	const service = `{kind: APIService, apiVersion: extensions.kubesphere.io/v1alpha1, metadata: {name: a}}`
	base := digestOf(role, binding, template)
	if digestOf(role, service) == digestOf(role, strings.Replace(service, "name: a}", `name: a, annotations: {kapis.dev/forward-authorization: "true"}}`, 1)) {
		t.Error("a backend that gets access tokens has the same digest")
	}
	for claim, docs := range map[string][]string{
		"another order":   {template, role, binding},
		"a random Secret": {role, binding, template, `{kind: Secret, apiVersion: v1, metadata: {name: a}, stringData: {a: random}}`},
		"a List":          {`{kind: List, apiVersion: v1, items: [` + role + `, ` + binding + `]}`, template},
	} {
		if digestOf(docs...) != base {
			t.Errorf("%s is another digest", claim)
		}
	}
	for claim, docs := range map[string][]string{
		"a wider role":       {strings.Replace(role, "pods", "secrets", 1), binding, template},
		"a wider template":   {role, binding, strings.Replace(template, "verbs: [get]", "verbs: ['*']", 1)},
		"another role":       {role, strings.Replace(binding, "name: a}}", "name: cluster-admin}}", 1), template},
		"another namespace":  {role, strings.Replace(binding, "namespace: shop", "namespace: mail", 1), template},
		"a template more":    {role, binding, template, strings.Replace(template, "name: a", "name: b", 1)},
		"in a List of Lists": {role, binding, `{kind: List, apiVersion: v1, items: [{kind: List, apiVersion: v1, items: [` + strings.Replace(template, "pods", "secrets", 1) + `]}]}`},
	} {
		if digestOf(docs...) == base {
			t.Errorf("%s has the same digest", claim)
		}
	}
}

// X19: labels are ours on all objects, also on those of lists, and nowhere below; states of extension kinds are left out.
func TestLabelsAndStatesAreOurs(t *testing.T) {
	p := &postRenderer{labels: map[string]string{"kubesphere.io/extension-ref": "shop", "p-yes": "true"}, dropStatusOf: "extensions.kubesphere.io",
		rendered: func() {}, definition: func(string) error { return nil }, given: func(string) error { return nil }}
	const ours = `{kubesphere.io/extension-ref: shop, p-yes: "true"}`
	for in, want := range map[string]string{
		`{kind: ConfigMap, apiVersion: v1, metadata: {name: a, labels: {p-yes: x, o: p}}, data: {count: "1e3", "yes": "no"}}`: `{kind: ConfigMap, apiVersion: v1,
			metadata: {name: a, labels: {kubesphere.io/extension-ref: shop, o: p, p-yes: "true"}}, data: {count: "1e3", "yes": "no"}}`,
		`{kind: Deployment, spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}}, replicas: 12345678901}}`: `{kind: Deployment,
			metadata: {labels: OURS}, spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}}, replicas: 12345678901}}`,
		`{kind: ConfigMapList, items: [{kind: ConfigMap}]}`: `{kind: ConfigMapList, items: [{kind: ConfigMap, metadata: {labels: OURS}}]}`,
		`{apiVersion: extensions.kubesphere.io/v1alpha1, kind: A, status: {state: Available, link: /a, conditions: [{type: Ready}]}}`: `{
			apiVersion: extensions.kubesphere.io/v1alpha1, kind: A, metadata: {labels: OURS}, status: {link: /a}}`,
		`{apiVersion: extensions.kubesphere.io/v9, kind: A, status: {state: Disabled}}`: `{apiVersion: extensions.kubesphere.io/v9, kind: A,
			metadata: {labels: OURS}}`,
		`{apiVersion: extensions.kubesphere.io.example.com/v1, kind: A, status: {state: a}}`: `{apiVersion: extensions.kubesphere.io.example.com/v1, kind: A,
			metadata: {labels: OURS}, status: {state: a}}`,
		`{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition}`: `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition,
			metadata: {annotations: {helm.sh/resource-policy: keep}, labels: OURS}}`,
	} {
		out, err := p.Run(bytes.NewBufferString(in))
		if err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		is, err := yaml.YAMLToJSON(out.Bytes())
		wanted, wrong := yaml.YAMLToJSON([]byte(strings.ReplaceAll(strings.ReplaceAll(want, "OURS", ours), "\t", "")))
		if err != nil || wrong != nil || string(is) != string(wanted) {
			t.Errorf("%s:\n%s, %v, want\n%s, %v", in, is, err, wanted, wrong)
		}
	}
	const list = "{kind: AList, items: ["
	for _, in := range []string{
		"metadata: text\nkind: A", "kind: A\nmetadata: {labels: [a]}", "a: {", strings.Repeat(list, 6) + "{kind: A}" + strings.Repeat("]}", 6),
		"apiVersion: extensions.kubesphere.io/v1\nkind: A\nstatus: Available",
	} {
		if out, err := p.Run(bytes.NewBufferString(in)); err == nil {
			t.Errorf("%q becomes %q", in, out)
		}
	}
}

// X19, X21: the SDK applies the items of whatever has some; what is no list has none.
func TestOnlyListsHaveItems(t *testing.T) {
	const role = `{kind: ClusterRole, apiVersion: rbac.authorization.k8s.io/v1, metadata: {name: a}}`
	p := &postRenderer{rendered: func() {}, given: func(string) error { return nil }}
	for _, in := range []string{
		`{kind: ConfigMap, apiVersion: v1, metadata: {name: a}, items: [` + role + `]}`,
		`{x: &r [` + role + `], kind: ConfigMap, apiVersion: v1, metadata: {name: a}, items: *r}`,
		`{x: &r {items: [` + role + `]}, kind: ConfigMap, apiVersion: v1, metadata: {name: a}, <<: *r}`,
	} {
		if out, err := p.Run(bytes.NewBufferString(in)); err == nil {
			t.Errorf("%s became %s", in, out)
		}
	}
	// Records may have been written by others.
	r := &release.Release{Manifest: `{kind: ConfigMap, apiVersion: v1, metadata: {name: a}, items: [{kind: FooList, items: [` + role + `]}]}`}
	if got, err := recorded(r); err != nil || len(got) != 1 || got[0].Kind != "ClusterRole" {
		t.Errorf("%+v %v", got, err)
	}
}

// X6, X19, X21, X24: what is checked is what is applied, however it is written; a key that is there twice is refused, and named with its template.
func TestX21WhatIsCheckedIsWhatIsApplied(t *testing.T) {
	var giving string
	definitions := 0
	p := &postRenderer{labels: map[string]string{"kubesphere.io/extension-ref": "shop"}, dropStatusOf: "extensions.kubesphere.io", rendered: func() {},
		definition: func(string) error { definitions++; return nil }, given: func(d string) error { giving = d; return nil }}
	if _, err := p.Run(&bytes.Buffer{}); err != nil {
		t.Fatal(err)
	}
	nothing := giving
	const role = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: a}\n"
	const rules = "rules: [{apiGroups: ['*'], resources: ['*'], verbs: ['*']}]\n"
	for in, key := range map[string]string{
		"kind: A\nmetadata: {name: a, annotations: {postrenderer.helm.sh/postrender-filename: t.yaml}}\nmetadata: {name: b}":                          "metadata",
		"kind: A\nmetadata: {annotations: {postrenderer.helm.sh/postrender-filename: t.yaml}, labels: {a: b}, labels: {c: d}}":                        "labels",
		"kind: A\nmetadata: {annotations: {postrenderer.helm.sh/postrender-filename: t.yaml}}\n!!binary bWV0YWRhdGE=: {name: b}":                      "metadata",
		"apiVersion: v1\nkind: A\nmetadata: {annotations: {postrenderer.helm.sh/postrender-filename: t.yaml}}\napiVersion: iam.kubesphere.io/v1beta1": "apiVersion",
	} {
		if out, err := p.Run(bytes.NewBufferString(in)); err == nil || explain(err).Reason != helm.ReasonInvalid || !strings.Contains(err.Error(), `"t.yaml"`) ||
			!strings.Contains(err.Error(), `"`+key+`"`) {
			t.Errorf("%q: %v %v", in, out, err)
		}
	}
	for _, in := range []string{"kind: A\n'<<': {kind: B}", "\"\\u00a0kind\": A"} {
		if out, err := p.Run(bytes.NewBufferString(in)); err == nil {
			t.Errorf("%q becomes %q", in, out)
		}
	}
	for name, in := range map[string]string{
		"as it is":          role + rules,
		"a tagged kind":     strings.Replace(role, "ClusterRole", "!!binary Q2x1c3RlclJvbGU=", 1) + rules,
		"a tagged key":      strings.Replace(role, "kind", "!!binary a2luZA==", 1) + rules,
		"an alias":          "x: &k ClusterRole\n" + strings.Replace(role, "ClusterRole", "*k", 1) + rules,
		"a merge":           "x: &k {kind: ClusterRole}\n<<: *k\n" + strings.Replace(role, "kind: ClusterRole\n", "", 1) + rules,
		"an item, by a key": "kind: RoleList\n!!binary aXRlbXM=:\n- {" + strings.ReplaceAll(strings.TrimSpace(role+rules), "\n", ", ") + "}\n",
	} {
		out, err := p.Run(bytes.NewBufferString(in))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		objects, err := recorded(&release.Release{Manifest: out.String()})
		if err != nil || len(objects) != 1 || objects[0].Kind != "ClusterRole" || len(objects[0].Gives) != 1 || giving != givenDigest(objects) || giving == nothing ||
			!strings.Contains(out.String(), "kubesphere.io/extension-ref: 'shop'") {
			t.Errorf("%s: %s is %+v, %v", name, out, objects, err)
		}
	}
	definition := "apiVersion: apiextensions.k8s.io/v1\nkind: !!binary Q3VzdG9tUmVzb3VyY2VEZWZpbml0aW9u\nmetadata: {name: a.b}"
	if _, err := p.Run(bytes.NewBufferString(definition)); err != nil || definitions != 1 {
		t.Errorf("%d definitions are checked: %v", definitions, err)
	}
	c := &chartv2.Chart{Metadata: &chartv2.Metadata{Name: "shop"}, Files: []*common.File{{Name: "crds/a.yaml", Data: []byte("kind: A\nkind: B\n")}}}
	if _, err := definitionsOf(c); err == nil || !strings.Contains(err.Error(), "crds/a.yaml") || !strings.Contains(err.Error(), `"kind"`) {
		t.Errorf("crds/: %v", err)
	}
}

// X21: whatever a document has, it is applied as it was checked, and is the same once it is read again.
func FuzzDocumentsAreAppliedAsTheyAreChecked(f *testing.F) {
	for _, seed := range []string{"a: 1", "a: |\n  x\n   y\n", "a: \"\\n  x\"", "a: \"x\\n---\\ny\"", "a: &x [b]\nc: *x",
		"a: 0o7\nb: 'yes'\nc: '1_0'\nd: '~'\nf: '1:20'", "'<<': {a: b}", "a: \"\\u2028\\u0085\\ufeff#\"", "\"---\": a",
		"\"\\u00a0a\": b", "!!binary YQ==: !!binary YQ==", "a: 1e400", "- a", "text", "a: 1\na: 2"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		p := &postRenderer{rendered: func() {}, definition: func(string) error { return nil }, given: func(string) error { return nil }}
		out, err := p.Run(bytes.NewBufferString(in))
		if err != nil {
			return
		}
		again, err := p.Run(bytes.NewBufferString(out.String()))
		if err != nil || again.String() != out.String() {
			t.Errorf("%q: %q becomes %q, %v", in, out, again, err)
		}
	})
}

// X24: what breaks objects of a definition is found; what adds to it is not.
func TestBrokenDefinitionsAreFound(t *testing.T) {
	definition := func(schema, rest string) *apiextensionsv1.CustomResourceDefinition {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		text := "spec: {scope: Namespaced, names: {kind: A}, versions: [{name: v1, schema: {openAPIV3Schema: {type: object, " + schema +
			"}}}]}\nstatus: {storedVersions: [v1]}\n"
		for _, r := range strings.Split(rest, ";") {
			if from, to, ok := strings.Cut(r, ">"); ok {
				text = strings.Replace(text, from, to, 1)
			}
		}
		if err := yaml.UnmarshalStrict([]byte(text), crd); err != nil {
			t.Fatal(text, err)
		}
		return crd
	}
	const base = "properties: {a: {type: string}, l: {type: array, items: {type: object, properties: {b: {type: integer}}}}, " +
		"m: {type: object, additionalProperties: {type: string}}, o: {x-kubernetes-int-or-string: true}, " +
		"f: {type: object, x-kubernetes-preserve-unknown-fields: true}}"
	for name, c := range map[string]struct{ schema, rest, want string }{
		"equal":                   {base, "", ""},
		"a field more":            {strings.Replace(base, "a: {", "z: {type: string}, a: {", 1), "", ""},
		"a field less":            {strings.Replace(base, "a: {type: string}, ", "", 1), "", "v1.a is gone"},
		"a field less, all taken": {strings.Replace(base, "a: {type: string}, ", "", 1) + ", x-kubernetes-preserve-unknown-fields: true", "", ""},
		"another type":            {strings.Replace(base, "a: {type: string}", "a: {type: integer}", 1), "", "v1.a is of type integer, and was of type string"},
		"in a list":               {strings.Replace(base, "b: {type: integer}", "", 1), "", "v1.l[].b is gone"},
		"in a map":                {strings.Replace(base, "Properties: {type: string}", "Properties: {type: integer}", 1), "", "v1.m.* is of type integer"},
		"no map any more":         {strings.Replace(base, "additionalProperties: {type: string}", "properties: {}", 1), "", "v1.m is a map no longer"},
		"no int-or-string":        {strings.Replace(base, "x-kubernetes-int-or-string: true", "type: string", 1), "", "v1.o is of type string"},
		"unknown fields":          {strings.Replace(base, ", x-kubernetes-preserve-unknown-fields: true", "", 1), "", "v1.f keeps unknown fields no longer"},
		"the scope":               {base, "Namespaced>Cluster", "the scope changes from Namespaced to Cluster"},
		"the kind":                {base, "kind: A>kind: B", "the kind changes"},
		"the stored version":      {base, "name: v1>name: v2", "in which objects are stored, is gone"},
		"no schema":               {base, ", schema: {openAPIV3Schema: {type: object, " + base + "}}>", "has no schema any more"},
	} {
		why := strings.Join(breaks(definition(base, ""), definition(c.schema, c.rest)), "; ")
		if c.want == "" && why != "" || !strings.Contains(why, c.want) {
			t.Errorf("%s: %q, want %q", name, why, c.want)
		}
	}
}

// X25: only what people read is left out of a record, and only of one that is too large.
func TestARecordIsMadeToFit(t *testing.T) {
	noise := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(rand.N(256))
		}
		return b
	}
	revision := func(readme, config int) *release.Release {
		chart := &chartv2.Chart{Metadata: &chartv2.Metadata{Name: "shop"}, Files: []*common.File{
			{Name: "README_zh.md", Data: noise(readme)}, {Name: "static/a/b.js", Data: noise(readme)}, {Name: "files/config.yaml", Data: noise(10)},
		}}
		return &release.Release{Name: "shop", Manifest: fmt.Sprintf("%x", noise(config)), Chart: chart}
	}
	small, large, huge := revision(1000, 1000), revision(500<<10, 1000), revision(1000, 800<<10)
	chart := large.Chart
	if err := record.Fit(small); err != nil || len(small.Chart.Files) != 3 {
		t.Errorf("%v, %v", err, small.Chart.Files)
	}
	if err := record.Fit(large); err != nil || len(large.Chart.Files) != 1 || large.Chart.Files[0].Name != "files/config.yaml" || len(chart.Files) != 3 {
		t.Errorf("%v, %v", err, large.Chart.Files)
	}
	if err := record.Fit(huge); err == nil || explain(err).Reason != helm.ReasonTooLarge {
		t.Errorf("%v", err)
	}
}

func TestTheLastDeployedRevisionIsFound(t *testing.T) {
	history := func(statuses string) (all []*release.Release) {
		for i, s := range strings.Fields(statuses) {
			all = append(all, &release.Release{Version: i + 1, Info: &release.Info{Status: rcommon.Status(s)}})
		}
		return all
	}
	for statuses, want := range map[string]int{
		"":                                       0,
		"pending-install":                        0,
		"failed failed":                          0,
		"deployed":                               1,
		"superseded deployed failed":             2,
		"superseded superseded failed":           2, // killed after the one was superseded, and before the other was deployed
		"deployed superseded failed":             1,
		"superseded uninstalled":                 0,
		"superseded uninstalled failed":          0,
		"superseded uninstalled deployed failed": 3,
	} {
		all, is := history(statuses), 0
		if r := record.LastDeployed(all, len(all)+1); r != nil {
			is = r.Version
		}
		if is != want {
			t.Errorf("%s: %d, want %d", statuses, is, want)
		}
	}
}
