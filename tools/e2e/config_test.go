package e2e

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"
)

const configAPI = "/kapis/config.kubesphere.io/v1alpha2"

// shows fails the test where an answer has a password's hash in it.
func shows(t *testing.T, what, text string) {
	t.Helper()
	if strings.Contains(text, "$2a$") || strings.Contains(text, "$2b$") || strings.Contains(text, password) || strings.Contains(text, "canary") {
		t.Errorf("%s shows a secret: %s", what, clip(text))
	}
}

// S3: nobody reads a password or a kubeconfig through /apis, an administrator neither, and kubectl changes users without losing them.
func TestSecretsDoNotTravelThroughApis(t *testing.T) {
	proves(t, "S3")
	a, name := admin(t), unique("secretive")
	u := newUser(t, name)
	path := iamAPI + "/users/" + name
	for _, p := range []string{path, iamAPI + "/users", "/apis/session.kapis.dev/v1alpha1/sessions", path + "/status"} {
		for _, accept := range []string{"application/json", "application/yaml", "application/json;as=Table;v=v1;g=meta.k8s.io",
			"application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"} {
			if strings.HasPrefix(p, path) {
				accept = strings.Replace(accept, "MetadataList", "Metadata", 1)
			}
			r, err := a.do(t.Context(), http.MethodGet, p+"?includeObject=Object", nil, "Accept: "+accept)
			if err != nil || r.code != http.StatusOK && !strings.HasSuffix(p, "status") {
				t.Fatalf("%s %s: %v %d %s", p, accept, err, r.code, clip(r.body))
			}
			shows(t, p+" as "+accept, r.body)
			if strings.Contains(r.body, `"refresh":{"current"`) || strings.Contains(r.body, `"credential":`) {
				t.Errorf("%s shows a session's hashes: %s", p, clip(r.body))
			}
		}
	}
	shows(t, "one's own user", u.must(t, http.StatusOK, http.MethodGet, "/kapis/iam.kubesphere.io/v1beta1/users/"+name, nil).body)
	r := a.must(t, http.StatusOK, http.MethodPatch, path, `{"spec":{"displayName":"One"}}`, "Content-Type: application/merge-patch+json")
	shows(t, "the answer to a patch", r.body)

	// kubectl: get in all forms, apply with a password in the file, edit, and a login with the password at the end.
	for _, args := range [][]string{{"get", "users", name, "-o", "yaml"}, {"get", "users", "-o", "json"}, {"get", "users"},
		{"get", "user", name, "-o", "jsonpath={.spec.password}"}} {
		shows(t, strings.Join(args, " "), kubectlOutput(t, "", args...))
	}
	for i, spec := range []string{"password: Canary-123", "displayName: Two"} {
		kubectlOutput(
			t,
			fmt.Sprintf("apiVersion: iam.kubesphere.io/v1beta1\nkind: User\nmetadata: {name: %s}\nspec:\n  email: %s@example.com\n  %s\n", name, name, spec),
			"apply",
			"-f",
			"-",
		)
		out := kubectlOutput(t, "", "get", "users", name, "-o", "yaml")
		if strings.Contains(out, "Canary-123") || !strings.Contains(out, "last-applied-configuration") {
			t.Errorf("after apply %d: %s", i, out)
		}
		shows(t, "get after apply", out)
	}
	kubectlOutput(t, "", "label", "user", name, "a=b")
	eventually(t, "the password of the first apply is kept", func(ctx context.Context) error {
		r, err := passwordGrant(ctx, product.URL, name, "Canary-123")
		if err == nil && r.code != http.StatusOK {
			err = fmt.Errorf("%d %s", r.code, r.body)
		}
		return err
	})
}

// S3: what pages watch users by: a WebSocket on a path of its own, text frames, no sub-protocol.
func TestTheWatchOfUsersByWebSocketShowsNoPassword(t *testing.T) {
	proves(t, "S3")
	a, name := admin(t), unique("watched")
	newUser(t, name)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	conn, _, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(product.URL, "http")+"/apis/iam.kubesphere.io/v1beta1/watch/users", &websocket.DialOptions{
		HTTPHeader: http.Header{"Authorization": {"Bearer " + a.token}}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.CloseNow() }()
	for {
		typ, frame, err := conn.Read(ctx)
		if err != nil || typ != websocket.MessageText {
			t.Fatalf("%v %v", typ, err)
		}
		shows(t, "an event", string(frame))
		if strings.Contains(string(frame), `"name":"`+name+`"`) {
			return
		}
	}
}

