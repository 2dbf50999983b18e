package e2e

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/chart/charttest"
)

// storeNamespace is where the files of the store are.
const storeNamespace = "extension-openpitrix"

// sold is what somebody has in the store: the ids of routes.
type sold map[string]string

// secretChart installs a ConfigMap, which has a value and a text of the chart, and a Secret, which has another value and one that is in nothing else.
func secretChart(t *testing.T, name string, text func() string, more map[string]string) []byte {
	t.Helper()
	files := map[string]string{
		"Chart.yaml":    "{apiVersion: v2, name: " + name + ", version: 1.0.0, description: " + text() + "}",
		"values.yaml":   "public: none\nsecret: none\ndefault: " + text() + "\n",
		"README.md":     "# " + text() + "\n",
		"files/key.pem": text() + "\n",
		"templates/all.yaml": configMapOf(name+"-web", "{{ .Values.public }} "+text()) + `
---
apiVersion: v1
kind: Secret
metadata: {name: ` + name + `-key}
stringData: {key: {{ .Values.secret | quote }}, token: {{ randAlphaNum 32 | quote }}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: ` + name + `-bad-{{ .Values.bad | default "name" }}}
`,
		"templates/NOTES.txt": "Log in with {{ .Values.secret }}\n",
	}
	for file, content := range more {
		files[file] = content
	}
	return charttest.Pack(t, name, files)
}

// plantStore has a workspace upload an application that nobody else sees, install it with secret values, and fail to upgrade it. The class apps is of
// packages, values of releases, attachments of images.
func (w *contentWorld) plantStore(t *testing.T, whose string, x tenant) sold {
	t.Helper()
	a, name, at := admin(t), w.one+"-"+whose, storeAPI+"/workspaces/"+x.workspace
	class := func(of string) func() string { return func() string { return w.plant(of + "." + whose) } }
	body, header := storeForm(t, secretChart(t, name, class("apps"), nil), obj{"aliasName": w.plant("apps." + whose)})
	made := decode[struct{ AppID, VersionID string }](t, a.must(t, http.StatusOK, http.MethodPost, at+"/apps", body, header).body)
	app := at + "/apps/" + made.AppID
	for _, state := range []string{"submitted", "passed"} { // it may be installed, and is not active: so it is in nobody else's store
		eventually(t, "the version is "+state, a.accepts(http.StatusOK, http.MethodPost, app+"/versions/"+made.VersionID+"/action",
			obj{"state": state, "message": w.plant("apps." + whose)}))
	}
	eventually(t, "who installs sees that", a.has(app+"/versions/"+made.VersionID, `"state":"passed"`))
	body, header = storeForm(t, []byte("\x89PNG\r\n\x1a\n"+w.plant("attachments."+whose)), obj{})
	image := decode[struct {
		ID string `json:"attachment_id"`
	}](t, a.must(t, http.StatusOK, http.MethodPost, at+"/attachments", body, header).body).ID

	routes := storeAPI + "/namespaces/" + x.namespace + "/applications"
	values := func(bad string) string {
		return encoded("public: " + w.plant("values."+whose) + "\nsecret: " + w.plant("values."+whose) + "\n" + bad)
	}
	a.must(t, http.StatusOK, http.MethodPost, routes, appRelease(name, x.workspace, x.namespace, made.AppID, made.VersionID, values("")))
	t.Cleanup(func() {
		ctx := context.Background()
		_, _ = a.do(ctx, http.MethodDelete, storeKube+"/applicationreleases/"+name, nil)
		_, _ = a.do(ctx, http.MethodDelete, app, nil)
		_, _ = a.do(ctx, http.MethodDelete, at+"/attachments/"+image, nil)
	})
	eventually(t, "the release of "+whose+" is active", a.has(routes+"/"+name, `"state":"active"`))
	a.must(t, http.StatusOK, http.MethodPost, routes+"/"+name, appRelease(name, x.workspace, x.namespace, made.AppID, made.VersionID,
		values("bad: "+w.plant("values."+whose))))
	eventually(t, "its upgrade has failed", a.has(routes+"/"+name, `"state":"failed"`))
	w.saysNothing(t, storeKube+"/applicationreleases/"+name)
	w.madeUp(t, "secrets."+whose, x.namespace, name)
	return sold{"app": made.AppID, "version": made.VersionID, "attachment": image, "application": name, "crname": name, "repo": w.one, "category": w.one}
}

