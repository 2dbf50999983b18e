package request

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestARouteReadsWhatWasAuthorizedOrNothing(t *testing.T) { // S2
	const group = "/kapis/{group}/{version}"
	for claim, c := range map[string]struct {
		route, request string
		reads          bool
	}{
		"AList":                       {"GET " + group + "/{resources}", "GET /kapis/apps/v1/deployments", true},
		"AWatch":                      {"GET " + group + "/{resources}", "GET /kapis/apps/v1/deployments?watch=true", true},
		"OneIsNoList":                 {"GET " + group + "/{resources}", "GET /kapis/apps/v1/deployments/a", false},
		"ARightToOneIsNoneToAll":      {"GET /kapi/{version}/watch/{resources}", "GET /kapi/v1/watch/pods/p", false},
		"AWatchByItsPath":             {"GET /kapi/{version}/watch/{resources}", "GET /kapi/v1/watch/pods", true},
		"AWatchOfOne":                 {"GET /kapi/{version}/watch/{resources}/{name}", "GET /kapi/v1/watch/pods/p", true},
		"AWatchIsNoObject":            {"GET /kapi/{version}/{resources}/{name}", "GET /kapi/v1/watch/pods", false},
		"One":                         {"GET /kapi/{version}/namespaces/{namespace}/{resources}/{name}", "GET /kapi/v1/namespaces/a/pods/p", true},
		"TheNamespaceItself":          {"GET /kapi/{version}/{resources}/{name}", "GET /kapi/v1/namespaces/a", true},
		"TheWorkspaceItself":          {"GET " + group + "/{resources}/{name}", "GET /kapis/tenant.kubesphere.io/v1beta1/workspaces/w", true},
		"TheWorkspaceOfItsPath":       {"GET /kapis/tenant.kubesphere.io/v1beta1/workspaces/{workspace}", "GET /kapis/tenant.kubesphere.io/v1beta1/workspaces/w", true},
		"AKindIsNoStatus":             {"GET " + group + "/namespaces/{namespace}/{resources}", "GET /kapis/apps/v1/namespaces/a/status", false},
		"AStatusIsNoKind":             {"PUT " + group + "/{resources}/{name}/{subresource}", "PUT /kapis/apps/v1/namespaces/a/status", true},
		"NoWorkspaceAsAKind":          {"PUT " + group + "/{resources}/{name}/{subresource}", "PUT /kapis/apps/v1/workspaces/w/deployments", false},
		"NoNamespaceAsAKind":          {"PUT " + group + "/{resources}/{name}/{subresource}", "PUT /kapis/apps/v1/namespaces/a/deployments", false},
		"ASubresource":                {"PUT " + group + "/{resources}/{name}/{subresource}", "PUT /kapis/apps/v1/deployments/a/scale", true},
		"AFixedSubresource":           {"GET /kapis/g/v1/users/{user}/kubeconfig", "GET /kapis/g/v1/users/u/kubeconfig", true},
		"AnotherSubresource":          {"GET /kapis/g/v1/users/{user}/kubeconfig", "GET /kapis/g/v1/users/u/keys", false},
		"WithinASubresource":          {"DELETE /kapis/g/v1/users/{user}/keys/{name}", "DELETE /kapis/g/v1/users/u/keys/k", true},
		"AnotherVerb":                 {"POST /kapis/g/v1/users/{user}", "PUT /kapis/g/v1/users/u", false},
		"AHeadIsAGet":                 {"GET /kapis/g/v1/users/{user}", "HEAD /kapis/g/v1/users/u", true},
		"ManyAreNotOne":               {"DELETE /kapis/g/v1/users", "DELETE /kapis/g/v1/users/u", false},
		"Many":                        {"DELETE /kapis/g/v1/users", "DELETE /kapis/g/v1/users", true},
		"AnotherGroup":                {"GET /kapis/g/v1/users", "GET /kapis/h/v1/users", false},
		"AnotherVersion":              {"GET /kapis/g/v1/users", "GET /kapis/g/v2/users", false},
		"AnotherKind":                 {"GET /kapis/g/v1/users", "GET /kapis/g/v1/groups", false},
		"KubernetesOwn":               {"GET " + group + "/{resources}", "GET /apis/apps/v1/deployments", false},
		"NoResource":                  {"GET /version", "GET /version", true},
		"NoResourceForAResource":      {"GET /{a}/{b}/{c}/{d}", "GET /kapis/apps/v1/deployments", false},
		"AResourceForNoResource":      {"GET " + group + "/{resources}", "GET /oauth/authorize", false},
		"AnyEndOfAPathThatIsNoObject": {"GET /dist/{rest:*}", "GET /dist/a/b", true},
	} {
		t.Run(claim, func(t *testing.T) {
			p, err := ParsePattern(cutMethod(c.route))
			if err != nil {
				t.Fatal(err)
			}
			method, target := cutMethod(c.request)
			i, err := Parse(httptest.NewRequest(method, target, nil))
			if err != nil {
				t.Fatal(err)
			}
			if got := p.Reads(i, i.Path) && p.HasVerb(i.Verb); got != c.reads {
				t.Errorf("got %v, want %v: %+v", got, c.reads, i)
			}
		})
	}
	p, err := ParsePattern(http.MethodGet, "/kapi/{version}/namespaces/{namespace}/{resources}/{name}")
	if err != nil {
		t.Fatal(err)
	}
	i, err := Parse(httptest.NewRequest(http.MethodGet, "/kapi/v1/namespaces/a/pods/p", nil))
	if err != nil {
		t.Fatal(err)
	}
	if p.Reads(nil, i.Path) {
		t.Error("what was not authorized is read")
	}
	for _, path := range []string{
		"/kapi/v2/namespaces/a/pods/p", "/kapi/v1/namespaces/b/pods/p", "/kapi/v1/namespaces/a/secrets/p", "/kapi/v1/namespaces/a/pods/q",
		"/kapi/v1/namespaces/a/pods", "/kapi/v1/namespaces/a/pods/", "/", "",
	} {
		if p.Reads(i, path) {
			t.Errorf("%q is read as %+v", path, i)
		}
	}
	if n := testing.AllocsPerRun(100, func() { p.Reads(i, i.Path) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func cutMethod(s string) (method, path string) {
	for n := range len(s) {
		if s[n] == ' ' {
			return s[:n], s[n+1:]
		}
	}
	return "", s
}

func TestRoutesWithParametersThatNothingAuthorizesAreRefused(t *testing.T) {
	for _, route := range []string{
		"GET kapis/apps/v1/deployments", "GET /clusters/{cluster}/kapis/apps/v1/deployments", "GET /clusters/a/version",
		"GET /kapis/clusters/{cluster}/apps/v1/deployments", "GET /kapis/{group}/{version}/proxy/{resources}/{name}/{rest}",
		"GET /kapis/apps/v1/{name}/{name}", "GET /kapis/apps/v1/deployments/{rest:*}", "GET /kapis/apps/v1/deployments/{name}/files/{rest:*}",
		"OPTIONS /kapis/apps/v1/deployments", "POST /kapis/apps/v1/watch/{resources}", "GET /kapis/apps/v1/watch",
		"GET /kapis/apps/v1/workspaces/{workspace}/workspaces/{name}",
	} {
		if _, err := ParsePattern(cutMethod(route)); err == nil {
			t.Errorf("%s is taken", route)
		}
	}
}

func TestARouteReadsOnlyTheInfoOfItsPath(t *testing.T) { // S2
	const (
		all         = "/kapi/{version}/{resources}"
		one         = all + "/{name}"
		inNamespace = "/kapi/{version}/namespaces/{namespace}/{resources}"
		inWorkspace = "/kapi/{version}/workspaces/{workspace}/{resources}"
	)
	for claim, c := range map[string]struct {
		route, path string
		info        *Info
		reads       bool
	}{
		"List":                          {inNamespace, "/kapi/v1/namespaces/a/pods", &Info{Resource: "pods", Namespace: "a"}, true},
		"Get":                           {inNamespace + "/{name}", "/kapi/v1/namespaces/a/pods/p", &Info{Verb: "get", Resource: "pods", Namespace: "a", Name: "p"}, true},
		"TheNamespaceItself":            {one, "/kapi/v1/namespaces/a", &Info{Verb: "get", Resource: "namespaces", Namespace: "a", Name: "a"}, true},
		"TheWorkspaceItself":            {one, "/kapi/v1/workspaces/w", &Info{Verb: "get", Resource: "workspaces", Workspace: "w", Name: "w"}, true},
		"ANamespaceOfAnotherName":       {one, "/kapi/v1/namespaces/a", &Info{Verb: "get", Resource: "namespaces", Namespace: "b", Name: "a"}, false},
		"AWorkspaceOfAnotherName":       {one, "/kapi/v1/workspaces/w", &Info{Verb: "get", Resource: "workspaces", Workspace: "v", Name: "w"}, false},
		"NothingParsed":                 {all, "/kapi/v1/pods", nil, false},
		"OtherNamespace":                {inNamespace, "/kapi/v1/namespaces/b/pods", &Info{Resource: "pods", Namespace: "a"}, false},
		"AllNamespacesForOne":           {all, "/kapi/v1/pods", &Info{Resource: "pods", Namespace: "a"}, false},
		"AllNamespacesForAWatchOfOne":   {all, "/kapi/v1/pods", &Info{Verb: "watch", Resource: "pods", Namespace: "a"}, false},
		"OneNamespaceForAll":            {inNamespace, "/kapi/v1/namespaces/a/pods", &Info{Resource: "pods"}, false},
		"AllWorkspacesForOne":           {all, "/kapi/v1/pods", &Info{Resource: "pods", Workspace: "w"}, false},
		"OtherWorkspace":                {inWorkspace, "/kapi/v1/workspaces/v/pods", &Info{Resource: "pods", Workspace: "w"}, false},
		"OtherName":                     {one, "/kapi/v1/pods/q", &Info{Verb: "get", Resource: "pods", Name: "p"}, false},
		"OtherNameOfAWatch":             {"/kapi/{version}/watch/{resources}/{name}", "/kapi/v1/watch/pods/q", &Info{Verb: "watch", Resource: "pods", Name: "p"}, false},
		"ListForOneName":                {all, "/kapi/v1/pods", &Info{Resource: "pods", Name: "p"}, false},
		"OneForAList":                   {one, "/kapi/v1/pods/p", &Info{Resource: "pods"}, false},
		"ARightToWatchIsNoneToGet":      {one, "/kapi/v1/pods/p", &Info{Verb: "watch", Resource: "pods", Name: "p"}, false},
		"ARightToReadIsNoneToWatch":     {"/kapi/{version}/watch/{resources}", "/kapi/v1/watch/pods", &Info{Resource: "pods"}, false},
		"OtherResource":                 {all, "/kapi/v1/secrets", &Info{Resource: "pods"}, false},
		"Subresource":                   {one, "/kapi/v1/pods/p", &Info{Verb: "get", Resource: "pods", Name: "p", Subresource: "log"}, false},
		"OtherVersion":                  {all, "/kapi/v2/pods", &Info{Resource: "pods"}, false},
		"OtherGroup":                    {all, "/kapi/v1/pods", &Info{Resource: "pods", APIGroup: "apps"}, false},
		"AWordMoreThanWasAuthorized":    {inNamespace, "/kapi/v1/namespaces/a/pods/p", &Info{Resource: "pods", Namespace: "a", Name: "p"}, false},
		"AParameterThatThePathHasNotAt": {one, "/kapi/v1/pods", &Info{Verb: "get", Resource: "pods"}, false},
	} {
		t.Run(claim, func(t *testing.T) {
			p, err := ParsePattern(http.MethodGet, c.route)
			if err != nil {
				t.Fatal(err)
			}
			if i := c.info; i != nil {
				i.IsResource, i.APIPrefix, i.APIVersion = true, "kapi", "v1"
				if i.Verb == "" {
					i.Verb = "list"
				}
			}
			if got := p.Reads(c.info, c.path) && p.HasVerb(c.info.Verb); got != c.reads {
				t.Errorf("got %v, want %v", got, c.reads)
			}
		})
	}
}
