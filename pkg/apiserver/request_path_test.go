package apiserver

import (
	"context"
	"net/http"
	"path"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	restful "github.com/emicklei/go-restful/v3"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/request/union"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/apiserver/drain"
	"kapis.dev/ks-apiserver/pkg/authn/anonymous"
	"kapis.dev/ks-apiserver/pkg/authn/bearer"
	"kapis.dev/ks-apiserver/pkg/authn/requestheader"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/authz/rbac"
	"kapis.dev/ks-apiserver/pkg/cluster/join"
	"kapis.dev/ks-apiserver/pkg/config"
	"kapis.dev/ks-apiserver/pkg/filter"
	kapisconfig "kapis.dev/ks-apiserver/pkg/kapis/config"
	"kapis.dev/ks-apiserver/pkg/kapis/dynamic"
	"kapis.dev/ks-apiserver/pkg/kapis/resources"
	kapisversion "kapis.dev/ks-apiserver/pkg/kapis/version"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/router"
	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/pkg/token"
	"kapis.dev/ks-apiserver/pkg/web"
)

// road is the whole chain with the real filters, authenticators, index and router, before a handler that does nothing: it measures a request without its
// query.
func road(tb testing.TB) (http.Handler, string) {
	tb.Helper()
	keys, err := token.Generate(time.Now())
	if err != nil {
		tb.Fatal(err)
	}
	p := &components{cfg: config.Default(), metrics: prometheus.NewRegistry(), proxies: &requestheader.Authenticator{}, drain: drain.New()}
	if p.requests, err = filter.NewMetrics(p.metrics); err != nil {
		tb.Fatal(err)
	}
	if p.tokens, err = token.NewVerifier(token.Rules{
		Keys: keys, Issuer: "https://ks.example", Audience: audience, Now: time.Now, CacheSize: 64, Metrics: p.metrics,
	}); err != nil {
		tb.Fatal(err)
	}
	p.who = union.NewFailOnError(&bearer.Authenticator{Tokens: []authenticator.Token{
		&bearer.AccessTokens{Verifier: p.tokens, Sessions: everyone{}},
	}}, anonymous.Authenticator{})
	p.may = &authz.Order{Authorizers: authz.Union{
		authz.Func(authz.RestrictAPIKeys), authz.Paths(authz.DefaultPaths()), authz.Loaded{Authorizer: adminIndex(tb), Known: func() error { return nil }},
	}}
	issuer := &token.Issuer{Keys: keys, URL: "https://ks.example", Audience: audience, Now: time.Now}
	bearer, err := issuer.Access(&token.Access{
		Subject: "uid-1", Username: "admin", Client: "kubesphere", Session: "s1", Issued: time.Now(), Expires: time.Now().Add(time.Hour),
	})
	if err != nil {
		tb.Fatal(err)
	}
	ws := new(restful.WebService)
	ws.Path("/kapis/road.example/v1").Produces(restful.MIME_JSON)
	ws.Route(ws.GET("/{resources}").To(web.Handle(func(*restful.Request) (any, error) { return notModified{}, nil })))
	services := append(someServices(), ws)
	container, err := router.NewContainer(services)
	if err != nil {
		tb.Fatal(err)
	}
	return p.chain(answer(nil, nil, routes{p}.own(container, http.NotFoundHandler(), http.NotFoundHandler()))), bearer
}

func someServices() []*restful.WebService {
	all := kapisversion.Handler{}.WebServices()
	all = append(all, kapisconfig.Handler{}.V1alpha2(), (&resources.V1alpha3{}).WebService())
	return append(all, dynamic.WebServices(&dynamic.Handler{})...)
}

type notModified struct{}

func (notModified) Respond(w http.ResponseWriter, _ *http.Request) {
	w.WriteHeader(http.StatusNotModified)
}

type everyone struct{}

var admin = &user.DefaultInfo{Name: "admin", UID: "uid-1", Groups: []string{user.AllAuthenticated}}

func (everyone) Authenticate(context.Context, *token.Access) (user.Info, error) { return admin, nil }

func adminIndex(tb testing.TB) *rbac.Index {
	tb.Helper()
	x, err := rbac.NewIndex()
	if err != nil {
		tb.Fatal(err)
	}
	for gvr, sink := range x.Sinks() {
		switch gvr.Resource {
		case "globalroles":
			sink.Set(&store.Object{Name: "admin", Raw: []byte(`{"rules":[{"verbs":["*"],"apiGroups":["*"],"resources":["*"]}]}`)})
		case "globalrolebindings":
			sink.Set(&store.Object{Name: "admin", Raw: []byte(`{"roleRef":{"kind":"GlobalRole","name":"admin"},"subjects":[{"kind":"User","name":"admin"}]}`)})
		}
	}
	return x
}

// discard is a ResponseWriter that records only the status.
type discard struct {
	header http.Header
	status int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }
func (d *discard) WriteHeader(code int)        { d.status = code }

func roadRequest(tb testing.TB, bearer, path string) *http.Request {
	tb.Helper()
	r, err := http.NewRequestWithContext(tb.Context(), http.MethodGet, "http://ks.example"+path, nil)
	if err != nil {
		tb.Fatal(err)
	}
	r.RequestURI, r.RemoteAddr = path, "127.0.0.1:4000"
	r.Header = http.Header{
		"Accept": {"application/json"}, "Authorization": {"Bearer " + bearer}, "User-Agent": {"bench"}, "If-None-Match": {`"x"`},
	}
	return r
}

// again sends the same request again: the chain removes the credentials from its header.
func again(h http.Handler, w *discard, r *http.Request) func() {
	authorization := r.Header["Authorization"]
	return func() {
		r.Header["Authorization"] = authorization
		h.ServeHTTP(w, r)
	}
}

