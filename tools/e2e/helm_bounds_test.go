package e2e

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"kapis.dev/ks-apiserver/pkg/helm"
)

// X15: a chart that loops, calls itself, or allocates ends alone, and nothing was changed.
func TestAChartTakesNeitherTimeNorMemory(t *testing.T) {
	r := newHelmRelease(t, helm.Options{})
	for name, c := range map[string]struct {
		template string
		reason   helm.Reason
		says     string
	}{
		"loops":           {`{{ range $a := until 100000 }}{{ range $b := until 100000 }}{{ end }}{{ end }}`, helm.ReasonTimeout, "longer than 5s to render"},
		"includes itself": {`{{ define "a" }}{{ include "a" . }}{{ end }}{{ include "a" . }}`, helm.ReasonRender, ""},
		"is itself":       {`{{ define "b" }}{{ template "b" . }}{{ end }}{{ template "b" . }}`, helm.ReasonRender, ""},
		"allocates":       {`{{ $x := "0123456789" }}{{ range until 40 }}{{ $x = printf "%s%s" $x $x }}{{ end }}`, helm.ReasonMemory, "memory"},
		"repeats":         {`{{ repeat 2000000000 "x" }}`, helm.ReasonMemory, "memory"},
		"fails":           {`{{ fail "no" }}`, helm.ReasonRender, "no"},
		"is no YAML":      {"a: {", helm.ReasonRender, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r.t = t
			o := helm.Options{}
			if c.reason == helm.ReasonTimeout {
				o.RenderTimeout = 5 * time.Second // the others end by themselves, when a busy machine lets them
			}
			r.limit(o)
			files := map[string]string{"templates/a.yaml": configMapOf("a", "one"), "templates/b.yaml": c.template}
			r.refused(apply(packChart(t, "1.0.0", files), ""), c.reason, c.says)
			if r.configMap("a") != nil || len(r.records()) != 0 {
				t.Error("something was changed")
			}
		})
	}
	r.t = t
	if left := helmChildren(t); len(left) != 0 {
		t.Errorf("processes are left: %v", left)
	}
	r.limit(helm.Options{})
	r.must(apply(packChart(t, "1.0.0", map[string]string{"templates/a.yaml": configMapOf("a", "one")}), ""))
}

// X15: an operation ends with its time: a hook that never ends fails, and a process that goes on is killed.
func TestAHookEndsWithItsTime(t *testing.T) {
	r := newHelmRelease(t, helm.Options{Timeout: 40 * time.Second}) // within which a busy machine comes to the hook
	r.refused(apply(packChart(t, "1.0.0", map[string]string{"templates/a.yaml": neverEndingHook, "values.yaml": "wait: true"}), ""), helm.ReasonTimeout, "")
	r.wantRecords("1 failed")
	r.limit(helm.Options{})
	q := apply(packChart(t, "1.0.0", map[string]string{"templates/a.yaml": neverEndingHook, "values.yaml": "wait: true"}), "")
	q.SkipHooks = true
	r.must(q)
	r.wantRecords("1 failed", "2 deployed")
}

// X25: a record that does not fit is refused before anything is changed; what only people read is left out of it first.
func TestARecordFitsOrIsRefused(t *testing.T) {
	r := newHelmRelease(t, helm.Options{})
	noise := func(bytes int) string {
		source := rand.New(rand.NewPCG(1, uint64(bytes)))
		var b strings.Builder
		for b.Len() < bytes {
			fmt.Fprintf(&b, "%016x", source.Uint64())
		}
		return b.String()
	}
	// 2 MB that compress well.
	var long strings.Builder
	for i := range 20 {
		long.WriteString(configMapOf(fmt.Sprintf("long-%d", i), strings.Repeat("0123456789", 10000)))
	}
	r.must(apply(packChart(t, "1.0.0", map[string]string{"templates/a.yaml": long.String()}), ""))
	if c := r.configMap("long-19"); c == nil || len(c.Data["value"]) != 100000 {
		t.Error("the last object is not there")
	}
	files := map[string]string{"templates/a.yaml": configMapOf("a", "two"), "static/page.js": noise(2 << 20), "README.md": noise(1 << 20)}
	r.must(apply(packChart(t, "2.0.0", files), ""))
	if out := r.cli("get", "manifest", "shop"); !strings.Contains(out, "two") {
		t.Error(out)
	}
	var large strings.Builder
	for i := range 5 {
		large.WriteString(configMapOf(fmt.Sprintf("large-%d", i), noise(500000)))
	}
	files = map[string]string{"templates/a.yaml": large.String(), "crds/a.yaml": fmt.Sprintf(crdOf, r.namespace, "a: {type: string}", "Namespaced", "v1")}
	r.refused(apply(packChart(t, "3.0.0", files), ""), helm.ReasonTooLarge, "the record")
	r.wantRecords("1 superseded", "2 deployed")
	if r.configMap("large-0") != nil || r.definition() != nil {
		t.Error("something was changed")
	}
}

