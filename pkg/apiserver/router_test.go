package apiserver

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
	kapisconfig "kapis.dev/ks-apiserver/pkg/kapis/config"
	"kapis.dev/ks-apiserver/pkg/kapis/dynamic"
	"kapis.dev/ks-apiserver/pkg/kapis/resources"
	kapisversion "kapis.dev/ks-apiserver/pkg/kapis/version"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/web"
)

func someServices() []*restful.WebService {
	all := kapisversion.Handler{}.WebServices()
	all = append(all, kapisconfig.Handler{}.V1alpha2(), (&resources.V1alpha3{}).WebService())
	return append(all, dynamic.WebServices(&dynamic.Handler{})...)
}

func someRouter(tb testing.TB, services []*restful.WebService) *router {
	tb.Helper()
	r, err := newRouter(services)
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
		ws, route, err := r.SelectRoute(services, req)
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
	routes, err := newRoutes(append(someServices(), listsOf("all of it")))
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
				want := web.Status(authz.Denied(&user.DefaultInfo{Name: "bob"}, info, authz.Decision{}))
				if c.decision != nil && c.decision.Reason == "" && !strings.Contains(w.Body.String(), strings.Split(want.Message, ": ")[2]) {
					t.Errorf("refused with %s, want %s", w.Body, want.Message)
				}
			}
		})
	}
}

// A request that was not even parsed reaches no route.
func TestRoutesRefuseWhatPassedNoFilter(t *testing.T) {
	routes, err := newRoutes([]*restful.WebService{listsOf("all of it")})
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
	ours, err := newRoutes(services)
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
		req := httptest.NewRequest(http.MethodGet, "/", nil).WithContext(allowed)
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
	if _, err := newRouter([]*restful.WebService{ws}); err == nil {
		t.Error("a router is made of it")
	}
}

func BenchmarkRouter(b *testing.B) {
	services := someServices()
	req := httptest.NewRequest(http.MethodGet, "/kapis/resources.kubesphere.io/v1alpha3/namespaces/default/pods", nil)
	req = req.WithContext(authz.WithDecision(b.Context(), authz.Allow("", "")))
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
