package app_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"
	"testing"

	restful "github.com/emicklei/go-restful/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	"kapis.dev/ks-apiserver/pkg/appstore/file"
	"kapis.dev/ks-apiserver/pkg/chart"
	"kapis.dev/ks-apiserver/pkg/chart/charttest"
	"kapis.dev/ks-apiserver/pkg/kapis/application/app"
	"kapis.dev/ks-apiserver/pkg/kapis/application/scope"
	"kapis.dev/ks-apiserver/pkg/kapis/application/scopetest"
)

// kept is a file in memory.
type kept struct {
	content []byte
	labels  map[string]string
}

// files keeps files in memory.
type files map[string]kept

func (f files) Get(_ context.Context, name string) ([]byte, error) {
	if k, ok := f[name]; ok {
		return k.content, nil
	}
	return nil, apierrors.NewNotFound(corev1.Resource("configmaps"), name)
}

func (f files) Labels(_ context.Context, name string) (map[string]string, error) {
	if k, ok := f[name]; ok {
		return k.labels, nil
	}
	return nil, apierrors.NewNotFound(corev1.Resource("configmaps"), name)
}

func (f files) Put(_ context.Context, name string, labels map[string]string, content []byte) error {
	f[name] = kept{content, labels}
	return nil
}

func (files) MaxSize() int { return file.MaxInConfigMap }

func (f files) Delete(_ context.Context, name string) error {
	delete(f, name)
	return nil
}

func (f files) Reserve(context.Context, string, string) (file.Reservation, bool, error) {
	return file.Reservation{}, true, nil
}
func (f files) Keep(context.Context, *file.Reservation, metav1.OwnerReference) error { return nil }
func (f files) Release(context.Context, *file.Reservation) error                     { return nil }

const png = "\x89PNG\r\n\x1a\n0000"

func shop(t *testing.T, version string) []byte {
	return charttest.Pack(t, "shop", map[string]string{
		"Chart.yaml":  "name: shop\nversion: " + version + "\ndescription: sells\nhome: https://shop.example\n",
		"values.yaml": "a: 1\n",
	})
}

// uploaded returns an application and a version, as caches have them.
func uploaded(name, workspace, state string, content []byte) (a, v map[string]any) {
	a = scopetest.Object("applications", name, workspace, "", map[string]string{v2.LabelRepo: "upload", v2.LabelCategory: "db"})
	a["metadata"].(map[string]any)["annotations"] = map[string]string{v2.AnnotationOriginalName: "shop", "kubesphere.io/description": "sells"}
	a["spec"] = map[string]any{"appType": "helm", "appHome": "https://shop.example", "icon": "i"}
	v = scopetest.Object("applicationversions", name+"-1.0.0", workspace, state, map[string]string{v2.LabelRepo: "upload", v2.LabelApp: name})
	v["spec"] = map[string]any{"appType": "helm", "versionName": "1.0.0", "digest": chart.Digest(content)}
	return a, v
}

func newWorld(t *testing.T) (*scopetest.World, files) {
	content := shop(t, "1.0.0")
	f := files{}
	objects := map[string][]map[string]any{"categories": {scopetest.Object("categories", "db", "", "", nil),
		scopetest.Object("categories", "free", "", "", nil), scopetest.Object("categories", v2.CategoryUncategorized, "", "", nil)}}
	for _, c := range []struct{ name, workspace, state string }{
		{"shop-draft", "a", "draft"}, {"shop-sub", "a", "submitted"}, {"shop-passed", "a", "passed"}, {"shop-active", "a", "active"},
		{"shop-susp", "a", "suspended"}, {"shop-b", "b", "draft"},
	} {
		a, v := uploaded(c.name, c.workspace, c.state, content)
		switch c.state {
		case "active", "suspended":
			a["status"] = map[string]any{"state": c.state}
		}
		f[c.name+"-1.0.0"] = kept{content, map[string]string{v2.LabelApp: c.name, scope.LabelWorkspace: c.workspace}}
		objects["applications"] = append(objects["applications"], a)
		objects["applicationversions"] = append(objects["applicationversions"], v)
	}
	f["image-a"] = kept{[]byte(png), map[string]string{scope.LabelWorkspace: "a", "application.kubesphere.io/attachment": "image"}}
	f["image-b"] = kept{[]byte(png), map[string]string{scope.LabelWorkspace: "b", "application.kubesphere.io/attachment": "image"}}
	f["image-older"] = kept{[]byte(png), nil}
	f["package-older"] = kept{content, nil}
	w := scopetest.New(t, objects, func(s *scope.Store, ws *restful.WebService) { app.New(s, f).Routes(ws) })
	w.Users = map[string]scopetest.Rights{
		"admin": {Platform: []string{"*"}},
		"ann":   {Workspaces: map[string][]string{"a": {"*"}}},
		"bob":   {Workspaces: map[string][]string{"b": {"*"}}},
		"new":   {Workspaces: map[string][]string{"c": {"*"}}},
	}
	return w, f
}

