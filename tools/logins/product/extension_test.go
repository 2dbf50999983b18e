package product

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/tools/logins/chromium"
)

const extensionPath = "/apis/kubesphere.io/v1alpha1"

// extensionPage is what a page of the console does with extensions: call sends a request as its user, watch follows the state of an InstallPlan by a
// WebSocket, and show loads the script of an extension at the address that its JSBundle has now, and returns the title that it exports. The scripts are
// modules of SystemJS, of whose loader System is as much as one without dependencies needs.
const extensionPage = `
window.call = async (method, path, body) => {
	const type = method === "PATCH" ? "application/merge-patch+json" : "application/json"
	const answer = await fetch(path, {method, headers: {Authorization: "Bearer TOKEN", "Content-Type": type}, body: body && JSON.stringify(body)})
	if (!answer.ok) throw new Error(method + " " + path + ": " + answer.status + " " + await answer.text())
	return answer.json()
}
window.states = []
window.watch = name => new Promise((done, failed) => {
	const ws = new WebSocket(location.origin.replace("http", "ws") + "/apis/kubesphere.io/v1alpha1/watch/installplans/" + name)
	ws.onopen = () => done("open")
	ws.onerror = () => failed(new Error("the watch is refused"))
	ws.onmessage = m => {
		const state = JSON.parse(m.data).object?.status?.state
		if (state && states.at(-1) !== state) states.push(state)
	}
})
window.System = {register: (dependencies, declare) => {
	const module = {}
	declare((name, value) => { module[name] = value; return value }, {}).execute()
	window.module = module
}}
window.show = async name => {
	const all = await call("GET", "/apis/extensions.kubesphere.io/v1alpha1/jsbundles")
	const bundle = all.items.find(b => b.metadata.name === name)
	if (!bundle) return "none"
	if (bundle.status.state !== "Available") return bundle.status.state
	window.module = {}
	await new Promise((done, failed) => {
		const script = document.createElement("script")
		script.src = bundle.status.link + "?resourceVersion=" + bundle.metadata.resourceVersion
		script.onload = done
		script.onerror = () => failed(new Error("the script can't be loaded"))
		document.documentElement.append(script)
	})
	return module.title
}
true`

