package tenant_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/authz"
)

// readers is a world with an administrator, a viewer of workspace a, a member of it who is in one of its namespaces, and a user without
// rights.
func readers(t *testing.T) *world {
	w := newWorld(t)
	w.allow("admin", "* * platform")
	w.allow("viewer", "list namespaces a", "get workspacemembers a", "list workspaceroles a", "get resourcequotas a")
	w.members["viewer"] = authz.NewPartialList(nil, []string{"a"})
	w.members["alice"] = authz.NewPartialList([]string{"a1"}, []string{"a"})
	w.members["team"] = authz.NewPartialList([]string{"a2", "b1"}, nil)
	return w
}

// S1, S3, U33: lists show what the caller may see.
func TestListsShowWhatTheCallerSees(t *testing.T) {
	w := readers(t)
	for _, c := range []struct{ name, who, path, want string }{
		{"AnAdministratorSeesAllWorkspaces", "admin", "/workspaces", "a b ending"},
		{"AndAllTemplates", "admin", "/workspacetemplates?limit=10", "a b system"},
		{"AndAllClusters", "admin", "/clusters", "host open other"},
		{"AndAllNamespaces", "admin", "/namespaces", "a1 a2 b1 free held kube-system kubesphere-x"},
		{"AMemberSeesHisWorkspace", "alice", "/workspaces", "a"},
		{"AMemberSeesItsTemplate", "alice", "/workspacetemplates", "a"},
		{"AMemberSeesHisNamespaces", "alice", "/namespaces", "a1"},
		{"AMemberSeesTheHostAndWhatIsPublic", "alice", "/clusters?roleBindingExists=true", "host open"},
		{"AMemberSeesHisNamespacesOfTheWorkspace", "alice", "/workspaces/a/namespaces?sortBy=createTime&labelSelector=kubesphere.io/workspace=a", "a1"},
		{"AFilterWidensNothing", "alice", "/namespaces?names=a1,a2,b1", "a1"},
		{"NorDoesALabel", "alice", "/workspaces/b/namespaces?label=kubesphere.io/workspace=a", ""},
		{"AViewerSeesAllOfTheWorkspace", "viewer", "/workspaces/a/namespaces", "a1 a2 held kubesphere-x"},
		{"NobodySeesNoWorkspace", "nobody", "/workspaces", ""},
		{"NobodySeesNoTemplate", "nobody", "/workspacetemplates", ""},
		{"NobodySeesNoNamespace", "nobody", "/namespaces", ""},
		{"NobodySeesNoNamespaceOfAWorkspace", "nobody", "/workspaces/a/namespaces", ""},
		{"NobodySeesWhatIsPublic", "nobody", "/clusters?labelSelector=!x&roleBindingExists=true", "open"},
		{"D5AMemberOfAWorkspaceOpensNoCluster", "alice", "/clusters", ""},
		{"D5NorWithTheFalseParameter", "alice", "/clusters?roleBindingExists=false", ""},
		{"D5NorInOlderVersions", "alice", "/kapis/tenant.kubesphere.io/v1alpha2/clusters", ""},
		{"D5WhoHasARoleOfTheClusterDoes", "operator", "/clusters", "host"},
		{"D5AFilterWidensNothing", "alice", "/clusters?names=host,open,other&limit=-1", ""},
		{"D5NobodyOpensNone", "nobody", "/clusters?limit=-1&labelSelector=cluster.kubesphere.io/visibility!=public", ""},
		{"TheWorkspacesClusters", "alice", "/workspaces/a/clusters?sortBy=createTime&limit=10&page=1", "host"},
		{"AMembersNamespacesAreHisAndHisGroups", "viewer", "/workspaces/a/workspacemembers/alice/namespaces?limit=-1", "a1 a2"},
		{"SomebodyWithoutAUserHasWhatIsBoundToHisName", "viewer", "/workspaces/a/workspacemembers/team/namespaces", "a2"},
		{"AnAdministratorOfThePlatformSeesAll", "viewer", "/workspaces/a/workspacemembers/admin/namespaces", "a1 a2 held kubesphere-x"},
		{"OlderWorkspacesAreTemplates", "admin", "/kapis/tenant.kubesphere.io/v1alpha3/workspaces", "a b system"},
		{"InV1alpha2Too", "alice", "/kapis/tenant.kubesphere.io/v1alpha2/workspaces", "a"},
		{"OlderNamespaces", "alice", "/kapis/tenant.kubesphere.io/v1alpha2/workspaces/a/namespaces", "a1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := w.names(c.who, c.path); got != c.want {
				t.Errorf("%s sees %q, want %q", c.who, got, c.want)
			}
		})
	}
}

func TestAPartOfAListSaysSo(t *testing.T) {
	w := readers(t)
	for path, want := range map[string]string{"/workspaces": "true", "/workspaces/a/clusters": ""} {
		if got := w.do("alice", http.MethodGet, path, "").Header().Get("X-Kapis-Partial"); got != want {
			t.Errorf("%s: %q", path, got)
		}
	}
	first := w.do("alice", http.MethodGet, "/workspaces", "")
	if again := w.do("alice", http.MethodGet, "/workspaces", "", "If-None-Match", first.Header().Get("ETag")); again.Code != http.StatusNotModified {
		t.Errorf("the same list again: %d", again.Code)
	}
}

