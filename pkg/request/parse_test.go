package request_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kapis.dev/ks-apiserver/pkg/request"
)

// newRequest returns the request that a server makes of a request line.
func newRequest(t testing.TB, method, target string) *http.Request {
	t.Helper()
	u, err := url.ParseRequestURI(target)
	if err != nil {
		t.Fatalf("the target %q would not reach a handler: %v", target, err)
	}
	return &http.Request{Method: method, URL: u, Host: u.Host, RequestURI: target}
}

func TestParse(t *testing.T) {
	const kapis = "/kapis/iam.kubesphere.io/v1beta1"
	for _, c := range []struct {
		claim, method, target string
		want                  request.Info
	}{
		{"RootIsAPath", "GET", "/", request.Info{Verb: "get", Path: "/", Scope: request.Cluster}},
		{"AbsoluteTargetIsItsPath", "GET", "http://ks.example/version", request.Info{Verb: "get", Path: "/version", Scope: request.Cluster}},
		{"AbsoluteTargetWithoutPathIsRoot", "GET", "http://ks.example", request.Info{Verb: "get", Path: "/", Scope: request.Cluster}},
		{"OtherPathHasTheMethodForVerb", "POST", "/oauth/token", request.Info{Verb: "post", Path: "/oauth/token", Scope: request.Cluster}},
		{"OptionsOnOtherPath", "OPTIONS", "/oauth/token", request.Info{Verb: "options", Path: "/oauth/token", Scope: request.Cluster}},
		{"TrailingSlashIsCutAway", "GET", "/version/", request.Info{Verb: "get", Path: "/version", Scope: request.Cluster}},
		{"DiscoveryIsNoResource", "GET", "/apis/apps/v1", request.Info{Verb: "get", Path: "/apis/apps/v1", IsKubernetes: true, Scope: request.Cluster}},
		{"PrefixInAnotherCaseIsAnotherPath", "GET", "/Api/v1/pods", request.Info{Verb: "get", Path: "/Api/v1/pods", Scope: request.Cluster}},
		{"ListInACoreNamespace", "GET", "/api/v1/namespaces/a/pods", request.Info{
			Verb: "list", Path: "/api/v1/namespaces/a/pods", Namespace: "a", APIPrefix: "api", APIVersion: "v1",
			Resource: "pods", IsResource: true, IsKubernetes: true, Scope: request.Namespace,
		}},
		{"TrailingSlashOfAKubernetesPathIsCutAway", "GET", "/api/v1/nodes/n1/", request.Info{
			Verb: "get", Path: "/api/v1/nodes/n1", APIPrefix: "api", APIVersion: "v1",
			Resource: "nodes", Name: "n1", IsResource: true, IsKubernetes: true, Scope: request.Cluster,
		}},
		{"TrailingSlashOfAProxiedTargetStays", "GET", "/api/v1/nodes/n1/proxy/", request.Info{
			Verb: "get", Path: "/api/v1/nodes/n1/proxy/", APIPrefix: "api", APIVersion: "v1",
			Resource: "nodes", Name: "n1", Subresource: "proxy", IsResource: true, IsKubernetes: true, Scope: request.Cluster,
		}},
		{"TailOfAProxiedTargetStays", "PUT", "/api/v1/namespaces/a/services/https:s:443/proxy/x%20y/z", request.Info{
			Verb: "update", Path: "/api/v1/namespaces/a/services/https:s:443/proxy/x y/z", APIPrefix: "api", APIVersion: "v1",
			Namespace: "a", Resource: "services", Name: "https:s:443", Subresource: "proxy",
			IsResource: true, IsKubernetes: true, Scope: request.Namespace,
		}},
		{"NamespaceStatusIsASubresource", "PUT", "/api/v1/namespaces/a/status", request.Info{
			Verb: "update", Path: "/api/v1/namespaces/a/status", Namespace: "a", APIPrefix: "api", APIVersion: "v1",
			Resource: "namespaces", Name: "a", Subresource: "status", IsResource: true, IsKubernetes: true, Scope: request.Namespace,
		}},
		{"DeleteWithoutANameIsACollection", "DELETE", "/apis/apps/v1/namespaces/a/deployments", request.Info{
			Verb: "deletecollection", Path: "/apis/apps/v1/namespaces/a/deployments", Namespace: "a",
			APIPrefix: "apis", APIGroup: "apps", APIVersion: "v1", Resource: "deployments",
			IsResource: true, IsKubernetes: true, Scope: request.Namespace,
		}},
		{"HeadIsLikeGet", "HEAD", "/api/v1/pods", request.Info{
			Verb: "list", Path: "/api/v1/pods", APIPrefix: "api", APIVersion: "v1", Resource: "pods",
			IsResource: true, IsKubernetes: true, Scope: request.Cluster,
		}},
		{"WatchByParameter", "GET", "/api/v1/pods?watch=true", request.Info{
			Verb: "watch", Path: "/api/v1/pods", APIPrefix: "api", APIVersion: "v1", Resource: "pods",
			IsResource: true, IsKubernetes: true, Scope: request.Cluster,
		}},
		{"WatchByAnEncodedParameter", "GET", "/api/v1/pods?w%61tch=1", request.Info{
			Verb: "watch", Path: "/api/v1/pods", APIPrefix: "api", APIVersion: "v1", Resource: "pods",
			IsResource: true, IsKubernetes: true, Scope: request.Cluster,
		}},
		{"WatchFalseIsAList", "GET", "/api/v1/pods?watch=false&watch=false", request.Info{
			Verb: "list", Path: "/api/v1/pods", APIPrefix: "api", APIVersion: "v1", Resource: "pods",
			IsResource: true, IsKubernetes: true, Scope: request.Cluster,
		}},
		{"WatchByPath", "GET", "/apis/apps/v1/watch/namespaces/a/deployments/d", request.Info{
			Verb: "watch", Path: "/apis/apps/v1/watch/namespaces/a/deployments/d", Namespace: "a",
			APIPrefix: "apis", APIGroup: "apps", APIVersion: "v1", Resource: "deployments", Name: "d",
			IsResource: true, IsKubernetes: true, Scope: request.Namespace,
		}},
		{"ProxyByPathHasNoSubresource", "POST", "/api/v1/proxy/namespaces/a/pods/p/x/", request.Info{
			Verb: "proxy", Path: "/api/v1/proxy/namespaces/a/pods/p/x/", Namespace: "a",
			APIPrefix: "api", APIVersion: "v1", Resource: "pods", Name: "p",
			IsResource: true, IsKubernetes: true, Scope: request.Namespace,
		}},
		{"FieldSelectorNamesWhatIsWatched_S2", "GET", "/api/v1/namespaces/b/secrets?watch=true&fieldSelector=metadata.name%3Db", request.Info{
			Verb: "watch", Path: "/api/v1/namespaces/b/secrets", Namespace: "b", APIPrefix: "api", APIVersion: "v1",
			Resource: "secrets", Name: "b", IsResource: true, IsKubernetes: true, Scope: request.Namespace,
		}},
		{"FieldSelectorOfUsNamesNothing_S2", "GET", "/kapi/v1/namespaces/b/secrets?fieldSelector=metadata.name=b", request.Info{
			Verb: "list", Path: "/kapi/v1/namespaces/b/secrets", Namespace: "b", APIPrefix: "kapi", APIVersion: "v1",
			Resource: "secrets", IsResource: true, Scope: request.Namespace,
		}},
		{"ClusterPrefixIsCutAway", "GET", "/clusters/host/kapis/tenant.kubesphere.io/v1beta1/workspaces?limit=10", request.Info{
			Verb: "list", Path: "/kapis/tenant.kubesphere.io/v1beta1/workspaces", Cluster: "host", APIPrefix: "kapis",
			APIGroup: "tenant.kubesphere.io", APIVersion: "v1beta1", Resource: "workspaces", IsResource: true, Scope: request.Global,
		}},
		{"OlderClusterFormIsCutAway", "PATCH", "/apis/clusters/m.one/apps/v1/deployments/d/", request.Info{
			Verb: "patch", Path: "/apis/apps/v1/deployments/d", Cluster: "m.one", APIPrefix: "apis",
			APIGroup: "apps", APIVersion: "v1", Resource: "deployments", Name: "d", IsResource: true, IsKubernetes: true, Scope: request.Cluster,
		}},
		{"OlderClusterFormAloneIsDiscovery", "GET", "/apis/clusters/m", request.Info{
			Verb: "get", Path: "/apis", Cluster: "m", IsKubernetes: true, Scope: request.Cluster,
		}},
		{"ClusterAsAResourceIsNotAPrefix", "GET", "/kapis/resources.kubesphere.io/v1alpha3/clusters/host", request.Info{
			Verb: "get", Path: "/kapis/resources.kubesphere.io/v1alpha3/clusters/host", APIPrefix: "kapis",
			APIGroup: "resources.kubesphere.io", APIVersion: "v1alpha3", Resource: "clusters", Name: "host", IsResource: true, Scope: request.Global,
		}},
		{"UsersAreGlobal", "PUT", kapis + "/users/bob/password", request.Info{
			Verb: "update", Path: kapis + "/users/bob/password", APIPrefix: "kapis", APIGroup: "iam.kubesphere.io", APIVersion: "v1beta1",
			Resource: "users", Name: "bob", Subresource: "password", IsResource: true, Scope: request.Global,
		}},
		{"UsersAreGlobalAtKubernetesToo", "GET", "/apis/iam.kubesphere.io/v1beta1/users", request.Info{
			Verb: "list", Path: "/apis/iam.kubesphere.io/v1beta1/users", APIPrefix: "apis", APIGroup: "iam.kubesphere.io",
			APIVersion: "v1beta1", Resource: "users", IsResource: true, IsKubernetes: true, Scope: request.Global,
		}},
		{"WorkspaceStandsBeforeTheResource", "POST", kapis + "/workspaces/w/workspacemembers", request.Info{
			Verb: "create", Path: kapis + "/workspaces/w/workspacemembers", Workspace: "w", APIPrefix: "kapis",
			APIGroup: "iam.kubesphere.io", APIVersion: "v1beta1", Resource: "workspacemembers", IsResource: true, Scope: request.Workspace,
		}},
		{"NamespaceWithinAWorkspace", "GET", "/kapis/tenant.kubesphere.io/v1beta1/workspaces/w/namespaces/n", request.Info{
			Verb: "get", Path: "/kapis/tenant.kubesphere.io/v1beta1/workspaces/w/namespaces/n", Workspace: "w", Namespace: "n",
			APIPrefix: "kapis", APIGroup: "tenant.kubesphere.io", APIVersion: "v1beta1", Resource: "namespaces", Name: "n",
			IsResource: true, Scope: request.Namespace,
		}},
		{"NamespacesOfAWorkspace", "GET", "/kapis/tenant.kubesphere.io/v1beta1/workspaces/w/namespaces", request.Info{
			Verb: "list", Path: "/kapis/tenant.kubesphere.io/v1beta1/workspaces/w/namespaces", Workspace: "w",
			APIPrefix: "kapis", APIGroup: "tenant.kubesphere.io", APIVersion: "v1beta1", Resource: "namespaces",
			IsResource: true, Scope: request.Workspace,
		}},
		{"AWorkspaceIsItsOwn", "PATCH", "/kapis/tenant.kubesphere.io/v1beta1/workspacetemplates/w", request.Info{
			Verb: "patch", Path: "/kapis/tenant.kubesphere.io/v1beta1/workspacetemplates/w", Workspace: "w", APIPrefix: "kapis",
			APIGroup: "tenant.kubesphere.io", APIVersion: "v1beta1", Resource: "workspacetemplates", Name: "w", IsResource: true, Scope: request.Workspace,
		}},
		{"WorkspaceTemplatesAreOfTheCluster", "GET", "/kapis/tenant.kubesphere.io/v1beta1/workspacetemplates", request.Info{
			Verb: "list", Path: "/kapis/tenant.kubesphere.io/v1beta1/workspacetemplates", APIPrefix: "kapis",
			APIGroup: "tenant.kubesphere.io", APIVersion: "v1beta1", Resource: "workspacetemplates", IsResource: true, Scope: request.Cluster,
		}},
		{"AnotherGroupsWorkspaceIsAnObject_S5", "GET", "/kapis/foo.io/v1/workspaces/w", request.Info{
			Verb: "get", Path: "/kapis/foo.io/v1/workspaces/w", APIPrefix: "kapis", APIGroup: "foo.io", APIVersion: "v1",
			Resource: "workspaces", Name: "w", IsResource: true, Scope: request.Cluster,
		}},
		{"WorkspaceMeansNothingToKubernetes", "GET", "/apis/tenant.kubesphere.io/v1beta1/workspaces/w/namespaces", request.Info{
			Verb: "get", Path: "/apis/tenant.kubesphere.io/v1beta1/workspaces/w/namespaces", APIPrefix: "apis",
			APIGroup: "tenant.kubesphere.io", APIVersion: "v1beta1", Resource: "workspaces", Name: "w", Subresource: "namespaces",
			IsResource: true, IsKubernetes: true, Scope: request.Global,
		}},
		{"SelectorOfAWorkspaceWidensNothing", "GET", "/kapi/v1/watch/namespaces?labelSelector=kubesphere.io/workspace%3Dw", request.Info{
			Verb: "watch", Path: "/kapi/v1/watch/namespaces", APIPrefix: "kapi", APIVersion: "v1", Resource: "namespaces",
			IsResource: true, Scope: request.Cluster,
		}},
		{"AWorkspaceIsItsOwnAtKubernetesToo", "PATCH", "/clusters/host/apis/tenant.kubesphere.io/v1beta1/workspaces/w", request.Info{
			Verb: "patch", Path: "/apis/tenant.kubesphere.io/v1beta1/workspaces/w", Cluster: "host", Workspace: "w", APIPrefix: "apis",
			APIGroup: "tenant.kubesphere.io", APIVersion: "v1beta1", Resource: "workspaces", Name: "w", IsResource: true, IsKubernetes: true, Scope: request.Workspace,
		}},
		{"AWorkspaceTemplateIsItsWorkspacesAtKubernetesToo", "DELETE", "/apis/tenant.kubesphere.io/v1beta1/workspacetemplates/w", request.Info{
			Verb: "delete", Path: "/apis/tenant.kubesphere.io/v1beta1/workspacetemplates/w", Workspace: "w", APIPrefix: "apis",
			APIGroup: "tenant.kubesphere.io", APIVersion: "v1beta1", Resource: "workspacetemplates", Name: "w",
			IsResource: true, IsKubernetes: true, Scope: request.Workspace,
		}},
		{"AWatchOfOneWorkspaceIsItsOwn", "GET", "/apis/tenant.kubesphere.io/v1beta1/workspaces?watch=true&fieldSelector=metadata.name=w", request.Info{
			Verb: "watch", Path: "/apis/tenant.kubesphere.io/v1beta1/workspaces", Workspace: "w", APIPrefix: "apis",
			APIGroup: "tenant.kubesphere.io", APIVersion: "v1beta1", Resource: "workspaces", Name: "w", IsResource: true, IsKubernetes: true, Scope: request.Workspace,
		}},
		{"AllWorkspacesAreThePlatforms", "GET", "/apis/tenant.kubesphere.io/v1beta1/workspaces?fieldSelector=metadata.name!=w", request.Info{
			Verb: "list", Path: "/apis/tenant.kubesphere.io/v1beta1/workspaces", APIPrefix: "apis",
			APIGroup: "tenant.kubesphere.io", APIVersion: "v1beta1", Resource: "workspaces", IsResource: true, IsKubernetes: true, Scope: request.Global,
		}},
		{"DeletingAllWorkspacesIsThePlatforms", "DELETE", "/apis/tenant.kubesphere.io/v1beta1/workspaces?fieldSelector=metadata.name=w", request.Info{
			Verb: "deletecollection", Path: "/apis/tenant.kubesphere.io/v1beta1/workspaces", APIPrefix: "apis",
			APIGroup: "tenant.kubesphere.io", APIVersion: "v1beta1", Resource: "workspaces", IsResource: true, IsKubernetes: true, Scope: request.Global,
		}},
		{"MakingAWorkspaceIsThePlatforms", "POST", "/apis/tenant.kubesphere.io/v1beta1/workspaces/w", request.Info{
			Verb: "create", Path: "/apis/tenant.kubesphere.io/v1beta1/workspaces/w", APIPrefix: "apis",
			APIGroup: "tenant.kubesphere.io", APIVersion: "v1beta1", Resource: "workspaces", Name: "w", IsResource: true, IsKubernetes: true, Scope: request.Global,
		}},
		{"AWorkspaceInANamespaceIsNone", "GET", "/apis/tenant.kubesphere.io/v1beta1/namespaces/n/workspaces/w", request.Info{
			Verb: "get", Path: "/apis/tenant.kubesphere.io/v1beta1/namespaces/n/workspaces/w", Namespace: "n", APIPrefix: "apis",
			APIGroup: "tenant.kubesphere.io", APIVersion: "v1beta1", Resource: "workspaces", Name: "w", IsResource: true, IsKubernetes: true, Scope: request.Global,
		}},
		{"AnotherGroupsWorkspaceAtKubernetesIsAnObject_S5", "GET", "/apis/foo.io/v1/workspaces/w", request.Info{
			Verb: "get", Path: "/apis/foo.io/v1/workspaces/w", APIPrefix: "apis", APIGroup: "foo.io", APIVersion: "v1",
			Resource: "workspaces", Name: "w", IsResource: true, IsKubernetes: true, Scope: request.Cluster,
		}},
		{"SelectorOfAWorkspaceAtKubernetesWidensNothing", "GET", "/api/v1/namespaces?watch=true&labelSelector=kubesphere.io/workspace%3Dw", request.Info{
			Verb: "watch", Path: "/api/v1/namespaces", APIPrefix: "api", APIVersion: "v1", Resource: "namespaces",
			IsResource: true, IsKubernetes: true, Scope: request.Cluster,
		}},
		{"LegacyVersionPathIsNoResource", "GET", "/kapis/version", request.Info{Verb: "get", Path: "/kapis/version", Scope: request.Cluster}},
		{"NamesMayBeAnyText", "GET", "/kapis/rbac.authorization.k8s.io/v1/clusterroles/%C3%A4:%20b", request.Info{
			Verb: "get", Path: "/kapis/rbac.authorization.k8s.io/v1/clusterroles/ä: b", APIPrefix: "kapis",
			APIGroup: "rbac.authorization.k8s.io", APIVersion: "v1", Resource: "clusterroles", Name: "ä: b", IsResource: true, Scope: request.Cluster,
		}},
	} {
		t.Run(c.claim, func(t *testing.T) {
			got, err := request.Parse(newRequest(t, c.method, c.target))
			if err != nil {
				t.Fatal(err)
			}
			if *got != c.want {
				t.Errorf("%s %s\n got %+v\nwant %+v", c.method, c.target, *got, c.want)
			}
		})
	}
}

