package e2e

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/chart/charttest"
)

const platformAPI = "/apis/kubesphere.io/v1alpha1"

// shopChart is an extension with a ConfigMap, a role for its pods and an APIService. With the value broken, one of its objects is not valid.
func shopChart(t *testing.T, name, version, permissions string) string {
	t.Helper()
	return base64.StdEncoding.EncodeToString(charttest.Pack(t, name, map[string]string{
		"Chart.yaml":         fmt.Sprintf("{apiVersion: v2, name: %s, version: %s}", name, version),
		"extension.yaml":     fmt.Sprintf("{apiVersion: kubesphere.io/v1alpha1, name: %s, version: %s, displayName: {en: Shop}, installationMode: HostOnly}", name, version),
		"permissions.yaml":   permissions,
		"values.yaml":        "greeting: hello\nbroken: false\n",
		"values.schema.json": `{"type": "object", "properties": {"greeting": {"type": "string"}}}`,
		"templates/objects.yaml": `
apiVersion: v1
kind: ConfigMap
metadata: {name: shop-web}
data: {greeting: {{ .Values.greeting | quote }}, version: {{ .Chart.Version | quote }}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: {{ .Release.Name }}-pods}
rules: [{apiGroups: [""], resources: [nodes], verbs: [get]}]
---
apiVersion: iam.kubesphere.io/v1beta1
kind: RoleTemplate
metadata: {name: {{ .Release.Name }}-view, labels: {iam.kubesphere.io/scope: global}}
spec: {rules: [{apiGroups: [shop.example.com], resources: [orders], verbs: [get, list]}]}
---
apiVersion: extensions.kubesphere.io/v1alpha1
kind: APIService
metadata: {name: v1.{{ .Release.Name }}.example.com}
spec: {group: {{ .Release.Name }}.example.com, version: v1, url: "http://{{ .Release.Name }}.{{ .Release.Namespace }}.svc:9"}
status: {state: Disabled}
{{- if .Values.broken }}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: NOT-VALID}
{{- end }}
`,
	}))
}

const shopPermissions = `kind: ClusterRole
rules:
- {apiGroups: [""], resources: [nodes], verbs: [get]}
- {apiGroups: [rbac.authorization.k8s.io, iam.kubesphere.io], resources: [clusterroles, roletemplates], verbs: [create, get, update, patch, delete]}
- {apiGroups: [extensions.kubesphere.io, shop.example.com], resources: ["*"], verbs: ["*"]}
`

// push makes a version of an extension, as somebody does who has its chart on the desk.
func push(t *testing.T, name, version, chart string) {
	t.Helper()
	a, m := admin(t), "extension-"+name+"-"+version+"-chart"
	a.create(t, "/api/v1/namespaces/kubesphere-system/configmaps", obj{"apiVersion": "v1", "kind": "ConfigMap", "metadata": obj{"name": m},
		"binaryData": obj{"chart.tgz": chart}})
	labels := obj{"kubesphere.io/extension-ref": name}
	if r, err := a.do(t.Context(), http.MethodPost, platformAPI+"/extensions", obj{"apiVersion": "kubesphere.io/v1alpha1", "kind": "Extension",
		"metadata": obj{"name": name}}); err != nil || r.code != http.StatusCreated && r.code != http.StatusConflict {
		t.Fatalf("%d %s %v", r.code, clip(r.body), err)
	}
	t.Cleanup(func() { _, _ = a.do(context.Background(), http.MethodDelete, platformAPI+"/extensions/"+name, nil) })
	a.create(t, platformAPI+"/extensionversions", obj{"apiVersion": "kubesphere.io/v1alpha1", "kind": "ExtensionVersion",
		"metadata": obj{"name": name + "-" + version, "labels": labels},
		"spec":     obj{"version": version, "chartDataRef": obj{"namespace": "kubesphere-system", "name": m, "key": "chart.tgz"}}})
}

func installPlan(name, version, config string, annotations obj) obj {
	return obj{"apiVersion": "kubesphere.io/v1alpha1", "kind": "InstallPlan", "metadata": obj{"name": name, "annotations": annotations},
		"spec": obj{"extension": obj{"name": name, "version": version}, "enabled": true, "config": config}}
}

// conditionIs waits until an object has a condition.
func (c caller) conditionIs(path, condition, status, text string) func(context.Context) error {
	return func(ctx context.Context) error {
		r, err := c.do(ctx, http.MethodGet, path, nil)
		if err != nil {
			return err
		}
		if r.code != http.StatusOK {
			return fmt.Errorf("GET %s = %d %s", path, r.code, clip(r.body))
		}
		var o struct {
			Status struct {
				State      string `json:"state"`
				Conditions []struct{ Type, Status, Message string }
			} `json:"status"`
		}
		if err := json.Unmarshal([]byte(r.body), &o); err != nil {
			return err
		}
		for _, is := range o.Status.Conditions {
			if is.Type == condition && is.Status == status && strings.Contains(is.Message, text) {
				return nil
			}
		}
		return fmt.Errorf("want %s=%s with %q: %s %+v", condition, status, text, o.Status.State, o.Status.Conditions)
	}
}