// form returns a form and its header.
func form(t *testing.T, file []byte, jsonData string) (body, header string) {
	t.Helper()
	var texts []string
	var files [][]byte
	if jsonData != "" {
		texts = []string{jsonData}
	}
	if file != nil {
		files = [][]byte{file}
	}
	return formOf(t, files, texts)
}

// formOf returns a form with these files, and then these jsonData.
func formOf(t *testing.T, files [][]byte, texts []string) (body, header string) {
	t.Helper()
	var b bytes.Buffer
	m := multipart.NewWriter(&b)
	for _, file := range files {
		part, err := m.CreateFormFile("file", "a.tgz")
		if err != nil {
			t.Fatal(err)
		}
		_, _ = part.Write(file)
	}
	for _, text := range texts {
		if err := m.WriteField("jsonData", text); err != nil {
			t.Fatal(err)
		}
	}
	_ = m.Close()
	return b.String(), "Content-Type: " + m.FormDataContentType()
}

func asJSON(content []byte, more string) string {
	return fmt.Sprintf(`{"package":%q%s}`, base64.StdEncoding.EncodeToString(content), more)
}

func object[T any](t *testing.T, of any) T {
	t.Helper()
	var out T
	text, _ := json.Marshal(of)
	if s, ok := of.(string); ok {
		text = []byte(s)
	}
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err, string(text))
	}
	return out
}

type made struct{ AppID, VersionID, AppName, VersionName, AliasName, AppHome, Description string }

func TestX28AnUploadIsInTheWorkspaceOfThePath(t *testing.T) {
	w, f := newWorld(t)
	content := shop(t, "2.0.0+b")
	body, header := form(t, content, `{"aliasName":"Shop","categoryName":"db","metadata":{"labels":{"kubesphere.io/workspace":"b"},`+
		`"ownerReferences":[{"name":"x"}]},"workspace":"b","status":{"state":"active"}}`)
	info := object[made](t, w.Expect(http.StatusOK, "new", http.MethodPost, "/workspaces/c/apps", body, header))
	if info.AppName != "shop" || info.VersionName != "2.0.0+b" || info.AliasName != "Shop" || info.AppHome != "https://shop.example" ||
		info.Description != "sells" {
		t.Errorf("%+v", info)
	}
	a := object[v2.Application](t, w.Live("applications", info.AppID))
	if a.Labels[scope.LabelWorkspace] != "c" || a.Labels[v2.LabelCategory] != "db" || a.Labels[v2.LabelRepo] != "upload" ||
		a.Annotations[v2.AnnotationOriginalName] != "shop" || a.Annotations[v2.AnnotationUser] != "new" || len(a.OwnerReferences) > 0 ||
		a.Spec.AppType != "helm" || a.Status.State != "" {
		t.Errorf("%+v", a)
	}
	v := object[v2.ApplicationVersion](t, w.Live("applicationversions", info.VersionID))
	if v.Labels[scope.LabelWorkspace] != "c" || v.Labels[v2.LabelApp] != info.AppID || v.Spec.VersionName != "2.0.0+b" ||
		v.Spec.Digest != chart.Digest(content) ||
		!slices.Equal(v.Finalizers, []string{v2.FinalizerFiles}) || v.Status.State != "draft" || v.Status.UserName != "new" {
		t.Errorf("%+v", v)
	}
	if k := f[info.VersionID]; !bytes.Equal(k.content, content) || k.labels[scope.LabelWorkspace] != "c" {
		t.Errorf("%v", k.labels)
	}
	// By JSON, on the platform.
	info = object[made](t, w.Expect(http.StatusOK, "admin", http.MethodPost, "/apps", asJSON(content, "")))
	if a := object[v2.Application](t, w.Live("applications", info.AppID)); a.Labels[scope.LabelWorkspace] != scope.SystemWorkspace ||
		a.Labels[v2.LabelCategory] != v2.CategoryUncategorized {
		t.Errorf("%+v", a.ObjectMeta)
	}
	w.Expect(http.StatusForbidden, "new", http.MethodPost, "/apps", asJSON(content, ""))
	w.Expect(http.StatusForbidden, "new", http.MethodPost, "/workspaces/a/apps", asJSON(content, ""))
}

