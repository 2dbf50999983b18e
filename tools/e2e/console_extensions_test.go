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

// pageChart is an extension with a page, whose script is in a ConfigMap of the release.
func pageChart(t *testing.T, name, version string) string {
	t.Helper()
	return base64.StdEncoding.EncodeToString(charttest.Pack(t, name, map[string]string{
		"Chart.yaml": fmt.Sprintf("{apiVersion: v2, name: %s, version: %s}", name, version),
		"extension.yaml": fmt.Sprintf("{apiVersion: kubesphere.io/v1alpha1, name: %s, version: %s, displayName: {en: Page, zh: 页}, "+
			"category: computing, icon: static/icon.png}", name, version),
		"static/icon.png":  strings.Repeat("icon", 10<<10),
		"permissions.yaml": "kind: ClusterRole\nrules:\n- {apiGroups: [extensions.kubesphere.io], resources: [jsbundles], verbs: ['*']}\n",
		"README.md":        "# Page\n",
		"values.yaml":      "title: first\n",
		"templates/page.yaml": `
apiVersion: v1
kind: ConfigMap
metadata: {name: page}
data: {index.js: 'System.register([], e => ({execute(){ e("title", "{{ .Values.title }} of {{ .Chart.Version }}") }}))'}
---
apiVersion: extensions.kubesphere.io/v1alpha1
kind: JSBundle
metadata: {name: {{ .Release.Name }}}
spec: {rawFrom: {configMapKeyRef: {namespace: {{ .Release.Namespace }}, name: page, key: index.js}}}
status: {state: Available, link: /dist/{{ .Release.Name }}-frontend/index.js}
`,
	}))
}

