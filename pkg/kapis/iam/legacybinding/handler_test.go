package legacybinding_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	restful "github.com/emicklei/go-restful/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/binding"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/legacybinding"
	"kapis.dev/ks-apiserver/pkg/kapis/kapistest"
	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/pkg/web"
)

const root = "/kapis/iam.kubesphere.io/v1beta1/workspaces/w"

// world is the routes over a handler of today, which notes what it gets and refuses what refuse says.
type world struct {
	container *restful.Container
	tried     []string
	written   []string
	refuse    func(dryRun bool, body string) error
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{refuse: func(bool, string) error { return nil }}
	today := func(r *restful.Request) (any, error) {
		raw, err := io.ReadAll(r.Request.Body)
		if err != nil {
			return nil, err
		}
		dry := r.Request.URL.Query().Get("dryRun") == "All"
		if err := w.refuse(dry, string(raw)); err != nil {
			return nil, err
		}
		if dry {
			w.tried = append(w.tried, string(raw))
		} else {
			w.written = append(w.written, string(raw))
		}
		return json.RawMessage(raw), nil
	}
	users := iam.NewUserIndex()
	for _, name := range []string{"alice", "bob"} {
		users.Set(&store.Object{Name: name, Raw: []byte(`{"metadata":{"name":"` + name + `","uid":"` + name + `"}}`)})
	}
	group := func(name, workspace string) string {
		return fmt.Sprintf(`{"apiVersion":"iam.kubesphere.io/v1beta1","kind":"Group","metadata":{"name":"%s-x1","generateName":%q,"resourceVersion":"5",
			"labels":{"kubesphere.io/workspace":%q}}}`, name, name, workspace)
	}
	st := kapistest.NewAccounts(t, map[string][]any{"/apis/iam.kubesphere.io/v1beta1/groups": {group("devs", "w"), group("ops", "other")}})
	h := &legacybinding.Handler{Users: users, Caches: st}
	ws := new(restful.WebService).Path("/kapis/iam.kubesphere.io/v1beta1").Produces(restful.MIME_JSON)
	const in = "/workspaces/{workspace}"
	ws.Route(ws.POST(in + "/workspacerolebindings").To(web.Handle(h.CreateBindings(&binding.Workspace, today))).Operation("a"))
	ws.Route(ws.POST(in + "/groupbindings").To(web.Handle(h.CreateGroupBindings(today))).Operation("b"))
	ws.Route(ws.POST(in + "/groups").To(web.Handle(h.CreateGroup(today))).Operation("c"))
	list := func(*restful.Request) (any, error) {
		return map[string]any{"totalItems": 2, "items": []string{"one", "two"}}, nil
	}
	ws.Route(ws.GET(in+"/rolebindings").To(web.Handle(legacybinding.Array(list))).Operation("d").Metadata(web.MetadataWatch, true))
	w.container = kapistest.Container(ws)
	return w
}

func (w *world) do(t *testing.T, method, path, body string) *httptest.ResponseRecorder {
	t.Helper()
	w.tried, w.written = nil, nil
	return kapistest.Send(t, w.container, method, root+path, body, "Content-Type: application/json")
}

// O26: arrays of bindings, in the present form, all of them tried before the first is written.
func TestSeveralBindingsAreTriedBeforeOneIsWritten(t *testing.T) {
	w := newWorld(t)
	const bindings = "/workspacerolebindings"
	body := `[{"apiVersion":"iam.kubesphere.io/v1alpha2","kind":"WorkspaceRoleBinding","metadata":{},
		"subjects":[{"kind":"Group","name":"devs-x1","apiGroup":"rbac.authorization.k8s.io"}],"roleRef":{"kind":"WorkspaceRole","name":"w-viewer"}},
		{"metadata":{"name":"mine"},"subjects":[{"kind":"User","name":"alice"}],"roleRef":{"apiGroup":"rbac.authorization.k8s.io","name":"w-admin"}}]`
	rec := w.do(t, http.MethodPost, bindings, body)
	if rec.Code != http.StatusOK || len(w.tried) != 2 || len(w.written) != 2 || rec.Body.String() != "["+strings.Join(w.written, ",")+"]" {
		t.Fatalf("%d %s; tried %v, written %v", rec.Code, rec.Body, w.tried, w.written)
	}
	for i, want := range [][]string{
		{`"apiVersion":"iam.kubesphere.io/v1beta1"`, `"generateName":"devs-x1-w-viewer-"`, `"iam.kubesphere.io/group-ref":"devs-x1"`,
			`"iam.kubesphere.io/role-ref":"w-viewer"`},
		{`"name":"mine"`, `"iam.kubesphere.io/user-ref":"alice"`, `"roleRef":{"apiGroup":"iam.kubesphere.io","kind":"WorkspaceRole","name":"w-admin"}`},
	} {
		for _, text := range want {
			if !strings.Contains(w.written[i], text) {
				t.Errorf("%s lacks %s", w.written[i], text)
			}
		}
	}
	if rec := w.do(t, http.MethodPost, bindings+"?dryRun=All", body); rec.Code != http.StatusOK || len(w.tried) != 2 || w.written != nil {
		t.Errorf("a dry run: %d %s; written %v", rec.Code, rec.Body, w.written)
	}
	if rec := w.do(t, http.MethodPost, bindings, `{"metadata":{"name":"x"}}`); rec.Code != http.StatusOK || len(w.written) != 1 || w.tried != nil {
		t.Errorf("one object: %d %s %v", rec.Code, rec.Body, w.written)
	}
	w.refuse = func(dry bool, body string) error {
		if dry && strings.Contains(body, "w-admin") {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "workspacerolebindings"}, "mine", nil)
		}
		return nil
	}
	if rec := w.do(t, http.MethodPost, bindings, body); rec.Code != http.StatusForbidden || w.written != nil ||
		!strings.Contains(rec.Body.String(), `"field":"[1]"`) ||
		!strings.Contains(rec.Body.String(), "nothing was written") {
		t.Errorf("one is refused: %d %s; written %v", rec.Code, rec.Body, w.written)
	}
	w.refuse = func(dry bool, body string) error {
		if !dry && strings.Contains(body, "w-admin") {
			return apierrors.NewConflict(schema.GroupResource{Resource: "workspacerolebindings"}, "mine", nil)
		}
		return nil
	}
	if rec := w.do(t, http.MethodPost, bindings, body); rec.Code != http.StatusConflict || !strings.Contains(rec.Body.String(), "1 of 2 were written") {
		t.Errorf("one fails: %d %s", rec.Code, rec.Body)
	}
	for _, body := range []string{`[]`, `[1]`, `[{}]`, `[{"subjects":[{"kind":"User","name":"a"}],"roleRef":{"kind":"ClusterRole","name":"b"}}]`,
		`[{"subjects":[{"kind":"User"}],"roleRef":{"name":"b"}}]`, `[`} {
		if rec := w.do(t, http.MethodPost, bindings, body); rec.Code != http.StatusBadRequest || w.tried != nil || w.written != nil {
			t.Errorf("%s: %d %s", body, rec.Code, rec.Body)
		}
	}
	if rec := w.do(t, http.MethodPost, bindings, "["+strings.TrimSuffix(strings.Repeat("{},", 501), ",")+"]"); rec.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("501 bindings: %d", rec.Code)
	}
}

