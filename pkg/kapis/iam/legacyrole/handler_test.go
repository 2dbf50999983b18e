package legacyrole_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	restful "github.com/emicklei/go-restful/v3"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/legacyrole"
	"kapis.dev/ks-apiserver/pkg/kapis/kapistest"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/resource"
	"kapis.dev/ks-apiserver/pkg/web"
)

const root = "/kapis/iam.kubesphere.io/v1beta1"

// world is the routes of WorkspaceRoles over handlers of today that note what they get.
type world struct {
	container *restful.Container
	got       []string // verb, name and body of what the handlers of today were asked for
	denied    map[string]bool
}

func template(name, scope, shows string) string {
	return fmt.Sprintf(`{"apiVersion":"iam.kubesphere.io/v1beta1","kind":"RoleTemplate","metadata":{"name":%q,"resourceVersion":"5",
		"labels":{"iam.kubesphere.io/scope":%q},"annotations":{"iam.kubesphere.io/role-template-rules":%q}},
		"spec":{"displayName":{"en":"Name of %s"},"rules":[{"verbs":["get"],"apiGroups":["x"],"resources":["y"]}]}}`, name, scope, shows, name)
}

func newWorld(t *testing.T) *world {
	t.Helper()
	st := kapistest.NewAccounts(t, map[string][]any{"/apis/iam.kubesphere.io/v1beta1/roletemplates": {
		template("workspace-view-members", "workspace", `{"members":"view"}`), template("workspace-manage-members", "workspace", `{"members":"manage"}`),
		template("workspace-view-app-templates", "workspace", `{"app-templates":"view"}`), template("workspace-create-app", "workspace", `{"app-templates":"view"}`),
		template("one-create", "workspace", `{"x":"create"}`), template("other-create", "workspace", `{"x":"create"}`),
		template("workspace-wide", "workspace", `{"a":"view","b":"view"}`), template("global-manage-users", "global", `{"users":"manage"}`),
	}})
	w := &world{denied: map[string]bool{}}
	note := func(r *restful.Request) (any, error) {
		body, err := io.ReadAll(r.Request.Body)
		i := request.InfoFrom(r.Request.Context())
		w.got = append(w.got, strings.TrimSpace(i.Verb+" "+r.PathParameter("name")+" "+string(body)))
		return map[string]string{"answer": "today's"}, err
	}
	h := &legacyrole.Handler{Caches: st, Resources: resource.New(st, resource.Options{}), May: authz.Func(
		func(_ context.Context, _ user.Info, r *request.Info) (authz.Decision, error) {
			if w.denied[r.Asked()] {
				return authz.Decision{}, nil
			}
			return authz.Allow("", ""), nil
		})}
	k := legacyrole.Kinds()[2]
	ws := new(restful.WebService).Path(root).Produces(restful.MIME_JSON)
	const all = "/workspaces/{workspace}/workspaceroles"
	for i, b := range []*restful.RouteBuilder{ws.POST(all), ws.PUT(all + "/{name}"), ws.PATCH(all + "/{name}"), ws.DELETE(all + "/{name}")} {
		ws.Route(b.To(web.Handle(h.Write(k, note))).Operation(fmt.Sprint(i)))
	}
	ws.Route(ws.GET(all).To(web.Handle(h.List(k, note))).Operation("list").Metadata(web.MetadataWatch, true))
	w.container = kapistest.Container(ws)
	return w
}

func (w *world) do(t *testing.T, method, path, body string) *httptest.ResponseRecorder {
	t.Helper()
	w.got = nil
	return kapistest.Send(t, w.container, method, root+"/workspaces/w/workspaceroles"+path, body, "Content-Type: application/json")
}