// The settings, as who may write them, and as who may not (S10, S25).
func TestSettingsAreWrittenByWhoMay(t *testing.T) {
	proves(t, "S10")
	u, name := newUser(t, unique("set")), unique("cfg")
	editor := newUser(t, unique("editor"))
	role := unique("platform-settings")
	a := admin(t)
	a.create(t, iamAPI+"/globalroles", map[string]any{
		"apiVersion": "iam.kubesphere.io/v1beta1",
		"kind":       "GlobalRole",
		"metadata":   map[string]any{"name": role},
		"rules": []map[string]any{
			{
				"apiGroups": []string{"config.kubesphere.io"},
				"resources": []string{"configs", "platformconfigs"},
				"verbs":     []string{"get", "create", "update", "patch", "delete"},
			},
		},
	})
	a.create(
		t,
		iamAPI+"/globalrolebindings",
		map[string]any{
			"apiVersion": "iam.kubesphere.io/v1beta1",
			"kind":       "GlobalRoleBinding",
			"metadata":   map[string]any{"name": role},
			"roleRef": map[string]any{
				"apiGroup": "iam.kubesphere.io",
				"kind":     "GlobalRole",
				"name":     role,
			},
			"subjects": []map[string]any{{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": subjectOf(t, editor)}},
		},
	)
	object := map[string]any{
		"kind":       "GenericPlatformConfiguration",
		"apiVersion": "config.kubesphere.io/v1alpha2",
		"metadata":   map[string]any{"name": name},
		"data":       map[string]any{"a": 1},
	}
	path := configAPI + "/platformconfigs/" + name
	eventually(t, "a binding counts", func(ctx context.Context) error {
		r, err := editor.do(ctx, http.MethodPost, configAPI+"/platformconfigs", object)
		if err == nil && r.code != http.StatusOK {
			err = errors.New(r.body)
		}
		return err
	})
	t.Cleanup(func() { _, _ = a.do(context.Background(), http.MethodDelete, path, nil) })
	a.must(t, http.StatusConflict, http.MethodPost, configAPI+"/platformconfigs", object)
	editor.must(t, http.StatusOK, http.MethodPatch, path, `{"data":{"b":2}}`, "Content-Type: application/merge-patch+json")
	if r := u.must(t, http.StatusOK, http.MethodGet, path, nil); !strings.Contains(r.body, `"data":{"a":1,"b":2}`) {
		t.Errorf("%s", r.body)
	}
	// The right to it is none to Secrets, however it is asked for.
	for _, p := range []string{"/api/v1/namespaces/kubesphere-system/secrets", "/api/v1/namespaces/kubesphere-system/configmaps"} {
		editor.must(t, http.StatusForbidden, http.MethodPost, p, map[string]any{"metadata": map[string]any{"name": "x"}})
	}
	editor.must(t, http.StatusNotFound, http.MethodGet, configAPI+"/platformconfigs/ks-apiserver-signing-keys", nil)

	theme, image := configAPI+"/configs/theme", imageOf(t, editor)
	editor.must(t, http.StatusOK, http.MethodPut, theme, map[string]any{"title": "T", "logo": "/static/images/" + image})
	t.Cleanup(func() { _, _ = a.do(context.Background(), http.MethodPut, theme, map[string]any{}) })
	if r := anonymous().must(t, http.StatusOK, http.MethodGet, theme, nil); !strings.Contains(r.body, image) {
		t.Errorf("%s", r.body)
	}
	if r := anonymous().must(t, http.StatusOK, http.MethodGet, "/static/images/"+image, nil); r.header.Get("Content-Type") != "image/svg+xml" ||
		!strings.Contains(r.header.Get("Content-Security-Policy"), "sandbox") {
		t.Errorf("%v", r.header)
	}
	for _, w := range []struct{ method, path string }{{"PUT", theme}, {"POST", configAPI + "/platformconfigs"}, {"PUT", path}, {"PATCH", path}, {"DELETE", path},
		{"GET", configAPI + "/clusterconnectionconfigurations"}, {"GET", configAPI + "/clusterconnectionconfigurations/x"}, {"POST", "/static/images"}} {
		if r, err := u.do(t.Context(), w.method, w.path, object); err != nil || r.code != http.StatusForbidden && r.code != http.StatusUnsupportedMediaType {
			t.Errorf("%s %s: %d %s", w.method, w.path, r.code, clip(r.body))
		}
	}
	editor.must(t, http.StatusOK, http.MethodDelete, path, nil)
}

// imageOf uploads an image.
func imageOf(t *testing.T, c caller) string {
	t.Helper()
	var b bytes.Buffer
	m := multipart.NewWriter(&b)
	part, err := m.CreateFormFile("image", "logo.svg")
	if err == nil {
		_, err = part.Write([]byte(`<svg xmlns="http://www.w3.org/2000/svg"/>`))
	}
	if err == nil {
		err = m.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	r := c.must(t, http.StatusOK, http.MethodPost, "/static/images", b.String(), "Content-Type: "+m.FormDataContentType())
	return decode[map[string]string](t, r.body)["image"]
}

// subjectOf returns the name that a caller's token says.
func subjectOf(t *testing.T, c caller) string {
	t.Helper()
	raw, err := base64.RawURLEncoding.DecodeString(strings.Split(c.token, ".")[1])
	if err != nil {
		t.Fatal(err)
	}
	return decode[map[string]any](t, string(raw))["username"].(string)
}

// What the login page reads without a login, without a secret; and what is not there is a Status.
func TestTheLoginPageReadsItsConfigurationAnonymously(t *testing.T) {
	r := anonymous().must(t, http.StatusOK, http.MethodGet, configAPI+"/configs/oauth", nil)
	if strings.Contains(strings.ToLower(r.body), "secret") || !strings.Contains(r.body, `"name":"kubesphere"`) ||
		!strings.Contains(r.body, `"identityProviders":[`) {
		t.Errorf("%s", r.body)
	}
	if r := admin(t).must(t, http.StatusNotFound, http.MethodGet, configAPI+"/configs/marketplace", nil); !strings.Contains(r.body, `"kind":"Status"`) {
		t.Errorf("%s", r.body)
	}
	anonymous().must(t, http.StatusNotFound, http.MethodGet, "/static/images/0123456789abcdef0123456789abcdef.png", nil)
}
