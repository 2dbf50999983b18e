package request_test

import (
	"net/http"
	"testing"

	"kapis.dev/ks-apiserver/pkg/request"
)

func TestAScopeHasTheNamesThatObjectsHave(t *testing.T) {
	for scope, want := range map[request.Scope][2]string{
		request.Global: {"global", "GlobalRole"}, request.Cluster: {"cluster", "ClusterRole"},
		request.Workspace: {"workspace", "WorkspaceRole"}, request.Namespace: {"namespace", "Role"},
	} {
		if got := [2]string{scope.Label(), scope.RoleKind()}; got != want {
			t.Errorf("%d: %q, want %q", scope, got, want)
		}
	}
}

func TestWhatIsAskedIsToldInWords(t *testing.T) {
	for _, tc := range []struct{ claim, method, target, want string }{
		{"AKind", http.MethodPost, "/kapis/apps/v1/namespaces/a/deployments", "create deployments.apps"},
		{"AnObject", http.MethodGet, "/api/v1/namespaces/a/secrets/s", `get secrets "s"`},
		{"ASubresource", http.MethodGet, "/api/v1/namespaces/a/pods/p/log", `get pods/log "p"`},
		{"APath", http.MethodGet, "/metrics", "get /metrics"},
	} {
		t.Run(tc.claim, func(t *testing.T) {
			info, err := request.Parse(newRequest(t, tc.method, tc.target))
			if err != nil {
				t.Fatal(err)
			}
			if got := info.Asked(); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}