// S23: a path that could mean one thing to us and another to a router or a server after us is refused.
func TestParseRefuses(t *testing.T) {
	for _, c := range []struct {
		claim, method, target string
		code                  int
		says                  string
	}{
		{"EmptySegment", "GET", "/api//v1/pods", 400, "empty segment"},
		{"EmptySegmentAtTheStart", "GET", "//api/v1/pods", 400, "empty segment"},
		{"EmptySegmentAtTheEnd", "GET", "/api/v1/pods//", 400, "empty segment"},
		{"DotSegment", "GET", "/api/./v1/pods", 400, `"." segment`},
		{"DotDotSegment", "GET", "/kapis/x/v1/namespaces/B/../A/pods", 400, `".." segment`},
		{"DotDotSegmentAtTheEnd", "GET", "/api/v1/pods/..", 400, `".." segment`},
		{"EncodedDots", "GET", "/api/v1/%2e%2e/pods", 400, `".." segment`},
		{"EncodedSlash", "GET", "/api/v1/namespaces/a%2fb/pods", 400, "encoded slash"},
		{"EncodedSlashInCapitals", "GET", "/oauth/%2Ftoken", 400, "encoded slash"},
		{"EncodedBackslash", "GET", "/api/v1/namespaces/a%5cb/pods", 400, `'\\'`},
		{"Backslash", "GET", `/api/v1/namespaces/a\b/pods`, 400, `'\\'`},
		{"PathParameters", "GET", "/api/v1;a=b/pods", 400, "';'"},
		{"EncodedPathParameters", "GET", "/api/v1%3ba=b/pods", 400, "';'"},
		{"Nul", "GET", "/api/v1/pods/a%00", 400, "control character"},
		{"Newline", "GET", "/api/v1/pods/a%0d%0a", 400, "control character"},
		{"ControlCharacterBeyondASCII", "GET", "/api/v1/pods/a%c2%85", 400, "control character"},
		{"EncodedTwice", "GET", "/api/v1/%252e%252e/pods", 400, "encoded twice"},
		{"EncodedTwiceInAProxiedPath", "GET", "/api/v1/nodes/n/proxy/%252e%252e/x", 400, "encoded twice"},
		{"NoUTF8", "GET", "/api/v1/pods/%ff", 400, "UTF-8"},
		{"LongPath", "GET", "/" + strings.Repeat("a/", 5000), 400, "longer than"},
		{"LongSegment", "GET", "/api/v1/pods/" + strings.Repeat("a", 1025), 400, "longer than"},
		{"ForeignScheme", "GET", "ftp://x/api/v1/pods", 400, "request target"},
		{"UserInTheTarget", "GET", "http://u:p@x/api/v1/pods", 400, "request target"},
		{"OpaqueTarget", "GET", "http:api", 400, "request target"},
		{"AsteriskTarget", "OPTIONS", "*", 400, "begin with a slash"},
		{"ClusterAlone", "GET", "/clusters/x", 400, "nothing in it"},
		{"ClusterAloneWithASlash", "GET", "/clusters/x/", 400, "nothing in it"},
		{"ClustersAlone", "GET", "/clusters", 400, "lacks the name"},
		{"OlderFormWithoutAName", "GET", "/kapis/clusters/", 400, "lacks the name"},
		{"ClusterWithinACluster", "GET", "/clusters/m/clusters/host/api/v1/pods", 400, "within a cluster"},
		{"OlderFormWithinACluster", "GET", "/clusters/m/apis/clusters/host/apps/v1/deployments", 400, "within a cluster"},
		{"OlderFormTwice", "GET", "/apis/clusters/m/clusters/host/apps/v1/deployments", 400, "within a cluster"},
		{"NoClusterName", "GET", "/clusters/A_b/api", 400, "no name of a cluster"},
		{"ClusterNameWithDanglingDash", "GET", "/clusters/a-/api", 400, "no name of a cluster"},
		{"ClusterNameWithDashBeforeDot", "GET", "/clusters/a-.b/api", 400, "no name of a cluster"},
		{"WorkspaceWithinAWorkspace", "GET", "/kapis/iam.kubesphere.io/v1beta1/workspaces/a/workspaces/b/members", 400, "within a workspace"},
		{"WatchOfNothing", "GET", "/api/v1/watch", 400, "no resource"},
		{"WriteToAWatchPath", "DELETE", "/api/v1/watch/pods", 405, "can't be used"},
		{"UnknownMethod", "BREW", "/version", 405, "can't be used"},
		{"LowerCaseMethod", "get", "/version", 405, "can't be used"},
		{"Trace", "TRACE", "/api/v1/pods", 405, "can't be used"},
		{"OptionsOnAResource", "OPTIONS", "/api/v1/pods", 405, "can't be used"},
		{"WatchThatMayBeANo", "GET", "/api/v1/pods?watch=no", 400, "parameter watch"},
		{"WatchTwice", "GET", "/api/v1/pods?watch=false&watch=true", 400, "twice"},
		{"WatchTwiceOnceEncoded", "GET", "/api/v1/pods?watch=false&%77atch=true", 400, "twice"},
		{"DryRunTwice_S22", "DELETE", "/api/v1/pods/p?dryRun=All&dryRun=", 400, "twice"},
		{"FieldSelectorTwice", "GET", "/api/v1/pods?fieldSelector=metadata.name=a&fieldSelector=", 400, "twice"},
		{"SemicolonInTheQuery", "GET", "/api/v1/pods?a=1;watch=true", 400, `";"`},
		{"BrokenEscapeInTheQuery", "GET", "/api/v1/pods?watch=%zz", 400, "hexadecimal"},
		{"BrokenEscapeAtTheEnd", "GET", "/api/v1/pods?watch=%2", 400, "hexadecimal"},
		{"TooManyParameters", "GET", "/api/v1/pods?" + strings.Repeat("a&", 1001), 400, "parameters"},
		{"UnreadableSelector", "GET", "/api/v1/pods?fieldSelector=metadata.name%3E3", 400, "options of a list"},
		{"UnreadableOptionsBesideASelector", "GET", "/api/v1/pods?limit=x&fieldSelector=metadata.name=a", 400, "options of a list"},
	} {
		t.Run(c.claim, func(t *testing.T) {
			r := &http.Request{Method: c.method, URL: &url.URL{Path: "*"}}
			if c.target != "*" {
				r = newRequest(t, c.method, c.target)
			}
			got, err := request.Parse(r)
			if err == nil {
				t.Fatalf("%s was read as %+v", c.target, *got)
			}
			status, ok := err.(apierrors.APIStatus)
			if !ok || int(status.Status().Code) != c.code {
				t.Errorf("got %v, want a Status of code %d", err, c.code)
			}
			if !strings.Contains(err.Error(), c.says) {
				t.Errorf("%q does not say %q", err, c.says)
			}
			if len(err.Error()) > 1000 {
				t.Errorf("the message has %d bytes", len(err.Error()))
			}
		})
	}
}