// X43: the calls that pages of the console make find an extension, install it, open its page, configure, disable, upgrade and remove it.
func TestX43CallsOfTheConsoleInstallAnExtension(t *testing.T) {
	a, name := admin(t), unique("page")
	extension, plans := platformAPI+"/extensions/"+name, platformAPI+"/installplans"
	plan, bundles := plans+"/"+name, "/apis/extensions.kubesphere.io/v1alpha1/jsbundles"
	for _, version := range []string{"1.0.0", "1.1.0"} {
		push(t, name, version, pageChart(t, name, version))
	}
	t.Cleanup(func() {
		for _, path := range []string{plan, "/api/v1/namespaces/extension-" + name} {
			_, _ = a.do(context.Background(), http.MethodDelete, path, nil)
		}
	})
	// page returns the script as the console's page loads it: by the address that the JSBundle has now.
	page := func(ctx context.Context) (string, error) {
		r, err := a.do(ctx, http.MethodGet, bundles, nil)
		if err != nil {
			return "", err
		}
		var all struct {
			Items []struct {
				Metadata struct{ Name, ResourceVersion string }
				Status   struct{ State, Link string }
			}
		}
		if err := json.Unmarshal([]byte(r.body), &all); err != nil {
			return "", err
		}
		for _, b := range all.Items {
			if b.Status.State == "" || b.Status.Link == "" {
				return "", fmt.Errorf("%s has no status: %+v", b.Metadata.Name, b)
			}
			if b.Metadata.Name == name {
				script, err := anonymous().do(ctx, http.MethodGet, b.Status.Link+"?resourceVersion="+b.Metadata.ResourceVersion, nil)
				return b.Status.State + " " + script.body, err
			}
		}
		return "", fmt.Errorf("there is no JSBundle %s", name)
	}
	opens := func(text string) func(context.Context) error {
		return func(ctx context.Context) error {
			is, err := page(ctx)
			if err == nil && !strings.Contains(is, text) {
				err = fmt.Errorf("the page is %q, and not %q", clip(is), text)
			}
			return err
		}
	}

	step(t, "the marketplace and the page of the extension", func(t *testing.T) {
		eventually(t, "it is in the list", a.has("/kapis/kubesphere.io/v1alpha1/extensions?limit=-1&available=true", `"name":"`+name+`"`, "remainingItemCount"))
		eventually(t, "its latest version is recommended", a.has(extension, `"recommendedVersion":"1.1.0"`))
		a.answers(t, platformAPI+"/categories", `"name":"computing"`)
		var card struct{ Spec struct{ Icon string } }
		if err := json.Unmarshal([]byte(a.must(t, http.StatusOK, http.MethodGet, extension, nil).body), &card); err != nil || len(card.Spec.Icon) > 200 {
			t.Errorf("the icon is %.200q, %v", card.Spec.Icon, err)
		}
		icon := strings.TrimPrefix(card.Spec.Icon, "/pstatic") // where the console has what this server has below /dist
		eventually(t, "its icon is served", anonymous().answersWith(http.StatusOK, icon, strings.Repeat("icon", 10<<10)))
		a.answers(t, platformAPI+"/extensionversions?labelSelector=kubesphere.io/extension-ref="+name, name+"-1.0.0", name+"-1.1.0")
		eventually(t, "the chart of its first version is read", a.has(platformAPI+"/extensionversions/"+name+"-1.0.0", `"zh":"页"`))
		a.answers(t, "/kapis/package.kubesphere.io/v1alpha1/extensionversions/"+name+"-1.0.0/files", `"Name":"README.md"`, `"Name":"values.yaml"`)
	})
	step(t, "it is installed while its page is open", func(t *testing.T) {
		a.must(t, http.StatusCreated, http.MethodPost, plans, installPlan(name, "1.0.0", "title: hello", nil))
		eventually(t, "the plan is watched", func(ctx context.Context) error {
			return a.watches(ctx, platformAPI+"/watch/installplans/"+name, "InstallPlan", name)
		})
		eventually(t, "the extension is watched", func(ctx context.Context) error {
			return a.watches(ctx, platformAPI+"/watch/extensions/"+name, "Extension", name)
		})
		eventually(t, "it is installed", a.has(plan, `"state":"Installed"`, `"state":"Preparing"`, `"state":"Installing"`))
		eventually(t, "its card says so", a.has("/kapis/kubesphere.io/v1alpha1/extensions?limit=-1&status=Installed&enabled=true", `"name":"`+name+`"`))
		a.answers(t, "/api/v1/namespaces/extension-"+name+"/pods?labelSelector=job-name%3D", `"items":`) // the window of the log, which is empty
		eventually(t, "its page opens", opens("Available System.register([], e => ({execute(){ e(\"title\", \"hello of 1.0.0\")"))
	})
	step(t, "it is configured and upgraded, and the page follows", func(t *testing.T) {
		a.must(t, http.StatusOK, http.MethodPatch, plan, obj{"spec": obj{"config": "title: welcome"}}, asMerge)
		eventually(t, "the page has the configuration", opens("welcome of 1.0.0"))
		a.must(t, http.StatusOK, http.MethodPatch, plan, obj{"spec": obj{"extension": obj{"name": name, "version": "1.1.0"}}}, asMerge)
		eventually(t, "the page is the new version's", opens("welcome of 1.1.0"))
		eventually(t, "it says which version runs", a.has(extension, `"installedVersion":"1.1.0"`))
	})
	step(t, "it goes back to the former version", func(t *testing.T) {
		a.must(t, http.StatusOK, http.MethodPatch, plan, obj{"spec": obj{"extension": obj{"name": name, "version": "1.0.0"}}}, asMerge)
		eventually(t, "the page is the former version's", opens("welcome of 1.0.0"))
		eventually(t, "it says which version runs", a.has(extension, `"installedVersion":"1.0.0"`))
	})
	step(t, "it is disabled and enabled", func(t *testing.T) {
		a.must(t, http.StatusOK, http.MethodPatch, plan, obj{"spec": obj{"enabled": false}}, asMerge)
		eventually(t, "the page is not served", opens("Disabled "))
		eventually(t, "its card says so", a.has("/kapis/kubesphere.io/v1alpha1/extensions?limit=-1&enabled=false", `"name":"`+name+`"`))
		a.must(t, http.StatusOK, http.MethodPatch, plan, obj{"spec": obj{"enabled": true}}, asMerge)
		eventually(t, "the page is served", opens("Available System.register"))
	})
	step(t, "it is removed", func(t *testing.T) {
		a.must(t, http.StatusOK, http.MethodDelete, plan, nil)
		eventually(t, "the plan is gone", a.is(http.StatusNotFound, http.MethodGet, plan))
		a.must(t, http.StatusNotFound, http.MethodGet, bundles+"/"+name, nil)
		eventually(t, "its card says so", a.has("/kapis/kubesphere.io/v1alpha1/extensions?limit=-1&available=true", `"name":"`+name+`"`))
	})
}