func TestX29UploadsThatCantBeTakenSayWhyAndWriteNothing(t *testing.T) {
	w, f := newWorld(t)
	before := len(f)
	content := shop(t, "1.0.0")
	bomb := charttest.Pack(t, "shop", map[string]string{"Chart.yaml": "name: shop\nversion: 1.0.0\n", "zeros": strings.Repeat("\x00", 65<<20)})
	if len(bomb) > 1<<20 {
		t.Fatal("the bomb is too large to be taken")
	}
	large := append(slices.Clone(content), make([]byte, 1<<20)...)
	for name, c := range map[string]struct {
		path, json string
		file       []byte
		code       int
	}{
		"one of the name":    {"/workspaces/a/apps", "", content, http.StatusConflict},
		"no file":            {"/workspaces/c/apps", `{}`, nil, http.StatusBadRequest},
		"broken JSON":        {"/workspaces/c/apps", `{`, content, http.StatusBadRequest},
		"a wrong member":     {"/workspaces/c/apps", `{"appType":7}`, content, http.StatusBadRequest},
		"another type":       {"/workspaces/c/apps", `{"appType":"exe"}`, content, http.StatusUnprocessableEntity},
		"no chart":           {"/workspaces/c/apps", `{}`, []byte("hello"), http.StatusUnprocessableEntity},
		"a bomb":             {"/workspaces/c/apps", `{}`, bomb, http.StatusUnprocessableEntity},
		"too large":          {"/workspaces/c/apps", `{}`, large, http.StatusRequestEntityTooLarge},
		"too much JSON":      {"/workspaces/c/apps", `{"description":"` + strings.Repeat("x", 1<<20) + `"}`, content, http.StatusRequestEntityTooLarge},
		"a long text":        {"/workspaces/c/apps", `{"description":"` + strings.Repeat("x", 5000) + `"}`, content, http.StatusUnprocessableEntity},
		"another version":    {"/workspaces/c/apps", `{"versionName":"9.9.9"}`, content, http.StatusUnprocessableEntity},
		"no category":        {"/workspaces/c/apps", `{"categoryName":"none"}`, content, http.StatusUnprocessableEntity},
		"a hostile category": {"/workspaces/c/apps", `{"categoryName":"../db"}`, content, http.StatusUnprocessableEntity},
		"a script as home":   {"/workspaces/c/apps", `{"appHome":"javascript:alert(1)"}`, content, http.StatusUnprocessableEntity},
		"another's image":    {"/workspaces/c/apps", `{"attachments":["image-a"]}`, content, http.StatusUnprocessableEntity},
		"a package as image": {"/workspaces/a/apps/shop-draft/versions", `{"attachments":["shop-b-1.0.0"],"appType":"yaml"}`,
			content, http.StatusUnprocessableEntity},
		"YAML without a name": {"/workspaces/c/apps", `{"appType":"yaml","versionName":"1.0.0"}`,
			[]byte("apiVersion: v1\nkind: A\nmetadata: {name: a}\n"), http.StatusUnprocessableEntity},
		"no YAML":            {"/workspaces/c/apps", `{"appType":"edge","versionName":"1.0.0","appName":"x"}`, content, http.StatusUnprocessableEntity},
		"a word to validate": {"/workspaces/c/apps?validate=maybe", `{}`, content, http.StatusBadRequest},
		"a dry run":          {"/workspaces/c/apps?dryRun=All", `{}`, content, http.StatusBadRequest},
	} {
		body, header := form(t, c.file, c.json)
		who := "new"
		if strings.Contains(c.path, "/a/") {
			who = "ann"
		}
		code, answer := w.Send(who, http.MethodPost, c.path, body, header)
		if code != c.code || !strings.Contains(answer, `"message":"`) {
			t.Errorf("%s: %d %.300s, want %d", name, code, answer, c.code)
		}
	}
	w.Expect(http.StatusUnsupportedMediaType, "new", http.MethodPost, "/workspaces/c/apps", "a", "Content-Type: text/plain")
	w.Expect(http.StatusBadRequest, "new", http.MethodPost, "/workspaces/c/apps", "a", "Content-Type: multipart/form-data")
	w.Expect(http.StatusOK, "new", http.MethodPost, "/workspaces/c/apps?validate=true", asJSON(content, ""))
	if got := w.Writes(); len(got) > 0 || len(f) != before {
		t.Errorf("written: %q, %d files", got, len(f)-before)
	}
}