// X18, X20, X21, X25, X27: an extension is installed, configured, upgraded, broken, taken back and removed, with an approval by somebody who may.
func TestAnExtensionIsInstalledUpgradedAndRemoved(t *testing.T) {
	a, name := admin(t), unique("plan")
	plan, web := platformAPI+"/installplans/"+name, "/api/v1/namespaces/extension-"+name+"/configmaps/shop-web"
	roles := "/apis/rbac.authorization.k8s.io/v1/clusterroles"
	service, role, victim := extensionsAPI+"/apiservices/v1."+name+".example.com", roles+"/"+name+"-pods", unique("victim")
	push(t, name, "1.0.0", shopChart(t, name, "1.0.0", shopPermissions))
	push(t, name, "1.1.0", shopChart(t, name, "1.1.0", shopPermissions))
	push(t, name, "2.0.0", shopChart(t, name, "2.0.0", shopPermissions+"- {apiGroups: [\"\"], resources: [secrets], verbs: [get]}\n"))
	t.Cleanup(func() {
		_, _ = a.do(context.Background(), http.MethodDelete, plan, nil)
		_, _ = a.do(context.Background(), http.MethodDelete, "/api/v1/namespaces/extension-"+name, nil)
		_, _ = a.do(context.Background(), http.MethodDelete, roles+"/"+victim, nil)
	})

	step(t, "it waits for an approval", func(t *testing.T) {
		who := unique("planner")
		planner := withRole(t, who, obj{"rules": []rule{{[]string{"kubesphere.io"}, []string{"*"}, []string{"*"}}}})
		forged := obj{"kapis.dev/approved": strings.Repeat("0", 64), "kapis.dev/approved-by": "admin"}
		eventually(t, "the right counts", planner.accepts(http.StatusCreated, http.MethodPost, platformAPI+"/installplans?dryRun=All", installPlan(name, "1.0.0", "", forged)))
		r := planner.must(t, http.StatusCreated, http.MethodPost, platformAPI+"/installplans", installPlan(name, "1.0.0", "", forged))
		if strings.Contains(r.body, `"kapis.dev/approved`) || !strings.Contains(strings.Join(r.header.Values("Warning"), " "), "approval") {
			t.Errorf("%s, warnings %q", clip(r.body), r.header.Values("Warning"))
		}
		eventually(t, "it says what it waits for", a.conditionIs(plan, "Approved", "False", "clusterroles"))
		a.must(t, http.StatusNotFound, http.MethodGet, "/api/v1/namespaces/extension-"+name, nil)
	})
	step(t, "it is installed", func(t *testing.T) {
		a.must(t, http.StatusOK, http.MethodPatch, plan, `{"metadata":{"annotations":{"kapis.dev/approve":"yes"}}}`, asMerge)
		eventually(t, "it is installed", a.answersWith(http.StatusOK, plan, `"state":"Installed"`))
		a.answers(t, web, `"greeting":"hello"`, `"kubesphere.io/extension-ref":"`+name+`"`)
		eventually(t, "it is served", a.answersWith(http.StatusOK, service, `"state":"Available"`)) // whatever the chart says
		a.must(t, http.StatusOK, http.MethodGet, role, nil)
		a.answers(t, "/apis/iam.kubesphere.io/v1beta1/roletemplates/"+name+"-view", "shop.example.com")
		for _, kind := range []string{"clusterroles", "clusterrolebindings"} {
			a.must(t, http.StatusNotFound, http.MethodGet, "/apis/rbac.authorization.k8s.io/v1/"+kind+"/kubesphere:"+name+":helm-executor", nil)
		}
		eventually(t, "its Extension says so", a.answersWith(http.StatusOK, platformAPI+"/extensions/"+name, `"installedVersion":"1.0.0"`))
		a.must(t, http.StatusOK, http.MethodGet, "/api/v1/namespaces/extension-"+name+"/configmaps/"+name+"-log", nil)
	})
	step(t, "values are checked before anything changes", func(t *testing.T) {
		if r, err := a.do(t.Context(), http.MethodPatch, plan, obj{"spec": obj{"config": "- no mapping"}}, asMerge); err != nil || r.code/100 != 4 ||
			!strings.Contains(r.body, "spec.config") {
			t.Errorf("%d %s %v", r.code, clip(r.body), err)
		}
		a.must(t, http.StatusOK, http.MethodPatch, plan, obj{"spec": obj{"config": "greeting: 7"}}, asMerge)
		eventually(t, "it is refused", a.conditionIs(plan, "Upgraded", "False", "greeting"))
		a.answers(t, web, `"greeting":"hello"`)
	})
	step(t, "it is configured and upgraded", func(t *testing.T) {
		a.must(t, http.StatusOK, http.MethodPatch, plan, obj{"spec": obj{"config": "greeting: welcome", "extension": obj{"version": "1.1.0"}}}, asMerge)
		eventually(t, "it is upgraded", a.conditionIs(plan, "Upgraded", "True", "1.1.0"))
		a.answers(t, web, `"greeting":"welcome"`, `"version":"1.1.0"`)
	})
	step(t, "what fails is taken back", func(t *testing.T) {
		a.must(t, http.StatusOK, http.MethodPatch, plan, obj{"spec": obj{"config": "greeting: broken\nbroken: true"}}, asMerge)
		eventually(t, "it is taken back", a.conditionIs(plan, "RolledBack", "True", "1.1.0"))
		eventually(t, "and says that it failed", a.answersWith(http.StatusOK, plan, `"state":"UpgradeFailed"`)) // between two attempts
		a.answers(t, web, `"greeting":"welcome"`)
	})
	step(t, "it is disabled and enabled", func(t *testing.T) {
		a.must(t, http.StatusOK, http.MethodPatch, plan, obj{"spec": obj{"config": "greeting: welcome", "enabled": false}}, asMerge)
		eventually(t, "it is not served", a.answersWith(http.StatusOK, service, `"state":"Disabled"`))
		a.must(t, http.StatusOK, http.MethodPatch, plan, obj{"spec": obj{"enabled": true}}, asMerge)
		eventually(t, "it is served", a.answersWith(http.StatusOK, service, `"state":"Available"`))
		eventually(t, "it is settled", a.answersWith(http.StatusOK, plan, `"state":"Installed"`))
	})
	// It looks as if it was the release's own, so that Helm would delete it by a record that has it. It is there until the end of all steps.
	a.create(t, roles, obj{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "rules": []any{}, "metadata": obj{"name": victim,
		"labels":      obj{"app.kubernetes.io/managed-by": "Helm"},
		"annotations": obj{"meta.helm.sh/release-name": name, "meta.helm.sh/release-namespace": "extension-" + name}}})
	step(t, "a record that somebody else wrote gives nothing", func(t *testing.T) {
		records := a.must(t, http.StatusOK, http.MethodGet,
			"/api/v1/namespaces/extension-"+name+"/secrets?labelSelector=owner%3Dhelm,status%3Ddeployed,name%3D"+name, nil).body
		of := decode[struct {
			Items []struct{ Metadata struct{ Name string } }
		}](t, records).Items
		if len(of) != 1 {
			t.Fatalf("%d records", len(of))
		}
		forge(t, a, "extension-"+name, of[0].Metadata.Name, func(r obj) {
			r["manifest"] = r["manifest"].(string) + "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: " + victim + "}\n"
		})
		a.must(t, http.StatusOK, http.MethodPatch, plan, obj{"spec": obj{"config": "greeting: again"}}, asMerge)
		eventually(t, "it is refused", a.conditionIs(plan, "Upgraded", "False", "changed by somebody else"))
		a.answers(t, web, `"greeting":"welcome"`)
	})
	step(t, "a version that may more waits", func(t *testing.T) {
		who := unique("planner")
		planner := withRole(t, who, obj{"rules": []rule{{[]string{"kubesphere.io"}, []string{"*"}, []string{"*"}}}})
		change := obj{"spec": obj{"extension": obj{"version": "2.0.0"}}}
		eventually(t, "the right counts", planner.accepts(http.StatusOK, http.MethodPatch, plan+"?dryRun=All", change, asMerge))
		planner.must(t, http.StatusOK, http.MethodPatch, plan, change, asMerge)
		eventually(t, "it says so", a.conditionIs(plan, "Approved", "False", "secrets"))
		a.answers(t, web, `"version":"1.1.0"`)
	})
	step(t, "it is removed", func(t *testing.T) {
		if r, err := a.do(t.Context(), http.MethodDelete, platformAPI+"/extensions/"+name, nil); err != nil || r.code < 400 {
			t.Errorf("an Extension with a plan is deleted: %d %v", r.code, err)
		}
		a.must(t, http.StatusOK, http.MethodDelete, plan, nil)
		eventually(t, "the plan is gone", a.is(http.StatusNotFound, http.MethodGet, plan))
		for _, path := range []string{web, service, role} {
			a.must(t, http.StatusNotFound, http.MethodGet, path, nil)
		}
		a.must(t, http.StatusOK, http.MethodGet, roles+"/"+victim, nil)
		a.must(t, http.StatusOK, http.MethodGet, "/api/v1/namespaces/extension-"+name, nil)
	})
}

// answers fails the test unless a GET is answered with some texts.
func (c caller) answers(t *testing.T, path string, texts ...string) {
	t.Helper()
	if err := c.has(path, texts...)(t.Context()); err != nil {
		t.Error(err)
	}
}
