package apiserver

import (
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	restful "github.com/emicklei/go-restful/v3"
	"k8s.io/client-go/kubernetes"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/config"
	"kapis.dev/ks-apiserver/pkg/iam/login"
	"kapis.dev/ks-apiserver/pkg/oauth"
	"kapis.dev/ks-apiserver/pkg/proxy"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/router"
	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/pkg/web"
	"kapis.dev/ks-apiserver/tools/hostile"
)

// hostilePaths makes paths that are like those of a route.
type hostilePaths struct {
	*rand.Rand
	words *hostile.Generator
}

// segment returns a segment as it stands in a request: a word with a meaning in paths, or a hostile one, encoded or not.
func (h hostilePaths) segment() string {
	words := []string{
		"namespaces", "workspaces", "workspacetemplates", "status", "finalize", "watch", "proxy", "pods", "users", "clusters", "metrics", "a", "b", "v1",
		"%2e", "%2E%2e", ".", "..", "", "a%2fb", "a%2Fb", "a%252fb", "a;b", "a%3bb", "a%5cb", "%61", "*", "%2a", "{name}", "a:b", "\u00fc", "%c3%bc", "n%61mespaces",
	}
	switch h.IntN(6) {
	case 0:
		return url.PathEscape(h.words.Word())
	case 1:
		return h.words.Word()
	}
	return words[h.IntN(len(words))]
}

// like returns a path like a route's, with other segments in the place of its parameters, and sometimes one too many, too few or changed.
func (h hostilePaths) like(pattern string) string {
	segments := strings.Split(strings.Trim(pattern, "/"), "/")
	for i, segment := range segments {
		if strings.HasPrefix(segment, "{") || i > 1 && h.IntN(12) == 0 {
			segments[i] = h.segment()
		}
	}
	switch at := h.IntN(len(segments)); h.IntN(8) {
	case 0:
		segments = slices.Insert(segments, at, h.segment())
	case 1:
		segments = slices.Delete(segments, at, at+1)
	case 2:
		segments = append(segments, "")
	case 3:
		segments = slices.Insert(segments, 0, "clusters", "host")
	}
	return "/" + strings.Join(segments, "/")
}

// plainly returns a path of the route's own, with a word for each parameter.
func plainly(pattern string) string {
	return strings.NewReplacer("{", "", "}", "-1", ":*", "").Replace(pattern)
}

// S2: what a handler of any route reads in its path is what was authorized, or the request is refused; and each route can be reached.
func TestEveryRouteReadsWhatWasAuthorized(t *testing.T) {
	p := &components{
		cfg: config.Default(), store: &store.Store{}, oauth: &oauth.Server{}, kube: &proxy.Kube{},
		accounts: accounts{authenticator: &login.Authenticator{}}, client: &kubernetes.Clientset{},
	}
	services := routes{p}.webServices()
	selector, err := router.New(services)
	if err != nil {
		t.Fatal(err)
	}
	// ask returns the route that answers and what was authorized, or nil.
	ask := func(route *restful.Route, method, target string) (*restful.Route, *request.Info) {
		u, err := url.ParseRequestURI(target)
		if err != nil {
			return nil, nil
		}
		r := httptest.NewRequest(method, "/", nil)
		r.URL = u
		if len(route.Consumes) > 0 {
			r.Header.Set("Content-Type", route.Consumes[0])
		}
		if len(route.Produces) > 0 {
			r.Header.Set("Accept", route.Produces[0])
		}
		info, err := request.Parse(r)
		if err != nil {
			return nil, nil
		}
		r = router.Canonical(r.WithContext(request.WithInfo(authz.WithDecision(t.Context(), authz.Allow("", "")), info)))
		_, chosen, err := selector.SelectRoute(services, r)
		if err != nil || chosen.Path == "" {
			return nil, nil
		}
		if r.URL.Path != info.Path {
			t.Fatalf("%s: the route reads %q, authorized is %q", target, r.URL.Path, info.Path)
		}
		return chosen, info
	}
	h := hostilePaths{rand.New(rand.NewPCG(7, 8)), hostile.New(9)}
	count, answered := 0, 0
	for _, ws := range services {
		for _, route := range ws.Routes() {
			count++
			if chosen, _ := ask(&route, route.Method, plainly(route.Path)); chosen == nil || chosen.Path != route.Path || chosen.Method != route.Method {
				t.Errorf("%s %s is not reached by %s: %+v", route.Method, route.Path, plainly(route.Path), chosen)
			}
			for range 100 {
				target := h.like(route.Path)
				if h.IntN(10) == 0 {
					target += "?watch=true"
				}
				chosen, info := ask(&route, []string{route.Method, route.Method, http.MethodHead, http.MethodPut}[h.IntN(4)], target)
				if chosen == nil {
					continue
				}
				answered++
				checkParameters(t, chosen, selector.ExtractParameters(chosen, ws, info.Path), info)
			}
		}
	}
	if count < 300 || answered < 10*count {
		t.Errorf("%d routes answered %d requests", count, answered)
	}
}