// X22: values are validated before anything is changed, those of subcharts too, and a schema loads nothing.
func TestValuesAreValidatedAndSchemasLoadNothing(t *testing.T) {
	r := newHelmRelease(t, helm.Options{})
	var asked atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	t.Cleanup(s.Close)
	sub := map[string]string{"charts/sub/Chart.yaml": "apiVersion: v2\nname: sub\nversion: 1.0.0\n", "charts/sub/templates/a.yaml": configMapOf("sub", "sub")}
	const schemaOf = `{"type":"object","properties":{"size":{"type":"integer"},"code":{"type":"string","pattern":"^[a-z]+$"}},"required":["size"]}`
	for name, c := range map[string]struct {
		schema, subSchema, values, secret, says string
	}{
		"a type":              {schemaOf, "", "size: small", "", "size: want integer, not string"},
		"a missing value":     {schemaOf, "", "", "", "want size"},
		"a pattern":           {schemaOf, "", "size: 1\ncode: CANARY-1234", "", "code: does not match pattern"},
		"a secret value":      {schemaOf, "", "size: 1\ncode: abc", "code: CANARY-1234", "code: does not match pattern"},
		"a subchart's":        {schemaOf, schemaOf, "size: 1\nsub: {size: small}", "", "sub.size: want integer"},
		"a remote reference":  {`{"$ref":"` + s.URL + `/schema.json"}`, "", "", "", "schemas may refer to themselves only"},
		"a file":              {`{"$ref":"file:///etc/passwd"}`, "", "", "", "schemas may refer to themselves only"},
		"a relative one":      {`{"properties":{"a":{"$ref":"other.json"}}}`, "", "", "", "schemas may refer to themselves only"},
		"a urn":               {`{"$ref":"urn:example:a"}`, "", "", "", "schemas may refer to themselves only"},
		"an unknown dialect":  {`{"$schema":"` + s.URL + `/dialect"}`, "", "", "", "schemas may refer to themselves only"},
		"values of no object": {"", "", "- a", "", "YAML mapping"},
	} {
		t.Run(name, func(t *testing.T) {
			r.t = t
			files := map[string]string{"templates/a.yaml": configMapOf("a", "one"), "values.yaml": ""}
			for k, v := range sub {
				files[k] = v
			}
			if c.schema != "" {
				files["values.schema.json"] = c.schema
			}
			if c.subSchema != "" {
				files["charts/sub/values.schema.json"] = c.subSchema
			}
			for _, o := range []helm.Operation{helm.Validate, helm.Apply} {
				q := helm.Request{Operation: o, Chart: packChart(t, "1.0.0", files), Values: []byte(c.values), SecretValues: []byte(c.secret)}
				r.refused(q, helm.ReasonInvalid, c.says)
			}
			if r.configMap("a") != nil || len(r.records()) != 0 {
				t.Error("something was changed")
			}
		})
	}
	r.t = t
	if asked.Load() != 0 {
		t.Error("a schema was loaded")
	}
	own := `{"$defs":{"n":{"type":"integer"}},"properties":{"size":{"$ref":"#/$defs/n"}}}`
	q := apply(packChart(t, "1.0.0", map[string]string{"templates/a.yaml": configMapOf("a", "one"), "values.schema.json": own}), "")
	q.Values = []byte("size: 3")
	r.must(q)
}

