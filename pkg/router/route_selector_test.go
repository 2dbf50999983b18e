package router

import (
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	restful "github.com/emicklei/go-restful/v3"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/web"
)

// someServices are routes of the forms that the server's have.
func someServices() []*restful.WebService {
	kinds := []string{"/{resources}", "/{resources}/{name}", "/namespaces/{namespace}/{resources}", "/namespaces/{namespace}/{resources}/{name}"}
	generic := append([]string{}, kinds...)
	for _, in := range []string{"/workspaces/{workspace}", "/workspaces/{workspace}/namespaces/{namespace}"} {
		generic = append(generic, in+"/{resources}", in+"/{resources}/{name}")
	}
	for _, path := range generic {
		generic = append(generic, "/watch"+path)
	}
	var all []*restful.WebService
	for _, s := range []struct {
		root  string
		paths []string
	}{
		{"/version", []string{""}}, {"/kapis/version", []string{""}},
		{"/kapis/config.kubesphere.io/v1alpha2", []string{"/configs/configz"}},
		{"/kapis/resources.kubesphere.io/v1alpha3", kinds},
		{"/kapi/{version}", generic}, {"/kapis/{group}/{version}", generic},
	} {
		ws := new(restful.WebService).Path(s.root).Produces(restful.MIME_JSON)
		for _, path := range s.paths {
			ws.Route(ws.GET(path).To(web.Handle(func(*restful.Request) (any, error) { return nil, nil })))
		}
		all = append(all, ws)
	}
	return all
}