// O26: the annotation names the templates, by their names of today or by the older ones; rules of the body are not read then.
func TestTheAnnotationNamesTheTemplates(t *testing.T) {
	w := newWorld(t)
	const key = `"iam.kubesphere.io/aggregation-roles"`
	for _, c := range []struct{ method, path, body, want string }{
		{
			http.MethodPost, "", `{"kind":"WorkspaceRole","metadata":{"name":"r","annotations":{` + key +
				`:"[\"role-template-view-members\",\"workspace-manage-members\"]"}},"rules":[{"verbs":["*"]}]}`,
			`create  {"aggregationRoleTemplates":{"templateNames":["workspace-view-members","workspace-manage-members"]},"kind":"WorkspaceRole",` +
				`"metadata":{"annotations":{` + key + `:"[\"workspace-view-members\",\"workspace-manage-members\"]"},"name":"r"}}`,
		},
		{http.MethodPost, "", `{"metadata":{"name":"r"},"rules":[]}`, `create  {"metadata":{"name":"r"},"rules":[]}`},
		{ // of several with the same rules, the one that is called so; and each once
			http.MethodPut, "/r",
			`{"metadata":{"annotations":{` + key + `:"[\"role-template-view-app-templates\",\"workspace-view-app-templates\"]"}},"rules":[]}`,
			`update r {"aggregationRoleTemplates":{"templateNames":["workspace-view-app-templates"]},"metadata":{"annotations":{` + key +
				`:"[\"workspace-view-app-templates\"]"}}}`,
		},
		{ // the record says which rules came from templates: they stay until the controller has made the new ones
			http.MethodPut, "/r", `{"aggregationRoleTemplates":{"roleSelector":{}},"metadata":{"annotations":{"kapis.dev/aggregated":"{}",` + key +
				`:"[]"}},"rules":[{}]}`,
			`update r {"aggregationRoleTemplates":{"roleSelector":{},"templateNames":[]},"metadata":{"annotations":{` + key +
				`:"[]","kapis.dev/aggregated":"{}"}},"rules":[{}]}`,
		},
		{
			http.MethodPatch, "/r", `{"metadata":{"annotations":{` + key + `:null}},"rules":[{}]}`,
			`patch r {"aggregationRoleTemplates":{"templateNames":[]},"metadata":{"annotations":{` + key + `:null}}}`,
		},
		{http.MethodPatch, "/r", `[{"op":"remove","path":"/metadata/labels"}]`, `patch r [{"op":"remove","path":"/metadata/labels"}]`},
		{http.MethodDelete, "/r", ``, `delete r`},
	} {
		rec := w.do(t, c.method, c.path, c.body)
		if rec.Code != http.StatusOK || len(w.got) != 1 || !slices.Equal(strings.Fields(w.got[0]), strings.Fields(c.want)) {
			t.Errorf("%s %s\n  %d %s\n  %v\n  want %s", c.method, c.body, rec.Code, rec.Body, w.got, c.want)
		}
	}
	for value, want := range map[string]string{
		`"[\"role-template-view-nothing\"]"`: "there is no role template", `"[\"global-manage-users\"]"`: "of the scope workspace",
		`"[\"role-template-create-x\"]"`: "one-create, other-create", `"x"`: "JSON array", `["workspace-view-members"]`: "JSON array", `"[1]"`: "JSON array",
		`"[\"\"]"`: "there is no", `"[\"role-template-view-a\"]"`: "there is no", `"[\"role-template-\"]"`: "there is no", `7`: "JSON array",
	} {
		rec := w.do(t, http.MethodPost, "", `{"metadata":{"name":"r","annotations":{`+key+`:`+value+`}}}`)
		if rec.Code != http.StatusBadRequest || !strings.Contains(rec.Body.String(), want) || w.got != nil {
			t.Errorf("%s: %d %s %v", value, rec.Code, rec.Body, w.got)
		}
	}
	for _, body := range []string{`[{"op":"add","path":"/metadata/annotations/iam.kubesphere.io~1aggregation-roles","value":"[]"}]`, `{"metadata":[]}`} {
		if rec := w.do(t, http.MethodPatch, "/r", body); rec.Code != http.StatusBadRequest || w.got != nil {
			t.Errorf("%s: %d %s", body, rec.Code, rec.Body)
		}
	}
}