const crdOf = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.%[1]s.example.com}
spec:
  group: %[1]s.example.com
  names: {kind: Thing, plural: things, singular: thing, listKind: ThingList}
  scope: %[3]s
  versions:
  - name: %[4]s
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {%[2]s}}}}}
`

var definitionsResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// definition returns the CustomResourceDefinition of the charts of a test, nil where there is none.
func (r *helmRelease) definition() *unstructured.Unstructured {
	r.t.Helper()
	client, err := dynamic.NewForConfig(r.config)
	if err != nil {
		r.t.Fatal(err)
	}
	u, err := client.Resource(definitionsResource).Get(r.t.Context(), "things."+r.namespace+".example.com", metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return u
}

// X24: definitions are created and upgraded; what would break objects is refused before anything is changed; none is deleted, wherever a chart has it.
func TestDefinitionsAreUpgradedNeverBroken(t *testing.T) {
	r := newHelmRelease(t, helm.Options{})
	thing := fmt.Sprintf("---\napiVersion: %s.example.com/v1\nkind: Thing\nmetadata: {name: one}\nspec: {a: x}\n", r.namespace)
	chart := func(folder, fields, scope, version, value string) []byte {
		return packChart(t, "1.0.0", map[string]string{"templates/a.yaml": configMapOf("a", value) + thing,
			folder + "/things.yaml": fmt.Sprintf(crdOf, r.namespace, fields, scope, version)})
	}
	const fields = "a: {type: string}, b: {type: object, properties: {c: {type: integer}}}"
	r.must(apply(chart("crds", fields, "Namespaced", "v1", "one"), ""))
	if d := r.definition(); d == nil || d.GetLabels()["kubesphere.io/extension-ref"] != "shop" {
		t.Fatalf("%+v", d)
	}
	r.must(apply(chart("crds", fields+", d: {type: string}", "Namespaced", "v1", "two"), ""))
	upgraded := r.definition()
	if raw, _ := upgraded.MarshalJSON(); !strings.Contains(string(raw), `"d":{"type":"string"}`) {
		t.Errorf("%s", raw)
	}
	for _, folder := range []string{"crds", "templates"} {
		for says, c := range map[string][3]string{
			"the scope changes":            {fields + ", d: {type: string}", "Cluster", "v1"},
			"in which objects are stored":  {fields + ", d: {type: string}", "Namespaced", "v2"},
			"v1.spec.d is gone":            {fields, "Namespaced", "v1"},
			"v1.spec.a is of type integer": {"a: {type: integer}, b: {type: object, properties: {c: {type: integer}}}, d: {type: string}", "Namespaced", "v1"},
			"v1.spec.b.c is gone":          {"a: {type: string}, b: {type: object}, d: {type: string}", "Namespaced", "v1"},
		} {
			r.refused(apply(chart(folder, c[0], c[1], c[2], "three"), ""), helm.ReasonCRD, says)
		}
	}
	r.refused(apply(packChart(t, "1.0.0", map[string]string{"crds/a.yaml": configMapOf("b", "x")}), ""), helm.ReasonInvalid, "want CustomResourceDefinitions")
	if is := r.definition(); is.GetResourceVersion() != upgraded.GetResourceVersion() || r.configMap("a").Data["value"] != "two" {
		t.Error("something was changed")
	}
	r.must(helm.Request{Operation: helm.Uninstall})
	if r.definition() == nil || len(r.records()) != 0 {
		t.Error("the definition is gone, or the release is not")
	}
	// A chart that has its definition among the templates: neither an upgrade nor the end of the release deletes it.
	r.must(apply(packChart(t, "1.0.0", map[string]string{"templates/things.yaml": fmt.Sprintf(crdOf, r.namespace+"x", fields, "Namespaced", "v1")}), ""))
	r.must(apply(packChart(t, "2.0.0", map[string]string{"templates/a.yaml": configMapOf("a", "one")}), ""))
	r.must(apply(packChart(t, "3.0.0", map[string]string{"templates/things.yaml": fmt.Sprintf(crdOf, r.namespace+"x", fields, "Namespaced", "v1")}), ""))
	if result := r.must(helm.Request{Operation: helm.Uninstall}); !strings.Contains(strings.Join(result.Kept, "\n"), "things."+r.namespace+"x") {
		t.Errorf("what stays is %v", result.Kept)
	}
	client, err := dynamic.NewForConfig(r.config)
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range []string{r.namespace + "x", r.namespace} {
		if err := client.Resource(definitionsResource).Delete(t.Context(), "things."+group+".example.com", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	}
}

// X27, X33: a release whose kinds are gone is uninstalled, and names what it can't find; a record that somebody else has changed is not worked on.
func TestAReleaseOfKindsThatAreGoneIsUninstalled(t *testing.T) {
	r := newHelmRelease(t, helm.Options{})
	r.must(apply(packChart(t, "1.0.0", map[string]string{
		"templates/a.yaml": configMapOf("a", "one") + fmt.Sprintf("---\napiVersion: %s.example.com/v1\nkind: Thing\nmetadata: {name: one}\n", r.namespace),
		"crds/a.yaml":      fmt.Sprintf(crdOf, r.namespace, "a: {type: string}", "Namespaced", "v1")}), ""))
	changed := apply(packChart(t, "1.0.1", map[string]string{"templates/a.yaml": configMapOf("a", "two")}), "")
	changed.RecordDigest = strings.Repeat("0", 64)
	r.refused(changed, helm.ReasonInvalid, "changed by somebody else")
	if is := r.configMap("a"); is == nil || is.Data["value"] != "one" {
		t.Errorf("%v", is)
	}
	client, err := dynamic.NewForConfig(r.config)
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Resource(definitionsResource).Delete(t.Context(), "things."+r.namespace+".example.com", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	gone := func() bool {
		_, err := r.client.Discovery().ServerResourcesForGroupVersion(r.namespace + ".example.com/v1")
		return err != nil
	}
	if err := waitFor(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	q := helm.Request{Operation: helm.Uninstall, RecordDigest: strings.Repeat("0", 64)}
	r.refused(q, helm.ReasonInvalid, "changed by somebody else")
	is := r.must(helm.Request{Operation: helm.Status}).Release
	q.RecordDigest, q.BaseDigest = is.RecordDigest, is.BaseDigest
	if result := r.must(q); r.configMap("a") != nil || len(r.records()) != 0 || !strings.Contains(strings.Join(result.Kept, "\n"), "Thing one") {
		t.Errorf("%+v, %v", result, r.records())
	}
}

// X21: what is judged as it is rendered is what is applied: a chart that gives something else each time is not.
func TestAChartThatGivesSomethingElseEachTimeIsNotApplied(t *testing.T) {
	r := newHelmRelease(t, helm.Options{})
	role := func(resource string) string {
		return `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: a}