// plantExtension installs an extension with secret values, and leaves it with a preview of other ones, and with a plan that failed.
func (w *contentWorld) plantExtension(t *testing.T) {
	t.Helper()
	a, plan, objects := admin(t), platformAPI+"/installplans/"+w.one, "/api/v1/namespaces/extension-"+w.one
	chart := func() string { return w.plant("charts") }
	push(t, w.one, "1.0.0", base64.StdEncoding.EncodeToString(secretChart(t, w.one, chart, map[string]string{
		"extension.yaml": fmt.Sprintf("{apiVersion: kubesphere.io/v1alpha1, name: %s, version: 1.0.0, displayName: {en: Kept}}", w.one),
	})))
	t.Cleanup(func() {
		for _, path := range []string{plan, objects} {
			_, _ = a.do(context.Background(), http.MethodDelete, path, nil)
		}
	})
	config := func() string { return "public: " + w.plant("plans") + "\nsecret: " + w.plant("plans") + "\n" }
	eventually(t, "its chart is read", a.has(platformAPI+"/extensions/"+w.one, `"recommendedVersion":"1.0.0"`))
	a.must(t, http.StatusCreated, http.MethodPost, platformAPI+"/installplans", installPlan(w.one, "1.0.0", config(), nil))
	eventually(t, "it is installed", a.answersWith(http.StatusOK, plan, `"state":"Installed"`))
	a.create(t, objects+"/secrets", obj{"apiVersion": "v1", "kind": "Secret", "metadata": obj{"name": w.one, "labels": obj{"kapis.dev/values": w.one}},
		"stringData": obj{"values.yaml": "secret: " + w.plant("secrets.extension")}})
	a.must(t, http.StatusOK, http.MethodPatch, plan, obj{"metadata": obj{"annotations": obj{"kapis.dev/approve": "yes"}},
		"spec": obj{"config": config() + "bad: " + w.plant("plans")}}, asMerge)
	eventually(t, "its upgrade has failed", a.answersWith(http.StatusOK, plan, `"state":"UpgradeFailed"`))
	w.saysNothing(t, plan)
	w.madeUp(t, "secrets.extension", "extension-"+w.one, w.one)
	a.must(t, http.StatusOK, http.MethodPatch, plan, obj{"metadata": obj{"annotations": obj{"kapis.dev/preview": "1"}}, "spec": obj{"config": config(),
		"clusterScheduling": obj{"overrides": obj{"host": "secret: " + w.plant("plans")}}}}, asMerge)
	eventually(t, "it is previewed", a.conditionIs(plan, "Previewed", "True", w.one+"-preview"))
	if text := stored(t, "/api/v1/namespaces/"+systemNamespace+"/configmaps/"+w.one+"-preview"); !strings.Contains(text, "data.token") {
		t.Errorf("the preview names no field of the Secret: %s", text)
	}
	w.names["installplans"], w.names["extensionversions"] = w.one, w.one+"-1.0.0"
}

// saysNothing tells of the status of an object, in which what failed is, whether it has anything that was planted.
func (w *contentWorld) saysNothing(t *testing.T, path string) {
	t.Helper()
	status := encode(t, decode[struct{ Status obj }](t, stored(t, path)).Status)
	if found := w.classes(status); len(found) > 0 || len(status) < 20 {
		t.Errorf("the status of %s has %q: %s", path, found, status)
	}
}

// madeUp has what the templates of a chart made up be known, as it is and in base64.
func (w *contentWorld) madeUp(t *testing.T, class, namespace, chart string) {
	t.Helper()
	s := decode[struct{ Data map[string][]byte }](t, stored(t, "/api/v1/namespaces/"+namespace+"/secrets/"+chart+"-key"))
	token := string(s.Data["token"])
	if len(token) != 32 {
		t.Fatalf("the Secret of %s has %d values", chart, len(s.Data))
	}
	w.known(class, token)
	w.known(class, encoded(token))
}

// packed are packages and Helm's records in base64, which records are in twice where a Secret has them.
var packed = regexp.MustCompile(`(?:H4sI|SDRzSU)[A-Za-z0-9+/]{16,}={0,2}`)

// unpack returns what is in the packages and Helm's records of a text, also where they are as they are, as in protobuf.
func unpack(text string) string {
	var out strings.Builder
	gunzip := func(raw []byte) {
		if z, err := gzip.NewReader(bytes.NewReader(raw)); err == nil {
			_, _ = io.Copy(&out, io.LimitReader(z, 8<<20)) // what follows a package in a text is no gzip
		}
	}
	for _, found := range packed.FindAllString(text, -1) {
		raw := []byte(found)
		for !bytes.HasPrefix(raw, []byte("\x1f\x8b\x08")) {
			next, err := base64.StdEncoding.DecodeString(string(raw))
			if err != nil {
				break
			}
			raw = next
		}
		gunzip(raw)
	}
	for rest := text; ; {
		i := strings.Index(rest, "\x1f\x8b\x08")
		if i < 0 {
			return out.String()
		}
		gunzip([]byte(rest[i:]))
		rest = rest[i+3:]
	}
}