// The console validates a form, adds jsonData to it once more, and sends it; and so again after an error.
func TestAFormSaysWhatItsLastJSONDataSays(t *testing.T) {
	w, _ := newWorld(t)
	content := [][]byte{shop(t, "2.0.0")}
	const first, last = `{"aliasName":"Old","icon":"old","categoryName":"db"}`,
		`{"aliasName":"New","appName":"shop","versionName":"2.0.0","status":"success"}`
	body, header := formOf(t, content, []string{first})
	w.Expect(http.StatusOK, "new", http.MethodPost, "/workspaces/c/apps?validate=true", body, header)
	body, header = formOf(t, content, []string{first, first, first, first, first, first, first, last})
	info := object[made](t, w.Expect(http.StatusOK, "new", http.MethodPost, "/workspaces/c/apps", body, header))
	a := object[v2.Application](t, w.Live("applications", info.AppID))
	if info.AliasName != "New" || a.Annotations["kubesphere.io/alias-name"] != "New" || a.Spec.Icon != "" ||
		a.Labels[v2.LabelCategory] != v2.CategoryUncategorized {
		t.Errorf("%+v %+v", info, a)
	}
	w.Writes()
	large := `{"description":"` + strings.Repeat("x", 1<<20) + `"}`
	for name, c := range map[string]struct {
		files [][]byte
		texts []string
		code  int
	}{
		"nine":                {content, slices.Repeat([]string{last}, 9), http.StatusBadRequest},
		"two files":           {[][]byte{content[0], content[0]}, []string{last}, http.StatusBadRequest},
		"two files, an empty": {[][]byte{{}, content[0]}, []string{last}, http.StatusBadRequest},
		"a broken one before": {content, []string{`{`, last}, http.StatusBadRequest},
		"a large one before":  {content, []string{large, last}, http.StatusRequestEntityTooLarge},
	} {
		body, header := formOf(t, c.files, c.texts)
		if code, answer := w.Send("ann", http.MethodPost, "/workspaces/a/apps/shop-draft/versions", body, header); code != c.code {
			t.Errorf("%s: %d %.300s, want %d", name, code, answer, c.code)
		}
	}
	if got := w.Writes(); len(got) > 0 {
		t.Errorf("written: %q", got)
	}
}

func TestAnIconIsAsLargeAsPagesAllow(t *testing.T) {
	w, _ := newWorld(t)
	icon := "data:image/svg+xml;base64," + base64.StdEncoding.EncodeToString(make([]byte, 512<<10))
	tooLarge := strings.Repeat("a", 704<<10+1)
	w.Expect(http.StatusOK, "ann", http.MethodPatch, "/workspaces/a/apps/shop-draft", `{"icon":"`+icon+`"}`)
	if a := object[v2.Application](t, w.Live("applications", "shop-draft")); a.Spec.Icon != icon {
		t.Errorf("an icon of %d bytes, want %d", len(a.Spec.Icon), len(icon))
	}
	w.Expect(http.StatusOK, "admin", http.MethodPost, "/categories", `{"metadata":{"name":"x"},"spec":{"icon":"`+icon+`"}}`)
	body, header := formOf(t, [][]byte{shop(t, "2.0.0")}, slices.Repeat([]string{`{"icon":"` + icon + `"}`}, 3))
	w.Expect(http.StatusOK, "new", http.MethodPost, "/workspaces/c/apps", body, header)
	for path, body := range map[string]string{"/apps/shop-draft": `{"icon":"` + tooLarge + `"}`,
		"/categories/x": `{"spec":{"icon":"` + tooLarge + `"}}`} {
		answer := w.Expect(http.StatusUnprocessableEntity, "admin", http.MethodPatch, path, body)
		if !strings.Contains(answer, "icon has more than 704 KiB") {
			t.Errorf("%s: %.300s", path, answer)
		}
	}
	// What a chart brings is in each of its versions.
	drawn := charttest.Pack(t, "drawn", map[string]string{"Chart.yaml": "name: drawn\nversion: 1.0.0\nicon: \"" + icon[:129<<10] + "\"\n"})
	answer := w.Expect(http.StatusOK, "new", http.MethodPost, "/workspaces/c/apps?validate=true", asJSON(drawn, ""))
	if !strings.Contains(answer, `"icon":""`) {
		t.Errorf("%.300s", answer)
	}
}