// checkParameters compares what a route reads with what was authorized, by what its parameters are called.
func checkParameters(t *testing.T, route *restful.Route, parameters map[string]string, info *request.Info) {
	t.Helper()
	if !info.IsResource {
		if strings.HasPrefix(route.Path, "/kapi") && strings.Trim(route.Path, "/") != "kapis/version" {
			t.Errorf("%s %s answers %s, which is no resource", route.Method, route.Path, info.Path)
		}
		return
	}
	// A namespace, and a workspace, is in its own scope.
	if _, scoped := parameters["namespace"]; !scoped && info.Namespace != "" && (info.Resource != "namespaces" || info.Name != info.Namespace) {
		t.Errorf("%s %s reads no namespace in %s, authorized was %q", route.Method, route.Path, info.Path, info.Namespace)
	}
	if _, scoped := parameters["workspace"]; !scoped && info.Workspace != "" && (!strings.HasPrefix(info.Resource, "workspace") || info.Name != info.Workspace) {
		t.Errorf("%s %s reads no workspace in %s, authorized was %q", route.Method, route.Path, info.Path, info.Workspace)
	}
	if info.Verb == "watch" && !strings.Contains(route.Path, "/watch/") && route.Metadata[web.MetadataWatch] != true {
		t.Errorf("%s %s answers the watch %s", route.Method, route.Path, info.Path)
	}
	own := map[string]string{"group": info.APIGroup, "version": info.APIVersion, "resources": info.Resource, "subresource": info.Subresource,
		"namespace": info.Namespace, "workspace": info.Workspace}
	names := 0
	for name, value := range parameters {
		want, known := own[name]
		// What is named below a subresource is covered by the right to that of the object; the handler finds it in this object alone.
		above, _, within := strings.Cut(route.Path+"/", "/"+info.Subresource+"/{"+name+"}/")
		within = within && info.Subresource != ""
		switch {
		case name == "namespace" && strings.HasSuffix(route.Path, "/namespaces/{namespace}"):
			names++
			want = info.Name
		case name == "workspace" && (strings.HasSuffix(route.Path, "/workspaces/{workspace}") || strings.HasSuffix(route.Path, "/workspacetemplates/{workspace}")):
			names++
			want = info.Name
		case name == "pod" && strings.HasSuffix(route.Path, "/{gateway}/pods/{pod}/log"):
			// The handler authorizes pods/log of this pod itself: TestPodsAndLogsTakeTheirOwnRights.
			want = strings.Split(info.Path, "/")[9]
		case within:
			want = strings.Split(info.Path, "/")[strings.Count(above, "/")+2]
		case !known:
			names++
			want = info.Name
		}
		if value != want {
			t.Errorf("%s %s reads %s=%q in %s, authorized was %q", route.Method, route.Path, name, value, info.Path, want)
		}
	}
	if names == 0 && info.Name != "" && !strings.Contains(route.Path, "/"+info.Name) {
		t.Errorf("%s %s reads no name in %s, authorized was %q", route.Method, route.Path, info.Path, info.Name)
	}
}