// A server that wraps Parse sees request lines, not URLs: this is a whole request.
func TestParseBehindAServer(t *testing.T) {
	seen := make(chan *request.Info, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i, err := request.Parse(r)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		seen <- i
	}))
	defer s.Close()
	resp, err := http.Get(s.URL + "/clusters/host/api/v1/namespaces/a/services/s/proxy/x%20y/?watch=1")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatal(resp.Status)
	}
	if i := <-seen; i.Path != "/api/v1/namespaces/a/services/s/proxy/x y/" || i.Cluster != "host" || i.Verb != "get" {
		t.Errorf("got %+v", *i)
	}
}

func TestAsTakesTheScopeOfTheOtherResource(t *testing.T) {
	i, err := request.Parse(newRequest(t, "GET", "/kapis/resources.kubesphere.io/v1alpha3/users"))
	if err != nil {
		t.Fatal(err)
	}
	before := *i
	c := i.As(schema.GroupResource{Group: "iam.kubesphere.io", Resource: "users"})
	if c.Scope != request.Global || c.APIGroup != "iam.kubesphere.io" || c.Verb != "list" {
		t.Errorf("got %+v", *c)
	}
	if *i != before {
		t.Errorf("the original became %+v", *i)
	}
}

func TestParseAllocatesOnlyTheInfo(t *testing.T) {
	r := newRequest(t, "GET", "/clusters/host/kapis/tenant.kubesphere.io/v1beta1/workspaces/w/namespaces?limit=10&page=1&labelSelector=a%3Db")
	if n := testing.AllocsPerRun(100, func() {
		if _, err := request.Parse(r); err != nil {
			t.Fatal(err)
		}
	}); n > 1 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkParse(b *testing.B) {
	r := newRequest(b, "GET", "/clusters/host/kapis/resources.kubesphere.io/v1alpha3/namespaces/default/pods?limit=10&page=1&sortBy=createTime")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := request.Parse(r); err != nil {
			b.Fatal(err)
		}
	}
}