func TestYAMLIsAPackageToo(t *testing.T) {
	w, f := newWorld(t)
	const text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
	info := object[made](t, w.Expect(http.StatusOK, "new", http.MethodPost, "/workspaces/c/apps",
		asJSON([]byte(text), `,"appType":"yaml","appName":"maps","versionName":"1.0.0"`)))
	if v := object[v2.ApplicationVersion](t, w.Live("applicationversions", info.VersionID)); v.Spec.AppType != "yaml" ||
		string(f[info.VersionID].content) != text {
		t.Errorf("%+v", v.Spec)
	}
}

func TestX29APatchKeepsWhatItDoesNotSayAndClearsWhatIsEmpty(t *testing.T) {
	w, _ := newWorld(t)
	w.Expect(http.StatusOK, "ann", http.MethodPatch, "/workspaces/a/apps/shop-draft", `{"icon":"","aliasName":"New","attachments":["image-a"]}`)
	a := object[v2.Application](t, w.Live("applications", "shop-draft"))
	if a.Spec.Icon != "" || a.Spec.AppHome != "https://shop.example" || a.Annotations["kubesphere.io/alias-name"] != "New" ||
		a.Annotations["kubesphere.io/description"] != "sells" || a.Labels[v2.LabelCategory] != "db" || !slices.Equal(a.Spec.Attachments, []string{"image-a"}) {
		t.Errorf("%+v", a)
	}
	w.Expect(http.StatusOK, "ann", http.MethodPost, "/workspaces/a/apps/shop-draft", `{"categoryName":"","description":"","attachments":[]}`)
	a = object[v2.Application](t, w.Live("applications", "shop-draft"))
	if a.Labels[v2.LabelCategory] != v2.CategoryUncategorized || a.Annotations["kubesphere.io/description"] != "" || len(a.Spec.Attachments) > 0 ||
		a.Annotations["kubesphere.io/alias-name"] != "New" {
		t.Errorf("%+v", a)
	}
	w.Writes()
	for body, code := range map[string]int{`{"attachments":["image-b"]}`: http.StatusUnprocessableEntity,
		`{"categoryName":"none"}`: http.StatusUnprocessableEntity,
		`{"package":"eA=="}`:      http.StatusBadRequest, `[]`: http.StatusBadRequest} {
		w.Expect(code, "ann", http.MethodPatch, "/workspaces/a/apps/shop-draft", body)
	}
	w.Expect(http.StatusNotFound, "ann", http.MethodPatch, "/workspaces/a/apps/shop-b", `{"icon":"x"}`)
	if got := w.Writes(); len(got) > 0 {
		t.Errorf("written: %q", got)
	}
}

func TestX30VersionsAreReviewedByThePlatform(t *testing.T) {
	w, _ := newWorld(t)
	at := func(app string) string { return "/workspaces/a/apps/" + app + "/versions/" + app + "-1.0.0/action" }
	w.Expect(http.StatusOK, "ann", http.MethodPost, at("shop-draft"), `{"state":"submitted","message":"please"}`)
	for _, state := range []string{"passed", "rejected", "active"} {
		w.Expect(http.StatusForbidden, "ann", http.MethodPost, at("shop-draft"), `{"state":"`+state+`"}`)
	}
	w.Expect(http.StatusForbidden, "bob", http.MethodPost, at("shop-draft"), `{"state":"draft"}`)
	w.Expect(http.StatusNotFound, "bob", http.MethodPost, strings.Replace(at("shop-draft"), "/a/", "/b/", 1), `{"state":"draft"}`)
	w.Expect(http.StatusOK, "admin", http.MethodPost, strings.TrimPrefix(at("shop-draft"), "/workspaces/a"), `{"state":"passed","message":"fine"}`)
	w.Expect(http.StatusOK, "ann", http.MethodPost, at("shop-draft"), `{"state":"active"}`)
	v := object[v2.ApplicationVersion](t, w.Live("applicationversions", "shop-draft-1.0.0"))
	var history []string
	for _, a := range v.Status.Audits {
		history = append(history, a.State+" by "+a.UserName+": "+a.Message)
	}
	if want := []string{"active by ann: ", "passed by admin: fine", "submitted by ann: please"}; !slices.Equal(history, want) || v.Status.State != "active" {
		t.Errorf("%q, %s", history, v.Status.State)
	}
	for _, c := range []struct {
		app, body string
		code      int
	}{
		{"shop-passed", `{"state":"rejected"}`, http.StatusConflict},
		{"shop-sub", `{"state":"suspended"}`, http.StatusConflict},
		{"shop-sub", `{"state":"Active"}`, http.StatusUnprocessableEntity},
		{"shop-sub", `{}`, http.StatusUnprocessableEntity},
		{"shop-sub", `{"state":"passed","message":"` + strings.Repeat("x", 2000) + `"}`, http.StatusUnprocessableEntity},
		{"shop-susp", `{"state":"active"}`, http.StatusConflict}, // its application is suspended
	} {
		answer := w.Expect(c.code, "admin", http.MethodPost, at(c.app), c.body)
		if c.app == "shop-passed" && !strings.Contains(answer, "active") {
			t.Errorf("it does not say what is allowed: %s", answer)
		}
	}
	// A version is found in its own application only.
	w.Expect(http.StatusNotFound, "ann", http.MethodPost, "/workspaces/a/apps/shop-active/versions/shop-sub-1.0.0/action", `{"state":"draft"}`)
}