func someRouter(tb testing.TB, services []*restful.WebService) *Selector {
	tb.Helper()
	r, err := New(services)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

func TestTheShortWayLeadsWhereCurlyRouterDoes(t *testing.T) {
	services := someServices()
	r := someRouter(t, services)
	words := []string{"kapis", "kapi", "version", "resources.kubesphere.io", "config.kubesphere.io", "apps", "v1", "v1alpha2", "v1alpha3", "configs", "configz",
		"namespaces", "workspaces", "default", "pods", "a", ""}
	random := rand.New(rand.NewPCG(1, 2))
	short := 0
	allowed := authz.WithDecision(t.Context(), authz.Allow("", ""))
	compare := func(method, path, accept string) {
		req := httptest.NewRequest(method, "/", nil).WithContext(allowed)
		req.URL.Path = path
		if accept != "" {
			req.Header.Set("Accept", accept)
		}
		ws, route, _, err := r.choose(services, req)
		wantWS, want, wantErr := restful.CurlyRouter{}.SelectRoute(services, req)
		if (err == nil) != (wantErr == nil) || err == nil && (ws != wantWS || route.Path != want.Path || route.Method != want.Method) {
			t.Fatalf("%s %s (Accept %q): %+v %v, want %+v %v", method, path, accept, route, err, want, wantErr)
		}
		if _, found := r.find(path); found != nil {
			short++
		}
	}
	for range 20000 {
		path := "/" + []string{"kapis/resources.kubesphere.io/v1alpha3", "kapis/apps/v1", "kapi/v1", "version", "x"}[random.IntN(5)]
		for range random.IntN(7) {
			path += "/" + words[random.IntN(len(words))]
		}
		compare([]string{"GET", "GET", "HEAD", "POST"}[random.IntN(4)], path, []string{"", "*/*", "application/json", "text/html"}[random.IntN(4)])
	}
	if short < 2000 {
		t.Errorf("the short way was taken %d times of 20000", short)
	}
	compare(http.MethodGet, "/kapis/"+strings.Repeat("a/", 40), "")
}

// listsOf has the same list twice; one of the routes supports partial lists.
func listsOf(answer string) *restful.WebService {
	ws := new(restful.WebService).Path("/kapis/lists.example/v1").Produces(restful.MIME_JSON)
	to := func(_ *restful.Request, resp *restful.Response) { _, _ = io.WriteString(resp, answer) }
	ws.Route(ws.GET("/marked").To(to).Metadata(web.MetadataPartialList, true))
	ws.Route(ws.GET("/unmarked").To(to))
	ws.Route(ws.GET("/wrong").To(to).Metadata(web.MetadataPartialList, "true"))
	return ws
}

// S1, S2: a decision for a partial list permits only routes that say that they support partial lists; any other refuses in the words of filter.Authorize, and
// so do all if there is no decision.
func TestOnlyMarkedRoutesAnswerWithAPart(t *testing.T) {
	routes, err := NewContainer(append(someServices(), listsOf("all of it")))
	if err != nil {
		t.Fatal(err)
	}
	allow, part := authz.Allow("", ""), authz.AllowPartial(authz.NewPartialList([]string{"a"}, nil), "")
	for _, c := range []struct {
		claim, path, accept string
		decision            *authz.Decision
		code                int
	}{
		{"MarkedWithAPart", "/kapis/lists.example/v1/marked", "", &part, 200},
		{"MarkedWithAPartTheLongWay", "/kapis/lists.example/v1/marked", "application/json, */*", &part, 200},
		{"UnmarkedWithAPart", "/kapis/lists.example/v1/unmarked", "", &part, 403},
		{"UnmarkedWithAPartTheLongWay", "/kapis/lists.example/v1/unmarked", "application/json, */*", &part, 403},
		{"MarkedWithSomethingElse", "/kapis/lists.example/v1/wrong", "", &part, 403},
		{"UnmarkedAllowed", "/kapis/lists.example/v1/unmarked", "", &allow, 200},
		{"MarkedRefused", "/kapis/lists.example/v1/marked", "", &authz.Decision{Reason: "no"}, 403},
		{"MarkedWithoutADecision", "/kapis/lists.example/v1/marked", "", nil, 403},
		{"NoRoute", "/kapis/lists.example/v1/none/of/these", "", &part, 404},
	} {
		t.Run(c.claim, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodGet, c.path, nil)
			if c.accept != "" {
				r.Header.Set("Accept", c.accept)
			}
			info, err := request.Parse(r)
			if err != nil {
				t.Fatal(err)
			}
			ctx := request.WithUser(request.WithInfo(r.Context(), info), &user.DefaultInfo{Name: "bob"})
			if c.decision != nil {
				ctx = authz.WithDecision(ctx, *c.decision)
			}
			w := httptest.NewRecorder()
			routes.Dispatch(w, r.WithContext(ctx))
			if w.Code != c.code {
				t.Fatalf("code %d: %s", w.Code, w.Body)
			}
			if c.code == http.StatusForbidden {
				want := web.Status(authz.Forbidden(&user.DefaultInfo{Name: "bob"}, info, authz.Decision{}))
				if c.decision != nil && c.decision.Reason == "" && !strings.Contains(w.Body.String(), strings.Split(want.Message, ": ")[2]) {
					t.Errorf("refused with %s, want %s", w.Body, want.Message)
				}
			}
		})
	}
}

// A request that was not even parsed reaches no route.
func TestRoutesRefuseWhatPassedNoFilter(t *testing.T) {
	routes, err := NewContainer([]*restful.WebService{listsOf("all of it")})
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	routes.Dispatch(w, httptest.NewRequest(http.MethodGet, "/kapis/lists.example/v1/marked", nil))
	if w.Code != http.StatusForbidden {
		t.Errorf("code %d", w.Code)
	}
}

func TestParametersAreThoseOfGoRestful(t *testing.T) {
	var got map[string]string
	ws := new(restful.WebService).Path("/x/{group}")
	for _, path := range []string{"", "/fixed", "/{a}", "/{a}/fixed", "/{a}/{b}/{c}", "/fixed/{rest:*}", "/{a}/to/{rest:*}"} {
		ws.Route(ws.GET(path).To(func(r *restful.Request, _ *restful.Response) { got = r.PathParameters() }))
	}
	services := []*restful.WebService{ws}
	ours, err := NewContainer(services)
	if err != nil {
		t.Fatal(err)
	}
	theirs := restful.NewContainer()
	theirs.Router(restful.CurlyRouter{})
	theirs.Add(ws)
	random := rand.New(rand.NewPCG(5, 6))
	allowed, found := authz.WithDecision(t.Context(), authz.Allow("", "")), 0
	for range 3000 {
		path := "/x/g"
		for range random.IntN(6) {
			path += "/" + []string{"fixed", "to", "a", "b:c", "{d}", "*"}[random.IntN(6)]
		}
		req := httptest.NewRequest(http.MethodGet, "/", nil)
		req = req.WithContext(request.WithInfo(allowed, &request.Info{Verb: "get", Path: path}))
		req.URL.Path = path
		var each [2]map[string]string
		for n, c := range [...]*restful.Container{ours, theirs} {
			got = nil
			c.Dispatch(httptest.NewRecorder(), req)
			each[n] = got
		}
		if !maps.Equal(each[0], each[1]) {
			t.Fatalf("%s: %v, want %v", path, each[0], each[1])
		}
		if len(each[0]) > 1 {
			found++
		}
	}
	if found < 1000 {
		t.Errorf("%d paths had parameters", found)
	}
}