// pageChart is an extension whose page has a title from its values, and from its version.
func pageChart(t *testing.T, name, version string) []byte {
	t.Helper()
	var out bytes.Buffer
	packed := gzip.NewWriter(&out)
	files := tar.NewWriter(packed)
	for file, text := range map[string]string{
		"Chart.yaml":       fmt.Sprintf("{apiVersion: v2, name: %s, version: %s}", name, version),
		"extension.yaml":   fmt.Sprintf("{apiVersion: kubesphere.io/v1alpha1, name: %s, version: %s, displayName: {en: Page}}", name, version),
		"permissions.yaml": "kind: ClusterRole\nrules:\n- {apiGroups: [extensions.kubesphere.io], resources: [jsbundles], verbs: ['*']}\n",
		"values.yaml":      "title: first\n",
		"templates/page.yaml": `
apiVersion: extensions.kubesphere.io/v1alpha1
kind: JSBundle
metadata: {name: {{ .Release.Name }}}
spec: {raw: {{ printf "System.register([], e => ({execute(){ e('title', '%s of %s') }}))" .Values.title .Chart.Version | b64enc }}}
status: {state: Available, link: /dist/{{ .Release.Name }}-frontend/index.js}
`,
	} {
		err := files.WriteHeader(&tar.Header{Name: name + "/" + file, Mode: 0o644, Size: int64(len(text)), Typeflag: tar.TypeReg})
		if err == nil {
			_, err = files.Write([]byte(text))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(files.Close(), packed.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// X43: a page in a browser installs an extension, follows its state, loads its script, configures, disables, upgrades and removes it; the script is the
// current one after each change, while the browser keeps its cache.
func TestX43AnExtensionIsInstalledAndShownInABrowser(t *testing.T) {
	const name = "browser-page"
	plans, plan := extensionPath+"/installplans", extensionPath+"/installplans/"+name
	create(t, extensionPath+"/extensions", map[string]any{"apiVersion": "kubesphere.io/v1alpha1", "kind": "Extension", "metadata": map[string]any{"name": name}})
	for _, version := range []string{"1.0.0", "1.1.0"} {
		source := "extension-" + name + "-" + version + "-chart"
		create(t, "/api/v1/namespaces/kubesphere-system/configmaps", map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
			"metadata":   map[string]any{"name": source},
			"binaryData": map[string]any{"chart.tgz": base64.StdEncoding.EncodeToString(pageChart(t, name, version))}})
		create(t, extensionPath+"/extensionversions", map[string]any{"apiVersion": "kubesphere.io/v1alpha1", "kind": "ExtensionVersion",
			"metadata": map[string]any{"name": name + "-" + version, "labels": map[string]any{"kubesphere.io/extension-ref": name}},
			"spec":     map[string]any{"version": version, "chartDataRef": map[string]any{"namespace": "kubesphere-system", "name": source, "key": "chart.tgz"}}})
	}
	forget(t, "/api/v1/namespaces/extension-"+name)
	forget(t, plan)

	b := chromium.Open(t, chromium.Desktop(), 4*browsing, certificate(t))
	b.Visit(product.issuer + "/version")
	chromium.Eval[bool](b, `document.cookie = "token=`+product.admin+`; path=/; secure"; true`)
	chromium.Eval[bool](b, strings.Replace(extensionPage, "TOKEN", product.admin, 1))
	run := func(script string) string { // as the page does, and what comes of it
		t.Helper()
		chromium.Eval[bool](b, `window.said = undefined; (async () => `+script+`)().then(v => window.said = "" + v, e => window.said = "failed: " + e); true`)
		b.Until(`window.said !== undefined`)
		return chromium.Eval[string](b, `window.said`)
	}
	does := func(script string) {
		t.Helper()
		if said := run(script); strings.HasPrefix(said, "failed: ") {
			t.Fatalf("%s: %s", script, said)
		}
	}
	shows := func(want string) {
		t.Helper()
		tick, late := time.NewTicker(200*time.Millisecond), time.After(browsing)
		defer tick.Stop()
		for {
			said := run(`await show("` + name + `")`)
			if said == want {
				return
			}
			select {
			case <-tick.C:
			case <-late:
				t.Fatalf("the page shows %q, and not %q; the plan was %s", said, want, run(`states.join()`))
			}
		}
	}
	change := func(spec string) { t.Helper(); does(`await call("PATCH", "` + plan + `", {spec: ` + spec + `})`) }

	does(`await call("POST", "` + plans + `", {apiVersion: "kubesphere.io/v1alpha1", kind: "InstallPlan", metadata: {name: "` + name +
		`"}, spec: {extension: {name: "` + name + `", version: "1.0.0"}, enabled: true, config: "title: hello"}})`)
	does(`await watch("` + name + `")`)
	shows("hello of 1.0.0")
	b.Until(`states.includes("Installed")`)
	change(`{config: "title: welcome"}`)
	shows("welcome of 1.0.0")
	change(`{extension: {name: "` + name + `", version: "1.1.0"}}`)
	shows("welcome of 1.1.0")
	change(`{enabled: false}`)
	shows("Disabled")
	change(`{enabled: true}`)
	shows("welcome of 1.1.0")
	b.Until(`states.includes("Upgrading") && states.at(-1) === "Installed"`)
	b.Quiet(product.issuer + "/dist")
	does(`await call("DELETE", "` + plan + `")`)
	shows("none")
	await(t, "the plan is gone", func() error {
		if said := run(`await call("GET", "` + plan + `")`); !strings.Contains(said, ": "+fmt.Sprint(http.StatusNotFound)) {
			return errors.New(said)
		}
		return nil
	})
}