func TestX30ReviewedContentIsFixed(t *testing.T) {
	w, f := newWorld(t)
	other := charttest.Pack(t, "shop", map[string]string{"Chart.yaml": "name: shop\nversion: 1.0.0\ndescription: other\n"})
	before := f["shop-sub-1.0.0"].content
	for _, app := range []string{"shop-sub", "shop-passed", "shop-active", "shop-susp"} {
		w.Expect(http.StatusConflict, "ann", http.MethodPost, "/workspaces/a/apps/"+app+"/versions/"+app+"-1.0.0", asJSON(other, ""))
		if !bytes.Equal(f[app+"-1.0.0"].content, before) {
			t.Errorf("the package of %s was replaced", app)
		}
	}
	w.Expect(http.StatusUnprocessableEntity, "ann", http.MethodPost, "/workspaces/a/apps/shop-draft/versions/shop-draft-1.0.0", asJSON(shop(t, "1.0.1"), ""))
	w.Expect(http.StatusUnprocessableEntity, "ann", http.MethodPost, "/workspaces/a/apps/shop-draft/versions/shop-draft-1.0.0",
		asJSON(charttest.Pack(t, "other", map[string]string{"Chart.yaml": "name: other\nversion: 1.0.0\n"}), ""))
	w.Expect(http.StatusOK, "ann", http.MethodPost, "/workspaces/a/apps/shop-draft/versions/shop-draft-1.0.0", asJSON(other, ""))
	v := object[v2.ApplicationVersion](t, w.Live("applicationversions", "shop-draft-1.0.0"))
	if v.Spec.Digest != chart.Digest(other) || !bytes.Equal(f["shop-draft-1.0.0"].content, other) {
		t.Errorf("%+v", v.Spec)
	}
	// The version of the caches still names the former package: what is kept now is not taken for it.
	for _, what := range []string{"package", "files"} {
		w.Expect(http.StatusConflict, "ann", http.MethodGet, "/workspaces/a/apps/shop-draft/versions/shop-draft-1.0.0/"+what, "")
	}
	w.Expect(http.StatusConflict, "ann", http.MethodPost, "/workspaces/a/apps/shop-draft/versions", asJSON(other, "")) // is there
	w.Expect(http.StatusOK, "ann", http.MethodPost, "/workspaces/a/apps/shop-draft/versions", asJSON(shop(t, "1.1.0"), ""))
	w.Expect(http.StatusNotFound, "ann", http.MethodPost, "/workspaces/a/apps/shop-b/versions", asJSON(shop(t, "1.1.0"), ""))
}