func TestMembersOfGroupsAreUsersAndGroupsOfTheWorkspace(t *testing.T) { // O26
	w := newWorld(t)
	rec := w.do(t, http.MethodPost, "/groupbindings", `[{"userName":"alice","groupName":"devs-x1"},{"userName":"bob","groupName":"devs-x1"}]`)
	if rec.Code != http.StatusOK || len(w.written) != 2 ||
		!strings.Contains(w.written[1], `"groupRef":{"apiGroup":"iam.kubesphere.io","kind":"Group","name":"devs-x1"},"users":["bob"]`) ||
		!strings.Contains(w.written[0], `"iam.kubesphere.io/user-ref":"alice"`) || !strings.Contains(w.written[0], `"generateName":"alice-devs-x1-"`) {
		t.Errorf("%d %s %v", rec.Code, rec.Body, w.written)
	}
	for body, code := range map[string]int{
		`[{"userName":"alice","groupName":"devs-x1"},{"userName":"nobody","groupName":"devs-x1"}]`: http.StatusNotFound,
		`[{"userName":"alice","groupName":"ops-x1"}]`:                                              http.StatusNotFound, // of another workspace
		`[{"userName":"alice","groupName":"none"}]`:                                                http.StatusNotFound,
		`[{"userName":"alice"}]`:                                                                   http.StatusBadRequest,
	} {
		if rec := w.do(t, http.MethodPost, "/groupbindings", body); rec.Code != code || w.tried != nil || w.written != nil {
			t.Errorf("%s: %d %s", body, rec.Code, rec.Body)
		}
	}
	if rec := w.do(t, http.MethodPost, "/groupbindings", `[{"groupRef":{"name":"devs-x1"},"users":["a"]}]`); rec.Code != http.StatusOK || len(w.written) != 1 ||
		!strings.Contains(w.written[0], `"kind":"GroupBinding"`) {
		t.Errorf("a whole one: %d %s", rec.Code, rec.Body)
	}
}

func TestAGroupIsNamedOnceInAWorkspace(t *testing.T) { // O26
	w := newWorld(t)
	for body, code := range map[string]int{
		`{"metadata":{"generateName":"devs"}}`:            http.StatusConflict,
		`{"metadata":{"generateName":"ops"}}`:             http.StatusOK, // it is another workspace's
		`{"metadata":{"name":"x","generateName":"devs"}}`: http.StatusOK, // it is called x
		`{"metadata":{"name":"devs"}}`:                    http.StatusOK,
	} {
		if rec := w.do(t, http.MethodPost, "/groups", body); rec.Code != code || (code == http.StatusOK) != (len(w.written) == 1) {
			t.Errorf("%s: %d %s", body, rec.Code, rec.Body)
		}
	}
}

func TestAListIsABareArray(t *testing.T) { // O26
	w := newWorld(t)
	if rec := w.do(t, http.MethodGet, "/rolebindings?limit=2", ""); rec.Code != http.StatusOK || rec.Body.String() != `["one","two"]` {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
	if rec := w.do(t, http.MethodGet, "/rolebindings?watch=true", ""); !strings.Contains(rec.Body.String(), "totalItems") {
		t.Errorf("a watch is not today's: %d %s", rec.Code, rec.Body)
	}
}
