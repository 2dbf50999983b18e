// Package kapistest has a small cluster, and a way to send requests through the routes, for tests of the routes.
package kapistest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/resource"
	"kapis.dev/ks-apiserver/pkg/router"
	"kapis.dev/ks-apiserver/pkg/store/storetest"

	restful "github.com/emicklei/go-restful/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
)

// kinds are pods, namespaces, workspaces, users, and one kind that can't be watched.
var kinds = storetest.Kinds{
	{Version: "v1"}: append(append(storetest.Namespaced("pods Pod", "pods/log Pod"), storetest.Cluster("namespaces Namespace")...),
		metav1.APIResource{Name: "bindings", Kind: "Binding", Namespaced: true}),
	{Group: "tenant.kubesphere.io", Version: "v1beta1"}: storetest.Cluster("workspaces Workspace"),
	{Group: "iam.kubesphere.io", Version: "v1beta1"}:    storetest.Cluster("users User"),
}

func meta(kind, namespace, name string) string {
	return fmt.Sprintf(`{"kind":%q,"apiVersion":"v1","metadata":{"name":%q,"namespace":%q,"uid":%q,"resourceVersion":"5",`+
		`"labels":{"kubesphere.io/workspace":"w-%s"}}}`, kind, name, namespace, name, name)
}

// objects are what the cluster holds, by the path of their kind.
var objects = map[string][]string{
	"/api/v1/pods":       {meta("Pod", "a", "p1"), meta("Pod", "a", "p2"), meta("Pod", "b", "p3")},
	"/api/v1/namespaces": {meta("Namespace", "", "a"), meta("Namespace", "", "b")},
	"/apis/tenant.kubesphere.io/v1beta1/workspaces": {meta("Workspace", "", "w")},
}

// NewService returns a service whose cluster holds three pods in two namespaces, and a workspace. It lives as long as the test.
func NewService(t *testing.T) *resource.Service {
	t.Helper()
	return resource.New(NewStoreOf(t, kinds, objects), resource.Options{})
}

// Serve answers a request as the server would: parsed by package request, then routed.
func Serve(t *testing.T, c *restful.Container, method, path string) *httptest.ResponseRecorder {
	t.Helper()
	r, rec := httptest.NewRequestWithContext(t.Context(), method, path, nil), httptest.NewRecorder()
	info, err := request.Parse(r)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	c.ServeHTTP(rec, r.WithContext(request.WithInfo(r.Context(), info)))
	return rec
}

// Send answers a request of the user bob that the filters have allowed. Headers are "Name: value".
func Send(t *testing.T, c *restful.Container, method, path, body string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	r, rec := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body)), httptest.NewRecorder()
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	info, err := request.Parse(r)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	ctx := request.WithUser(request.WithInfo(r.Context(), info), &user.DefaultInfo{Name: "bob"})
	c.ServeHTTP(rec, r.WithContext(authz.WithDecision(ctx, authz.Allow("", ""))))
	return rec
}

// Container returns the routes of services, as the server serves them; a request without a decision is allowed.
func Container(services ...*restful.WebService) *restful.Container {
	c, err := router.NewContainer(services)
	if err != nil {
		panic(err)
	}
	selector, err := router.New(services)
	if err != nil {
		panic(err)
	}
	c.Router(allowing{selector})
	return c
}

// allowing selects the routes of requests without a decision as if they were allowed.
type allowing struct{ *router.Selector }

// SelectRoute implements restful.RouteSelector.
func (a allowing) SelectRoute(all []*restful.WebService, r *http.Request) (*restful.WebService, *restful.Route, error) {
	if r.Context().Value(authz.DecisionKey{}) == nil {
		r = r.WithContext(authz.WithDecision(r.Context(), authz.Allow("", "")))
	}
	return a.Selector.SelectRoute(all, r)
}
