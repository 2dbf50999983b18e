package e2e

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/chart/charttest"
)

// previewedChart is an extension with a kind of its own, a workload and a password.
func previewedChart(t *testing.T, name, version string) string {
	t.Helper()
	return base64.StdEncoding.EncodeToString(charttest.Pack(t, name, map[string]string{
		"Chart.yaml":     fmt.Sprintf("{apiVersion: v2, name: %s, version: %s}", name, version),
		"extension.yaml": fmt.Sprintf("{apiVersion: kubesphere.io/v1alpha1, name: %s, version: %s, displayName: {en: Shop}}", name, version),
		"permissions.yaml": fmt.Sprintf(`kind: ClusterRole
rules:
- {apiGroups: [apiextensions.k8s.io], resources: [customresourcedefinitions], verbs: [create, get, update, patch, delete]}
- {apiGroups: [%s.example.com], resources: ["*"], verbs: ["*"]}
`, name),
		"values.yaml": "greeting: hello\npassword: none\nreplicas: 1\nwidget: true\nbroken: false\nleak: false\n",
		"crds/widgets.yaml": fmt.Sprintf(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.%[1]s.example.com}
spec:
  group: %[1]s.example.com
  names: {kind: Widget, listKind: WidgetList, plural: widgets, singular: widget}
  scope: Namespaced
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`, name),
		"templates/objects.yaml": `
apiVersion: v1
kind: ConfigMap
metadata: {name: shop-web}
data: {greeting: {{ .Values.greeting | quote }}}
---
apiVersion: v1
kind: Secret
metadata: {name: shop-password}
stringData: {password: {{ .Values.password | quote }}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: shop}
spec:
  replicas: {{ .Values.replicas }}
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec: {containers: [{name: shop, image: example/shop}]}
---
{{- $kept := lookup "v1" "Secret" .Release.Namespace "shop-token" }}
apiVersion: v1
kind: Secret
metadata: {name: shop-token}
stringData: {token: {{ if $kept }}{{ $kept.data.token | b64dec }}{{ else }}{{ randAlphaNum 24 }}{{ end }}}
{{- if .Values.widget }}
---
apiVersion: {{ .Release.Name }}.example.com/v1
kind: Widget
metadata: {name: one}
{{- end }}
{{- if .Values.broken }}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: NOT-VALID}
{{- end }}
{{- if .Values.leak }}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Values.password | quote }}}
{{- end }}
`,
	}))
}

// X20, X23, X24, X40: what an installation and an upgrade would do is seen before they are done; an extension with a kind of its own is installed;
// it says when its workloads are ready; and its secret values are nowhere but where they have to be, whatever fails.
func TestX23AnExtensionIsSeenBeforeItIsInstalled(t *testing.T) {
	a, name, secret := admin(t), unique("seen"), newCanaries()
	namespace := "extension-" + name
	plan, objects := platformAPI+"/installplans/"+name, "/api/v1/namespaces/"+namespace
	web, shown := objects+"/configmaps/shop-web", "/api/v1/namespaces/kubesphere-system/configmaps/"+name+"-preview"
	widget := "/apis/" + name + ".example.com/v1/namespaces/" + namespace + "/widgets/one"
	password, greeting := secret.plant("a password of values"), secret.plant("a value of the plan")
	push(t, name, "1.0.0", previewedChart(t, name, "1.0.0"))
	t.Cleanup(func() {
		for _, path := range []string{plan, objects, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets." + name + ".example.com"} {
			_, _ = a.do(context.Background(), http.MethodDelete, path, nil)
		}
	})
	patch := func(t *testing.T, change obj) {
		t.Helper()
		a.must(t, http.StatusOK, http.MethodPatch, plan, change, asMerge)
	}
	previewed := func(nonce any) obj { return obj{"annotations": obj{"kapis.dev/preview": nonce}} }
	tellsNothing := func(t *testing.T, path string) {
		t.Helper()
		if found := secret.classes(a.must(t, http.StatusOK, http.MethodGet, path, nil).body); len(found) > 0 {
			t.Errorf("%s has %q", path, found)
		}
	}

	step(t, "before it is installed", func(t *testing.T) {
		eventually(t, "its chart is read", a.has(platformAPI+"/extensions/"+name, `"recommendedVersion":"1.0.0"`))
		a.must(t, http.StatusCreated, http.MethodPost, platformAPI+"/installplans", installPlan(name, "1.0.0", "", obj{"kapis.dev/preview": "1"}))
		eventually(t, "it is previewed", a.conditionIs(plan, "Previewed", "True", name+"-preview"))
		a.answers(t, shown, "approved: true", "Deployment shop (apps/v1)", "CustomResourceDefinition widgets."+name+".example.com",
			"the namespace "+namespace+" is not there yet")
		a.must(t, http.StatusNotFound, http.MethodGet, objects, nil)
	})
	step(t, "it is installed once the annotation is gone, and ready once its pods are", func(t *testing.T) {
		patch(t, obj{"metadata": previewed(nil)})
		eventually(t, "it is installed", a.answersWith(http.StatusOK, plan, `"state":"Installed"`))
		a.must(t, http.StatusOK, http.MethodGet, widget, nil)
		eventually(t, "it is ready", a.conditionIs(plan, "Ready", "True", "all its workloads"))
		a.answers(t, web, `"greeting":"hello"`)
	})
	token := func(t *testing.T) string {
		t.Helper()
		return a.must(t, http.StatusOK, http.MethodGet, objects+"/secrets/shop-token", nil).body
	}
	made, whole := token(t), t
	step(t, "before it is changed", func(t *testing.T) {
		patch(t, obj{"metadata": previewed("before")}) // the Secret is a change, too
		eventually(t, "it is held", a.conditionIs(plan, "Previewed", "True", name+"-preview"))
		a.create(whole, objects+"/secrets", obj{"apiVersion": "v1", "kind": "Secret", "metadata": obj{"name": "mine", "labels": obj{"kapis.dev/values": name}},
			"stringData": obj{"values.yaml": "password: " + password}})
		patch(t, obj{"metadata": obj{"annotations": obj{"kapis.dev/preview": "2", "kapis.dev/approve": "yes"}},
			"spec": obj{"config": "greeting: " + greeting + "\nreplicas: 2\nwidget: false"}})
		eventually(t, "fields are named", a.has(shown, "ConfigMap "+namespace+"/shop-web", "data.greeting", "data.password", "spec.replicas",
			"do: remove", "Widget"))
		tellsNothing(t, shown)
		if text := a.must(t, http.StatusOK, http.MethodGet, shown, nil).body; strings.Contains(text, "data.token") {
			t.Error("the token, which is looked for, would change")
		}
		a.answers(t, web, `"greeting":"hello"`)
		a.must(t, http.StatusOK, http.MethodGet, widget, nil)
		records := a.must(t, http.StatusOK, http.MethodGet, objects+"/secrets?labelSelector=owner%3Dhelm", nil).body
		if strings.Contains(records, "."+name+".v2") {
			t.Error("there is a second revision")
		}
		patch(t, obj{"metadata": previewed("3"), "spec": obj{"config": "broken: true\nleak: true"}})
		eventually(t, "what fails is named", a.has(shown, "kube-apiserver answers 422 Invalid, because of metadata.name"))
		a.answers(t, plan, `"state":"Installed"`)
	})
	step(t, "a change that fails tells nothing of its values", func(t *testing.T) {
		patch(t, obj{"metadata": previewed(nil), "spec": obj{"config": "leak: true"}})
		eventually(t, "it is taken back", a.conditionIs(plan, "RolledBack", "True", "1.0.0"))
	})
	step(t, "it is changed", func(t *testing.T) {
		patch(t, obj{"spec": obj{"config": "replicas: 2\nwidget: false"}})
		eventually(t, "it is upgraded", a.conditionIs(plan, "Upgraded", "True", "1.0.0"))
		eventually(t, "what it does not have any more is gone", a.is(http.StatusNotFound, http.MethodGet, widget))
		if now := token(t); dataOf(t, now) != dataOf(t, made) { // which its template looks for
			t.Error("it has another token")
		}
	})
	step(t, "secret values are nowhere else", func(t *testing.T) {
		for _, path := range []string{plan, platformAPI + "/extensions/" + name, objects + "/configmaps/" + name + "-log", "/api/v1/events",
			"/apis/events.k8s.io/v1/events"} {
			tellsNothing(t, path)
		}
		for _, program := range []string{"ks-apiserver", "ks-controller-manager"} {
			text, err := os.ReadFile(filepath.Join(product.Dir, "log", program+".log"))
			if err != nil {
				t.Fatal(err)
			}
			if found := secret.classes(string(text)); len(found) > 0 {
				t.Errorf("the log of %s has %q", program, found)
			}
		}
	})
	step(t, "it is removed, and its preview with it; its kind stays", func(t *testing.T) {
		a.must(t, http.StatusOK, http.MethodDelete, plan, nil)
		eventually(t, "the plan is gone", a.is(http.StatusNotFound, http.MethodGet, plan))
		eventually(t, "the preview is gone", a.is(http.StatusNotFound, http.MethodGet, shown))
		a.must(t, http.StatusOK, http.MethodGet, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets."+name+".example.com", nil)
	})
}

// dataOf returns the data of an object.
func dataOf(t *testing.T, object string) string {
	t.Helper()
	var o struct{ Data map[string]string }
	if err := json.Unmarshal([]byte(object), &o); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(o.Data)
}