func TestX36PackagesAreReadByWhoSeesTheirVersion(t *testing.T) {
	w, f := newWorld(t)
	answer := object[struct {
		VersionID, AppID string
		Package          []byte
	}](t, w.Expect(http.StatusOK, "ann", http.MethodGet, "/workspaces/a/apps/shop-draft/versions/shop-draft-1.0.0/package", ""))
	if !bytes.Equal(answer.Package, shop(t, "1.0.0")) || answer.VersionID != "shop-draft-1.0.0" || answer.AppID != "shop-draft" {
		t.Errorf("%s %s", answer.VersionID, answer.AppID)
	}
	got := object[map[string][]byte](t, w.Expect(http.StatusOK, "ann", http.MethodGet, "/workspaces/a/apps/shop-draft/versions/shop-draft-1.0.0/files", ""))
	if string(got["values.yaml"]) != "a: 1\n" || len(got) != 2 {
		t.Errorf("%q", got)
	}
	w.Expect(http.StatusNotFound, "ann", http.MethodGet, "/workspaces/a/apps/shop-b/versions/shop-b-1.0.0/package", "")
	w.Expect(http.StatusNotFound, "ann", http.MethodGet, "/workspaces/a/apps/shop-draft/versions/shop-sub-1.0.0/files", "")
	delete(f, "shop-draft-1.0.0")
	w.Expect(http.StatusNotFound, "ann", http.MethodGet, "/workspaces/a/apps/shop-draft/versions/shop-draft-1.0.0/package", "")
	if body := w.Expect(http.StatusOK, "ann", http.MethodGet, "/workspaces/a/apps/shop-draft/versions/shop-draft-1.0.0/audits", ""); body !=
		`{"items":[],"totalItems":0}` {
		t.Error(body)
	}
	if got := scopetest.Names(t, w.Expect(http.StatusOK, "admin", http.MethodGet, "/reviews?conditions=status%3Dsubmitted", "")); !slices.Equal(got,
		[]string{"shop-sub-1.0.0"}) {
		t.Errorf("%q", got)
	}
	w.Expect(http.StatusForbidden, "nobody", http.MethodGet, "/reviews", "")
}

func TestX31ApplicationsAreActivatedAndSuspendedWithTheirVersions(t *testing.T) {
	w, _ := newWorld(t)
	state := func(plural, name string) string {
		return object[v2.ApplicationVersion](t, w.Live(plural, name)).Status.State
	}
	for _, c := range []struct {
		app, to string
		code    int
	}{
		{"shop-draft", "active", http.StatusConflict}, {"shop-sub", "active", http.StatusConflict}, {"shop-draft", "suspended", http.StatusConflict},
		{"shop-active", "active", http.StatusConflict}, {"shop-active", "draft", http.StatusConflict}, {"shop-active", "passed", http.StatusUnprocessableEntity},
	} {
		w.Expect(c.code, "admin", http.MethodPost, "/apps/"+c.app+"/action", `{"state":"`+c.to+`"}`)
	}
	w.Expect(http.StatusForbidden, "ann", http.MethodPost, "/apps/shop-passed/action", `{"state":"active"}`)
	for app, to := range map[string]string{"shop-passed": "active", "shop-active": "suspended", "shop-susp": "active"} {
		w.Expect(http.StatusOK, "admin", http.MethodPost, "/apps/"+app+"/action", `{"state":"`+to+`"}`)
		if a, v := state("applications", app), state("applicationversions", app+"-1.0.0"); a != to || v != to {
			t.Errorf("%s is %s, its version %s", app, a, v)
		}
	}
}

func TestX30WhatIsInReviewOrActiveIsNotDeleted(t *testing.T) {
	w, _ := newWorld(t)
	for app, code := range map[string]int{"shop-draft": http.StatusOK, "shop-sub": http.StatusConflict, "shop-passed": http.StatusOK,
		"shop-active": http.StatusConflict, "shop-susp": http.StatusOK} {
		w.Expect(code, "ann", http.MethodDelete, "/workspaces/a/apps/"+app+"/versions/"+app+"-1.0.0", "")
		w.Expect(code, "ann", http.MethodDelete, "/workspaces/a/apps/"+app, "")
	}
	w.Expect(http.StatusNotFound, "ann", http.MethodDelete, "/workspaces/a/apps/shop-b", "")
	w.Expect(http.StatusNotFound, "ann", http.MethodDelete, "/workspaces/a/apps/shop-b/versions/shop-b-1.0.0", "")
}

