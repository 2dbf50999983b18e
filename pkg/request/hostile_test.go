package request_test

import (
	"net/http"
	"net/url"
	"testing"

	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/tools/hostile"
)

// A path asks for what it names, or is refused: no word is taken for two, for a part of one, or for another.
func TestAPathNamesWhatItSays(t *testing.T) {
	accepted := 0
	for seed := range uint64(3000) {
		g := hostile.New(seed)
		namespace, name, workspace := g.Mixed("n"), g.Mixed("p"), g.Mixed("w")
		in, of, at := url.PathEscape(namespace), url.PathEscape(name), url.PathEscape(workspace)
		for path, want := range map[string]request.Info{
			"/api/v1/namespaces/" + in + "/pods/" + of: {Namespace: namespace, Name: name, Resource: "pods"},
			"/kapis/iam.kubesphere.io/v1beta1/workspaces/" + at + "/workspaceroles/" + of: {
				Workspace: workspace, Name: name, Resource: "workspaceroles",
			},
			"/apis/rbac.authorization.k8s.io/v1/namespaces/" + in + "/" + of + "/x/status": {
				Namespace: namespace, Name: "x", Resource: name, Subresource: "status",
			},
		} {
			u, err := url.ParseRequestURI(path)
			if err != nil {
				t.Fatalf("%q: %v", path, err)
			}
			i, err := request.Parse(&http.Request{Method: http.MethodGet, URL: u})
			if err != nil || namespace == "" || name == "" || workspace == "" {
				continue
			}
			accepted++
			got := request.Info{Namespace: i.Namespace, Workspace: i.Workspace, Name: i.Name, Resource: i.Resource, Subresource: i.Subresource}
			if got != want {
				t.Errorf("%q is read as %+v", path, i)
			}
		}
	}
	if accepted < 1000 {
		t.Errorf("only %d paths were accepted", accepted)
	}
}