// A request allocates its record, its copy with that for a context, its Info, the authenticator's answer, and go-restful's request, response, two maps and
// parameters.
func TestTheRoadAllocatesLittle(t *testing.T) {
	h, bearer := road(t)
	w := &discard{header: http.Header{}}
	send := again(h, w, roadRequest(t, bearer, "/kapis/road.example/v1/pods?limit=10&page=1"))
	if n := testing.AllocsPerRun(200, send); n > 11 {
		t.Errorf("%v allocations", n)
	}
	if w.status != http.StatusNotModified {
		t.Fatalf("answered %d", w.status)
	}
}

// stackRecorder remembers which files of this project were on the stack when the answer began, the innermost first.
type stackRecorder struct {
	discard
	files []string
}

func (s *stackRecorder) WriteHeader(code int) {
	s.discard.WriteHeader(code)
	callers := make([]uintptr, 128)
	frames := runtime.CallersFrames(callers[:runtime.Callers(2, callers)])
	for more := true; more; {
		var f runtime.Frame
		f, more = frames.Next()
		file := path.Join(path.Base(path.Dir(f.File)), path.Base(f.File))
		if strings.HasPrefix(f.Function, "kapis.dev/ks-apiserver/pkg/") && !strings.HasSuffix(file, "_test.go") && !slices.Contains(s.files, file) {
			s.files = append(s.files, file)
		}
	}
}

// A new filter is one more file that a reader passes: ARCHITECTURE.md lists these under "The main line".
func TestTheMainLineOfARequest(t *testing.T) {
	h, bearer := road(t)
	w := &stackRecorder{discard: discard{header: http.Header{}}}
	h.ServeHTTP(w, roadRequest(t, bearer, "/kapis/road.example/v1/pods?limit=10&page=1"))
	want := []string{
		"filter/request_record.go", "web/route_handler.go", "apiserver/handlers.go", "filter/authorize.go", "filter/members.go",
		"filter/authenticate.go", "filter/protocol_upgrade_checks.go", "filter/request_body_limits.go", "filter/request_info.go", "filter/recover.go",
		"filter/observe.go",
	}
	if !slices.Equal(w.files, want) {
		t.Errorf("got the files %q, want %q", w.files, want)
	}
}

func TestPathsOfKubernetesGoToKubeAPIServer(t *testing.T) {
	to := func(name string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Answered-By", name) })
	}
	h := filter.Info(answer(to("kube"), nil, to("own")))
	for path, want := range map[string]string{
		"/api": "kube", "/apis/apps/v1/deployments": "kube", "/clusters/host/api/v1/pods": "kube",
		"/kapis/x.io/v1/pods": "own", "/apiserver": "own", "/version": "own",
	} {
		w := &discard{header: http.Header{}}
		h.ServeHTTP(w, roadRequest(t, "", path))
		if got := w.header.Get("Answered-By"); got != want {
			t.Errorf("%s went to %q, want %q", path, got, want)
		}
	}
}

// S1: a caller who may see a partial list gets nothing that is no list: neither metrics, nor the documents of the API, nor health.
func TestHandlersThatAreNoRoutesNeverSeeAPart(t *testing.T) {
	p := &components{metrics: prometheus.NewRegistry()}
	container, err := router.NewContainer(someServices())
	if err != nil {
		t.Fatal(err)
	}
	seen := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the documents were reached") })
	h := routes{p}.own(container, seen, seen)
	for _, path := range []string{"/metrics", "/openapi/v2", "/openapi/v3/x", "/healthz", "/livez", "/readyz", "/kapis", "/kapi/v1"} {
		for claim, d := range map[string]authz.Decision{"refused": {}, "part": authz.AllowPartial(authz.NewPartialList([]string{"a"}, nil), "")} {
			r := roadRequest(t, "", path)
			info, err := request.Parse(r)
			if err != nil {
				t.Fatal(err)
			}
			w := &discard{header: http.Header{}}
			h.ServeHTTP(w, r.WithContext(authz.WithDecision(request.WithInfo(r.Context(), info), d)))
			if w.status != http.StatusNotFound && w.status != http.StatusForbidden {
				t.Errorf("%s, %s: code %d", path, claim, w.status)
			}
		}
	}
}

// Requests for resources go to the routes at once: no path of a handler that is no route is one of a resource.
func TestPathsOfHandlersThatAreNoRoutesAreNoResources(t *testing.T) {
	for _, path := range []string{
		"/metrics", "/openapi/v2", "/openapi/v3/apis/x/v1", "/healthz/ping", "/livez", "/readyz/x/y", "/kapis", "/kapis/", "/kapi", "/kapi/v1", "/kapi/v1/",
		"/kapis/x.io", "/kapis/x.io/", "/kapis/x.io/v1", "/kapis/x.io/v1/", "/clusters/host/kapis/x.io/v1", "/kapis/clusters/host/x.io/v1",
		join.PathJoin, join.PathLinks + "a", join.PathDirect,
	} {
		info, err := request.Parse(roadRequest(t, "", path))
		if err != nil {
			t.Fatal(err)
		}
		if info.IsResource {
			t.Errorf("%s is the resource %s", path, info.Asked())
		}
	}
}

func BenchmarkRoad(b *testing.B) {
	h, bearer := road(b)
	w := &discard{header: http.Header{}}
	send := again(h, w, roadRequest(b, bearer, "/kapis/road.example/v1/pods?limit=10&page=1"))
	b.ReportAllocs()
	for b.Loop() {
		send()
	}
	if w.status != http.StatusNotModified {
		b.Fatalf("answered %d", w.status)
	}
}
