package request

import (
	"net/http"
	"net/url"
	"testing"

	"kapis.dev/ks-apiserver/tools/hostile"
)

// What a path names is what is asked for, or the path is refused: no word is taken for two, for a part of one, or for another.
func TestAPathNamesWhatItSays(t *testing.T) {
	accepted := 0
	for seed := range uint64(3000) {
		g := hostile.New(seed)
		namespace, name, workspace := g.Mixed("n"), g.Mixed("p"), g.Mixed("w")
		for path, want := range map[string]Info{
			"/api/v1/namespaces/" + url.PathEscape(namespace) + "/pods/" + url.PathEscape(name):                                          {Namespace: namespace, Name: name, Resource: "pods"},
			"/kapis/iam.kubesphere.io/v1beta1/workspaces/" + url.PathEscape(workspace) + "/workspaceroles/" + url.PathEscape(name):       {Workspace: workspace, Name: name, Resource: "workspaceroles"},
			"/apis/rbac.authorization.k8s.io/v1/namespaces/" + url.PathEscape(namespace) + "/" + url.PathEscape(name) + "/x/" + "status": {Namespace: namespace, Name: "x", Resource: name, Subresource: "status"},
		} {
			u, err := url.ParseRequestURI(path)
			if err != nil {
				t.Fatalf("%q: %v", path, err)
			}
			i, err := Parse(&http.Request{Method: http.MethodGet, URL: u})
			if err != nil || namespace == "" || name == "" || workspace == "" {
				continue
			}
			accepted++
			if i.Namespace != want.Namespace || i.Workspace != want.Workspace || i.Name != want.Name || i.Resource != want.Resource || i.Subresource != want.Subresource {
				t.Errorf("%q is read as %+v", path, i)
			}
		}
	}
	if accepted < 1000 {
		t.Errorf("only %d paths were accepted", accepted)
	}
}