// O26: what creates an object with a resourceVersion updates it, with the right to update it.
func TestACreationWithAVersionIsAnUpdate(t *testing.T) {
	w := newWorld(t)
	body := `{"metadata":{"name":"r","resourceVersion":"7"}}`
	if rec := w.do(t, http.MethodPost, "?dryRun=All", body); rec.Code != http.StatusOK || len(w.got) != 1 || w.got[0] != "update r "+body {
		t.Errorf("%d %s %v", rec.Code, rec.Body, w.got)
	}
	w.denied[`update workspaceroles.iam.kubesphere.io "r"`] = true
	if rec := w.do(t, http.MethodPost, "", body); rec.Code != http.StatusForbidden || w.got != nil {
		t.Errorf("without the right: %d %s %v", rec.Code, rec.Body, w.got)
	}
	for _, name := range []string{"", "..", "a/b", "a%2fb", "r/status"} {
		rec := w.do(t, http.MethodPost, "", `{"metadata":{"name":"`+name+`","resourceVersion":"7"}}`)
		if rec.Code != http.StatusBadRequest || w.got != nil {
			t.Errorf("%q: %d %s %v", name, rec.Code, rec.Body, w.got)
		}
	}
}

// O26: roles with the label of templates are the templates of the scope, in the form that older clients know.
func TestTemplatesAreListedAsRoles(t *testing.T) {
	w := newWorld(t)
	for query, total := range map[string]string{
		"?label=iam.kubesphere.io/role-template=true": `"totalItems":7`, "?labelSelector=iam.kubesphere.io%2Frole-template%3D%3Dtrue&limit=1": `"totalItems":7`,
		"?label=iam.kubesphere.io/role-template=true&name=members": `"totalItems":2`,
	} {
		rec := w.do(t, http.MethodGet, query, "")
		body := rec.Body.String()
		if rec.Code != http.StatusOK || !strings.Contains(body, total) || w.got != nil || strings.Contains(body, "global-manage-users") {
			t.Errorf("%s: %d %s", query, rec.Code, body)
		}
		for _, want := range []string{
			`"kind":"WorkspaceRole"`, `"iam.kubesphere.io/role-template":"true"`, `"kubesphere.io/alias-name":"Name of workspace-`, `"rules":[{"verbs":["get"]`,
			`"iam.kubesphere.io/role-template-rules":`,
		} {
			if !strings.Contains(body, want) && !strings.Contains(query, "limit=1") {
				t.Errorf("%s: %s lacks %s", query, body, want)
			}
		}
	}
	for _, query := range []string{"", "?label=iam.kubesphere.io/role-template=false", "?label=a=iam.kubesphere.io/role-template", "?name=x"} {
		if rec := w.do(t, http.MethodGet, query, ""); rec.Code != http.StatusOK || len(w.got) != 1 {
			t.Errorf("%s: %d %s", query, rec.Code, rec.Body)
		}
	}
	const templates = "?label=iam.kubesphere.io/role-template=true"
	if rec := w.do(t, http.MethodGet, templates+"&watch=true", ""); rec.Code != http.StatusMethodNotAllowed {
		t.Errorf("a watch: %d %s", rec.Code, rec.Body)
	}
	if rec := w.do(t, http.MethodGet, templates+"&limit=x", ""); rec.Code != http.StatusBadRequest {
		t.Errorf("a wrong limit: %d %s", rec.Code, rec.Body)
	}
	w.denied["list roletemplates.iam.kubesphere.io"] = true
	if rec := w.do(t, http.MethodGet, templates, ""); rec.Code != http.StatusForbidden {
		t.Errorf("without the right to templates: %d %s", rec.Code, rec.Body)
	}
}

func TestTheAnnotationIsWhatTheRoleSays(t *testing.T) {
	const stored = `"metadata":{"annotations":{"iam.kubesphere.io/aggregation-roles":"[\"old\"]"}}`
	for role, want := range map[string]string{
		`{"aggregationRoleTemplates":{"templateNames":["a","b"]},` + stored + `}`: `["a","b"]`,
		`{` + stored + `}`: `["old"]`,
		`{"aggregationRoleTemplates":{"templateNames":[]}}`: "", `{"aggregationRoleTemplates":{"templateNames":null}}`: "", `{}`: "",
	} {
		if got := legacyrole.Names(role); got != want {
			t.Errorf("%s: %q, want %q", role, got, want)
		}
	}
}