func TestRoutesWithOtherPatternsAreRefused(t *testing.T) {
	for _, path := range []string{"/{a:[0-9]+}", "/{a}:verb", "/x{a}", "/{a}x", "/{}", "/{a", "/a}", "/{a:*}x", "/{a}{b}", "/x/{a:*}:verb"} {
		if plain(path) == nil {
			t.Errorf("%s is taken", path)
		}
	}
	ws := new(restful.WebService).Path("/x")
	ws.Route(ws.GET("/{a:[0-9]+}").To(func(*restful.Request, *restful.Response) {}))
	if _, err := New([]*restful.WebService{ws}); err == nil {
		t.Error("a router is made of it")
	}
}

func BenchmarkRouter(b *testing.B) {
	services := someServices()
	req := httptest.NewRequest(http.MethodGet, "/kapis/resources.kubesphere.io/v1alpha3/namespaces/default/pods", nil)
	info, err := request.Parse(req)
	if err != nil {
		b.Fatal(err)
	}
	req = req.WithContext(request.WithInfo(authz.WithDecision(b.Context(), authz.Allow("", "")), info))
	for name, r := range map[string]restful.RouteSelector{"ours": someRouter(b, services), "curly": restful.CurlyRouter{}} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := r.SelectRoute(services, req); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// S2: what the router and Parse read differently is refused, and so is a watch by a route that does not say that it watches.
func TestARouteAnswersOnlyWhatWasAuthorized(t *testing.T) {
	ws := new(restful.WebService).Path("/kapis/{group}/{version}").Produces(restful.MIME_JSON)
	answer := web.Handle(func(*restful.Request) (any, error) { return "answered", nil })
	ws.Route(ws.GET("/{resources}").To(answer).Metadata(web.MetadataWatch, true).Produces(restful.MIME_JSON, "text/event-stream"))
	ws.Route(ws.GET("/{resources}/{name}").To(answer))
	ws.Route(ws.GET("/pages").To(answer)) // of something else than the kind of that name
	ws.Route(ws.GET("/namespaces/{namespace}/{resources}").To(answer))
	ws.Route(ws.GET("/watch/{resources}/{name}").To(answer))
	ws.Route(ws.GET("/{resources}/{name}/{subresource}").To(answer).Produces("*/*"))
	ws.Route(ws.PUT("/{resources}/{name}/{subresource}").To(answer))
	routes, err := NewContainer([]*restful.WebService{ws})
	if err != nil {
		t.Fatal(err)
	}
	for claim, c := range map[string]struct {
		method, path, accept string
		code                 int
	}{
		"AList":                         {"GET", "/kapis/apps/v1/deployments", "", 200},
		"AWatch":                        {"GET", "/kapis/apps/v1/deployments?watch=true", "", 200},
		"AWatchTheLongWay":              {"GET", "/kapis/apps/v1/deployments?watch=true", "application/json, */*", 200},
		"AWatchWhereThereIsNone":        {"GET", "/kapis/apps/v1/namespaces/a/deployments?watch=true", "", 405},
		"AListWhereThereIsNoWatch":      {"GET", "/kapis/apps/v1/namespaces/a/deployments", "", 200},
		"AStream":                       {"GET", "/kapis/apps/v1/deployments?watch=true", "text/event-stream", 200},
		"APage":                         {"GET", "/kapis/apps/v1/pages", "application/json, text/plain, */*", 200},
		"AWatchOfPages":                 {"GET", "/kapis/apps/v1/pages?watch=true", "", 405},
		"AStreamOfPages":                {"GET", "/kapis/apps/v1/pages?watch=true", "text/event-stream", 406},
		"AStreamOfPagesOrJSON":          {"GET", "/kapis/apps/v1/pages?watch=true", "text/event-stream, application/json", 405},
		"AWatchOfOne":                   {"GET", "/kapis/apps/v1/watch/deployments/a", "", 200},
		"One":                           {"GET", "/kapis/apps/v1/deployments/a", "", 200},
		"AStatusIsNoKind":               {"GET", "/kapis/apps/v1/namespaces/a/status", "", 404},
		"AStatusIsNoKindTheLongWay":     {"GET", "/kapis/apps/v1/namespaces/a/status", "text/html, */*", 404},
		"AWriteOfAStatus":               {"PUT", "/kapis/apps/v1/namespaces/a/status", "", 200},
		"AWorkspaceIsNoKind":            {"PUT", "/kapis/apps/v1/workspaces/w/deployments", "", 404},
		"ANamespaceIsNoKind":            {"PUT", "/kapis/apps/v1/namespaces/a/deployments", "", 404},
		"AListThatTheClientDoesNotTake": {"GET", "/kapis/apps/v1/namespaces/a/deployments", "application/yaml", 406},
		"NoRoute":                       {"GET", "/kapis/apps/v1", "", 404},
	} {
		t.Run(claim, func(t *testing.T) {
			r := httptest.NewRequest(c.method, c.path, nil)
			if c.accept != "" {
				r.Header.Set("Accept", c.accept)
			}
			info, err := request.Parse(r)
			if err != nil {
				t.Fatal(err)
			}
			w := httptest.NewRecorder()
			routes.Dispatch(w, r.WithContext(request.WithInfo(authz.WithDecision(r.Context(), authz.Allow("", "")), info)))
			if w.Code != c.code {
				t.Errorf("got %d %s, want %d", w.Code, w.Body, c.code)
			}
			// The same path with what was authorized for another one, or for none.
			for claim, other := range map[string]*request.Info{
				"none": nil, "another": {IsResource: true, Verb: info.Verb, APIPrefix: "kapis", APIGroup: "apps", APIVersion: "v1", Resource: "secrets"},
			} {
				w := httptest.NewRecorder()
				routes.Dispatch(w, r.WithContext(request.WithInfo(authz.WithDecision(r.Context(), authz.Allow("", "")), other)))
				if w.Code == http.StatusOK {
					t.Errorf("answered what was authorized for %s", claim)
				}
			}
		})
	}
}

func TestARouteWithAParameterThatNothingAuthorizesIsRefused(t *testing.T) {
	ws := new(restful.WebService).Path("/kapis/x/v1")
	ws.Route(ws.GET("/things/{rest:*}").To(func(*restful.Request, *restful.Response) {}))
	if _, err := NewContainer([]*restful.WebService{ws}); err == nil {
		t.Error("a router is made of it")
	}
}

func TestRoutesSeeTheCanonicalPath(t *testing.T) {
	for _, c := range []struct{ method, target, path, as string }{
		{"GET", "/clusters/host/kapis/apps/v1/deployments", "/kapis/apps/v1/deployments", "GET"},
		{"GET", "/kapis/apps/v1/deployments/", "/kapis/apps/v1/deployments", "GET"},
		{"HEAD", "/version", "/version", "GET"},
		{"POST", "/oauth/token", "/oauth/token", "POST"},
	} {
		r := httptest.NewRequest(c.method, c.target, nil)
		info, err := request.Parse(r)
		if err != nil {
			t.Fatal(err)
		}
		r = r.WithContext(request.WithInfo(r.Context(), info))
		got := Canonical(r)
		if got.URL.Path != c.path || got.Method != c.as {
			t.Errorf("%s %s: %s %s, want %s %s", c.method, c.target, got.Method, got.URL.Path, c.as, c.path)
		}
		if r.Method != c.method || r.URL.Path != strings.SplitN(c.target, "?", 2)[0] {
			t.Errorf("the request itself was changed: %s %s", r.Method, r.URL.Path)
		}
	}
}