// A list of the whole cluster that is restricted to a workspace or namespace equals what Parse makes of the path there.
func TestListsInOnePlaceAreAsParsed(t *testing.T) {
	for _, c := range []struct{ before, after string }{
		{"/kapi/v1/", "pods"},
		{"/kapis/apps/v1/", "deployments"},
		{"/kapis/apps/v1/watch/", "deployments"},
		{"/kapis/resources.kubesphere.io/v1alpha3/", "persistentvolumeclaims"},
		{"/clusters/host/kapis/x.io/v1/", "namespaces"},
	} {
		parse := func(path string) request.Info {
			i, err := request.Parse(newRequest(t, "GET", path))
			if err != nil {
				t.Fatal(err)
			}
			return *i
		}
		all := parse(c.before + c.after)
		if !all.OfCluster() {
			t.Fatalf("%+v is no list of the cluster", all)
		}
		if got, want := all.InNamespace("a"), parse(c.before+"namespaces/a/"+c.after); got != want {
			t.Errorf("in a namespace: %+v, want %+v", got, want)
		}
		if got, want := all.InWorkspace("w"), parse(c.before+"workspaces/w/"+c.after); got != want {
			t.Errorf("in a workspace: %+v, want %+v", got, want)
		}
	}
}

func TestOfClusterIsAListOfOursWithoutAPlace(t *testing.T) {
	for target, want := range map[string]bool{
		"GET /kapi/v1/pods": true, "HEAD /kapi/v1/pods": true, "GET /kapi/v1/pods?watch=1": true, "GET /kapi/v1/watch/pods": true,
		"GET /api/v1/pods": false, "GET /kapi/v1/pods/p": false, "GET /kapi/v1/namespaces/a/pods": false, "GET /kapi/v1/workspaces/w/pods": false,
		"POST /kapi/v1/pods": false, "DELETE /kapi/v1/pods": false, "GET /metrics": false, "GET /kapi/v1/proxy/pods": false, "GET /kapi/v1": false,
	} {
		method, path, _ := strings.Cut(target, " ")
		i, err := request.Parse(newRequest(t, method, path))
		if err != nil {
			t.Fatal(err)
		}
		if got := i.OfCluster(); got != want {
			t.Errorf("%s: %v", target, got)
		}
	}
}

