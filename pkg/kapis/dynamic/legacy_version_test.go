package dynamic

import (
	"fmt"
	"strings"
	"testing"

	restful "github.com/emicklei/go-restful/v3"

	"kapis.dev/ks-apiserver/pkg/kapis/dynamic/read"
	"kapis.dev/ks-apiserver/pkg/kapis/kapistest"
	"kapis.dev/ks-apiserver/pkg/resource"
	"kapis.dev/ks-apiserver/pkg/web"
)

func TestOlderVersionsAreAnsweredByTheNewer(t *testing.T) {
	k := &fakeKube{}
	ws := new(restful.WebService).Path("/kapis/iam.kubesphere.io/v1alpha2").Produces(restful.MIME_JSON)
	older := LegacyVersion{Group: "iam.kubesphere.io", Version: "v1alpha2", Now: "v1beta1", Cluster: []string{"users"}}
	MountLegacyVersion(ws, older, &Handler{Handler: &read.Handler{Resources: kapistest.NewService(t)}, Kube: k})
	w := &world{k, kapistest.Container(ws)}
	const users = "/kapis/iam.kubesphere.io/v1alpha2/users"
	if rec := w.do(t, "GET", users, ""); rec.Code != 200 || !strings.Contains(rec.Body.String(), `"apiVersion":"iam.kubesphere.io/v1beta1"`) {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
	if rec := w.do(t, "GET", users+"/none", ""); rec.Code != 404 {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
	for _, body := range []string{
		`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"User","metadata":{"name":"x"}}`,
		`{"apiVersion":"iam.kubesphere.io/v1alpha2","kind":"User","metadata":{"name":"x"}}`,
		"apiVersion: iam.kubesphere.io/v1alpha2\nkind: User\nmetadata: {name: x}",
	} {
		header := "Content-Type: application/json"
		if body[0] != '{' {
			header = "Content-Type: application/yaml"
		}
		if rec := w.do(t, "POST", users, body, header); rec.Code != 200 {
			t.Fatalf("%d %s", rec.Code, rec.Body)
		}
		if s := w.only(t); s.path != "/apis/iam.kubesphere.io/v1beta1/users" ||
			s.body != `{"apiVersion":"iam.kubesphere.io/v1beta1","kind":"User","metadata":{"name":"x"}}` ||
			s.info.APIVersion != "v1beta1" || s.contentType != typeJSON {
			t.Errorf("sent %+v", s)
		}
	}
	w.do(t, "DELETE", users+"/x", "")
	if s := w.only(t); s.path != "/apis/iam.kubesphere.io/v1beta1/users/x" {
		t.Errorf("sent %+v", s)
	}
	w.refused(t, 400, "kind", "POST", users, `{"kind":"Role","metadata":{"name":"x"}}`, "Content-Type: application/json")
	w.refused(t, 400, "", "POST", users, `[]`, "Content-Type: application/json")
}

func TestAWorkspaceListsWhatItsNamespacesHave(t *testing.T) {
	object := func(kind, namespace, name, workspace string) string {
		return fmt.Sprintf(
			`{"apiVersion":"v1","kind":%q,"metadata":{"namespace":%q,"name":%q,"resourceVersion":"5","labels":{"kubesphere.io/workspace":%q}}}`,
			kind,
			namespace,
			name,
			workspace,
		)
	}
	st := kapistest.NewAccounts(t, map[string][]any{
		"/api/v1/namespaces": {object("Namespace", "", "a", "w"), object("Namespace", "", "b", "other")},
		"/apis/iam.kubesphere.io/v1beta1/rolebindings": {
			object("RoleBinding", "a", "here", ""), object("RoleBinding", "b", "elsewhere", "w"), // a label of its own moves it nowhere (S7)
		},
	})
	ws := new(restful.WebService).Path("/kapis/iam.kubesphere.io/v1alpha2").Produces(restful.MIME_JSON)
	older := LegacyVersion{Group: "iam.kubesphere.io", Version: "v1alpha2", Now: "v1beta1"}
	h := &Handler{Handler: &read.Handler{Resources: resource.New(st, resource.Options{})}, Kube: &fakeKube{}}
	ws.Route(ws.GET("/workspaces/{workspace}/rolebindings").To(web.Handle(older.Renew(h, h.List))).Operation("list"))
	w := &world{&fakeKube{}, kapistest.Container(ws)}
	rec := w.do(t, "GET", "/kapis/iam.kubesphere.io/v1alpha2/workspaces/w/rolebindings", "")
	if body := rec.Body.String(); rec.Code != 200 || !strings.Contains(body, `"here"`) || strings.Contains(body, "elsewhere") ||
		!strings.Contains(body, `"totalItems":1`) {
		t.Errorf("%d %s", rec.Code, body)
	}
	if rec := w.do(t, "POST", "/kapis/iam.kubesphere.io/v1alpha2/workspaces/w/rolebindings", "{}"); rec.Code != 405 {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
}