func TestCategoriesInUseStay(t *testing.T) {
	w, _ := newWorld(t)
	w.Expect(http.StatusBadRequest, "admin", http.MethodDelete, "/categories/"+v2.CategoryUncategorized, "")
	if body := w.Expect(http.StatusConflict, "admin", http.MethodDelete, "/categories/db", ""); !strings.Contains(body, "6 applications") {
		t.Error(body)
	}
	w.Expect(http.StatusOK, "admin", http.MethodDelete, "/categories/free", "")
	w.Expect(http.StatusForbidden, "ann", http.MethodDelete, "/categories/free", "")
	w.Expect(http.StatusForbidden, "ann", http.MethodPost, "/categories", `{"metadata":{"name":"x"}}`)
	w.Expect(http.StatusOK, "admin", http.MethodPost, "/categories", `{"metadata":{"name":"x","finalizers":["y"],"ownerReferences":[{"name":"z"}],`+
		`"annotations":{"kubesphere.io/alias-name":"X","other":"y"}},"spec":{"icon":"i"}}`)
	c := object[v2.Category](t, w.Live("categories", "x"))
	if c.Annotations["kubesphere.io/alias-name"] != "X" || c.Annotations["other"] != "" || len(c.Finalizers)+len(c.OwnerReferences) > 0 || c.Spec.Icon != "i" {
		t.Errorf("%+v", c)
	}
	w.Expect(http.StatusOK, "admin", http.MethodPatch, "/categories/x", `{"metadata":{"annotations":{"kubesphere.io/description":"d"}}}`,
		"Content-Type: application/merge-patch+json")
	if c := object[v2.Category](t, w.Live("categories", "x")); c.Annotations["kubesphere.io/description"] != "d" || c.Spec.Icon != "i" {
		t.Errorf("%+v", c)
	}
	w.Expect(http.StatusBadRequest, "admin", http.MethodPost, "/categories/x", `{"metadata":{"name":"y"}}`)
}

func TestX36AttachmentsAreImagesOfAWorkspace(t *testing.T) {
	w, f := newWorld(t)
	body, header := form(t, []byte(png), "")
	id := object[struct {
		ID string `json:"attachment_id"`
	}](t, w.Expect(http.StatusOK, "ann", http.MethodPost, "/workspaces/a/attachments", body, header)).ID
	got := object[struct {
		Content struct{ Raw []byte } `json:"attachment_content"`
	}](t, w.Expect(http.StatusOK, "ann", http.MethodGet, "/workspaces/a/attachments/"+id, ""))
	if string(got.Content.Raw) != png || f[id].labels[scope.LabelWorkspace] != "a" {
		t.Errorf("%q %v", got.Content.Raw, f[id].labels)
	}
	for _, c := range []struct {
		who, method, path string
		code              int
	}{
		{"bob", http.MethodGet, "/workspaces/b/attachments/image-a", http.StatusNotFound},
		{"bob", http.MethodGet, "/workspaces/a/attachments/image-a", http.StatusForbidden},
		{"bob", http.MethodDelete, "/workspaces/b/attachments/image-a", http.StatusNotFound},
		{"bob", http.MethodDelete, "/workspaces/b/attachments/image-b,image-a", http.StatusNotFound},
		{"ann", http.MethodGet, "/workspaces/a/attachments/shop-draft-1.0.0", http.StatusNotFound},
		{"ann", http.MethodDelete, "/workspaces/a/attachments/shop-draft-1.0.0", http.StatusNotFound},
		{"ann", http.MethodDelete, "/workspaces/a/attachments/image-older", http.StatusNotFound},
		{"admin", http.MethodGet, "/attachments/package-older", http.StatusNotFound},
		{"admin", http.MethodDelete, "/attachments/package-older", http.StatusNotFound},
		{"admin", http.MethodGet, "/attachments/image-older", http.StatusOK},
		{"admin", http.MethodGet, "/attachments/A_B", http.StatusNotFound},
		{"ann", http.MethodDelete, "/workspaces/a/attachments/" + strings.Repeat("a,", 20) + "a", http.StatusBadRequest},
	} {
		w.Expect(c.code, c.who, c.method, c.path, "")
	}
	if len(f) != 11 {
		t.Errorf("%d files", len(f))
	}
	if body := w.Expect(http.StatusOK, "ann", http.MethodDelete, "/workspaces/a/attachments/"+id+",image-a", ""); body != "" || len(f) != 9 {
		t.Errorf("%q, %d files", body, len(f))
	}
	for _, content := range []string{"<svg xmlns='http://www.w3.org/2000/svg'/>", "<html>", "hello", ""} {
		body, header := form(t, []byte(content), "")
		w.Expect(http.StatusUnsupportedMediaType, "ann", http.MethodPost, "/workspaces/a/attachments", body, header)
	}
	body, header = form(t, append([]byte(png), make([]byte, 1<<20)...), "")
	w.Expect(http.StatusRequestEntityTooLarge, "ann", http.MethodPost, "/workspaces/a/attachments", body, header)
}