// S1: one object, by its name.
func TestObjectsAreForWhoSeesThem(t *testing.T) {
	w := readers(t)
	for _, c := range []struct {
		who, path string
		code      int
		has       string
	}{
		{"alice", "/workspaces/a", 200, `"kind":"Workspace"`},
		{"alice", "/workspacetemplates/a", 200, `"kind":"WorkspaceTemplate"`},
		{"alice", "/kapis/tenant.kubesphere.io/v1alpha3/workspaces/a", 200, `"kind":"WorkspaceTemplate"`},
		{"alice", "/workspaces/b", 403, ""},
		{"alice", "/workspaces/none", 403, ""},
		{"admin", "/workspaces/none", 404, "NotFound"},
		{"alice", "/workspaces/a/namespaces/a1", 200, `"name":"a1"`},
		{"alice", "/workspaces/b/namespaces/a1", 404, "NotFound"},
		{"alice", "/workspaces/a/namespaces/a2", 403, ""},
		{"admin", "/workspaces/a/namespaces/b1", 404, "NotFound"},
		{"admin", "/workspaces/a/namespaces/free", 404, "NotFound"},
		{"admin", "/workspaces/none/clusters", 404, "NotFound"},
		{"nobody", "/workspaces/a/clusters", 403, ""},
		{"nobody", "/workspaces/a/metrics", 403, ""},
		{"viewer", "/workspaces/a/resourcequotas/a", 200, `"pods"`},
		{"viewer", "/workspaces/a/resourcequotas/none", 404, "NotFound"},
		{"viewer", "/kapis/tenant.kubesphere.io/v1alpha2/workspaces/a/resourcequotas/a", 200, `"pods"`},
		{"admin", "/kapis/tenant.kubesphere.io/v1alpha2/workspaces/b/resourcequotas/a", 404, "NotFound"},
		{"admin", "/workspaces/b/resourcequotas/a", 404, "NotFound"},
		{"alice", "/workspaces/a/workspacemembers/bob/namespaces", 403, ""},
		{"alice", "/clusters?roleBindingExists=perhaps", 400, "roleBindingExists"},
		{"alice", "/workspaces?limit=x", 400, "limit"},
		{"admin", "/metrics?watch=true", 405, ""},
		{"admin", "/workspaces/a/clusters?watch=true", 405, ""},
		{"admin", "/workspaces/a/clusters?view=live", 400, "not streamed"},
		{"viewer", "/workspaces/a/workspacemembers/alice/namespaces?view=live", 400, "not streamed"},
	} {
		rec := w.do(c.who, http.MethodGet, c.path, "")
		if rec.Code != c.code || !strings.Contains(rec.Body.String(), c.has) {
			t.Errorf("%s %s: %d %s; want %d %s", c.who, c.path, rec.Code, rec.Body, c.code, c.has)
		}
	}
}

// U52: counts are those of the lists that the same caller gets.
func TestCountsAreThoseOfTheLists(t *testing.T) {
	w := readers(t)
	for _, c := range []struct{ who, path, want string }{
		{"admin", "/metrics", "platform_cluster_count=3 platform_user_count=2 platform_workspace_count=3"},
		{"alice", "/metrics", "platform_user_count=1 platform_workspace_count=1"},
		{"nobody", "/metrics", "platform_user_count=0"},
		{"admin", "/workspaces/a/metrics", "workspace_namespace_count=4 workspace_workspacerole_count=1 workspace_workspacerolebinding_count=1"},
		{"viewer", "/workspaces/a/metrics", "workspace_namespace_count=4 workspace_workspacerole_count=1 workspace_workspacerolebinding_count=0"},
		{"alice", "/workspaces/a/metrics", "workspace_namespace_count=1 workspace_workspacerole_count=0 workspace_workspacerolebinding_count=0"},
	} {
		var m struct {
			Results []struct {
				Name string `json:"metric_name"`
				Data struct {
					Result []struct {
						Value [2]int64 `json:"value"`
					} `json:"result"`
				} `json:"data"`
			} `json:"results"`
		}
		body := w.must(http.StatusOK, c.who, http.MethodGet, c.path, "")
		if err := json.Unmarshal([]byte(body), &m); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range m.Results {
			if r.Data.Result[0].Value[0] != noon().Unix() {
				t.Errorf("%s is of another time", r.Name)
			}
			got = append(got, r.Name+"="+strconv.FormatInt(r.Data.Result[0].Value[1], 10))
		}
		slices.Sort(got)
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%s %s: %s, want %s", c.who, c.path, s, c.want)
		}
	}
}

// A watch shows what the caller may see, and nothing else. (S2)
func TestAWatchShowsWhatTheCallerSees(t *testing.T) {
	w := readers(t)
	const begin = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=1"
	for path, names := range map[string][2]string{
		"/workspaces?":                      {`"name":"a"`, `"name":"b"`},
		"/workspaces/a/namespaces?":         {`"name":"a1"`, `"name":"a2"`},
		"/clusters?roleBindingExists=true&": {`"name":"host"`, `"name":"other"`},
	} {
		body := w.must(http.StatusOK, "alice", http.MethodGet, path+begin, "")
		if !strings.Contains(body, names[0]) || strings.Contains(body, names[1]) {
			t.Errorf("%s: %s", path, body)
		}
	}
}