func TestAnUpgradeIsTold(t *testing.T) {
	for _, c := range []struct {
		upgrade, connection string
		want                bool
	}{
		{"websocket", "Upgrade", true}, {"SPDY/3.1", "keep-alive, upgrade", true}, {"h2c, websocket", "upgrade", true},
		{"websocket", "", false}, {"", "Upgrade", false}, {"h2c", "Upgrade, HTTP2-Settings", false}, {"", "", false},
	} {
		r := newRequest(t, http.MethodGet, "/api/v1/pods")
		r.Header = http.Header{"Upgrade": {c.upgrade}, "Connection": {c.connection}}
		i, err := request.Parse(r)
		if err != nil || i.Upgrade != c.want {
			t.Errorf("%q, %q: %v %v", c.upgrade, c.connection, i, err)
		}
	}
}

func TestAWordForAMethodIsOneOfAList(t *testing.T) {
	for method, want := range map[string]string{"GET": "get", "HEAD": "head", "POST": "post", "PUT": "put", "PATCH": "patch", "DELETE": "delete",
		"OPTIONS": "options", "CONNECT": "", "get": "", "": "", "X\n": ""} {
		if got := request.LowerMethod(method); got != want {
			t.Errorf("%q: %q, want %q", method, got, want)
		}
	}
}