rules: [{apiGroups: [""], resources: [` + resource + `], verbs: [get]}]
---
apiVersion: v1
kind: Secret
metadata: {name: a}
stringData: {password: {{ randAlphaNum 20 }}}
`
	}
	for resource, applied := range map[string]bool{"pods": true, `"{{ randAlphaNum 20 | lower }}"`: false} {
		q := apply(packChart(t, "1.0.0", map[string]string{"templates/a.yaml": role(resource)}), "")
		q.Operation = helm.Render
		q.GivesDigest, q.Operation = r.must(q).GivesDigest, helm.Apply
		if q.GivesDigest == "" {
			t.Fatal("rendering says nothing of what the chart gives")
		}
		_, err := r.run(t.Context(), q)
		var e *helm.Error
		if refused := errors.As(err, &e) && e.Reason == helm.ReasonInvalid; refused == applied || applied && err != nil {
			t.Errorf("%s: %v", resource, err)
		}
	}
}

// X21, X40: objects are applied with the impersonated user's rights alone, and no content of values is in an error, an event or a rendered manifest.
func TestARequestHasItsUsersRightsAndKeepsItsSecrets(t *testing.T) {
	r := newHelmRelease(t, helm.Options{})
	const canary, secret = "CANARY-0123456789", "K3yZ"
	q := apply(packChart(t, "1.0.0", map[string]string{"templates/a.yaml": `
apiVersion: v1
kind: Secret
metadata: {name: a, annotations: {value: {{ .Values.value }} }}
stringData: {key: {{ .Values.key }}, chart: made-by-the-chart}
`}), "")
	q.Values, q.SecretValues = []byte("value: "+canary), []byte("key: "+secret)
	q.Operation = helm.Render
	shown := r.must(q)
	if !reflect.DeepEqual(shown.Objects, []helm.Object{{APIVersion: "v1", Kind: "Secret", Name: "a"}}) {
		t.Errorf("%+v", shown.Objects)
	}
	for _, no := range []string{canary, secret, "made-by-the-chart"} {
		if strings.Contains(shown.Manifest, no) {
			t.Errorf("%s is shown: %s", no, shown.Manifest)
		}
	}
	if len(r.records()) != 0 {
		t.Error("rendering changed something")
	}
	q.Operation = helm.Apply
	q.Chart = packChart(t, "1.0.0", map[string]string{"templates/a.yaml": `{{ fail (printf "%s %s %s" .Values.value .Values.key (b64enc .Values.value)) }}`})
	_, err := r.run(t.Context(), q)
	if text := fmt.Sprint(err, r.events); err == nil || strings.Contains(text, canary) || strings.Contains(text, secret) || strings.Contains(text, "Q0FOQVJZ") {
		t.Errorf("%s", text)
	}
	if err := r.client.RbacV1().ClusterRoleBindings().Delete(t.Context(), r.namespace, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	q = apply(packChart(t, "1.0.0", map[string]string{"templates/a.yaml": configMapOf("a", "one")}), "")
	refused := func() bool {
		_, err := r.run(t.Context(), q)
		var e *helm.Error
		return errors.As(err, &e) && e.Reason == helm.ReasonForbidden && strings.Contains(e.Message, r.user)
	}
	if err := waitFor(t.Context(), refused); err != nil {
		t.Error("a chart was applied without a right")
	}
}
