package filter

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/request"
)

func newMetrics(t *testing.T) (*Metrics, *prometheus.Registry) {
	t.Helper()
	reg := prometheus.NewRegistry()
	m, err := NewMetrics(reg)
	if err != nil {
		t.Fatal(err)
	}
	return m, reg
}

func TestRecordKeepsWhatTheWriterCan(t *testing.T) {
	check := func(w http.ResponseWriter, hijack bool) {
		t.Helper()
		if _, ok := w.(http.Hijacker); ok != hijack {
			t.Errorf("Hijacker is %v, want %v", ok, hijack)
		}
		if _, ok := w.(http.Flusher); !ok {
			t.Error("no Flusher")
		}
		if _, ok := w.(io.ReaderFrom); !ok {
			t.Error("no ReaderFrom")
		}
		if err := http.NewResponseController(w).SetWriteDeadline(time.Time{}); err != nil {
			t.Errorf("the controller does not reach the inner writer: %v", err)
		}
	}
	for name, http2 := range map[string]bool{"HTTP1": false, "HTTP2": true} {
		t.Run(name, func(t *testing.T) {
			srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w, _, _ = recorded(w, r)
				check(w, !http2)
				ok(w, nil)
			}))
			srv.EnableHTTP2 = http2
			srv.StartTLS()
			defer srv.Close()
			res, err := srv.Client().Get(srv.URL)
			if err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
		})
	}
}

func TestOneRecordPerRequest(t *testing.T) {
	w1, r1, rec1 := recorded(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
	w2, r2, rec2 := recorded(w1, r1)
	if w1 != w2 || r1 != r2 || rec1 != rec2 {
		t.Error("a request was wrapped twice")
	}
	ctx, cancel := context.WithCancel(r1.Context())
	defer cancel()
	between := struct{ http.ResponseWriter }{w1}
	if w3, _, rec3 := recorded(between, r1.WithContext(ctx)); w3 != between || rec3 != rec1 {
		t.Error("a request whose writer and context were wrapped between two filters lost its record")
	}
}

func TestRecordIsTheContextOfItsRequest(t *testing.T) {
	type key struct{}
	outer := context.WithValue(t.Context(), key{}, "outer")
	outer = authz.WithDecision(request.WithUser(request.WithInfo(outer, &request.Info{Verb: "outer"}), anonymous), authz.Allow("", ""))
	_, r, rec := recorded(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil).WithContext(outer))
	if d := authz.DecisionFrom(r.Context()); d.Allowed() {
		t.Error("the decision on another request counts for this one")
	}
	bob := &user.DefaultInfo{Name: "bob"}
	rec.info, rec.user, rec.decision = &request.Info{Verb: "get"}, bob, authz.Decision{Group: "g"}
	ctx, cancel := context.WithCancel(r.Context())
	if request.InfoFrom(ctx).Verb != "get" || request.UserFrom(ctx) != user.Info(bob) || authz.DecisionFrom(ctx).Group != "g" || ctx.Value(key{}) != "outer" {
		t.Errorf("the context has %+v %+v %+v %v", request.InfoFrom(ctx), request.UserFrom(ctx), authz.DecisionFrom(ctx), ctx.Value(key{}))
	}
	cancel()
	if ctx.Err() == nil || r.Context().Err() != nil {
		t.Error("the end of a derived context went upward, or nowhere")
	}
}

// A request that a handler sends through the chain again, with the context of its own, is authorized by itself, and does not change the outer one.
func TestARequestWithinARequestIsJudgedByItself(t *testing.T) {
	var inner http.Handler
	chain := func(h http.HandlerFunc) http.Handler {
		return Chain(h, Recover, Info, Authentication{Authenticator: tokens}.Wrap, Authorize(namedOnly))
	}
	inner = chain(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("%s got in", request.UserFrom(r.Context()).GetName())
	})
	outer := chain(func(w http.ResponseWriter, r *http.Request) {
		again := httptest.NewRequest(http.MethodGet, "/api/v1/secrets", nil).WithContext(r.Context())
		if got := serve(inner, again); got.Code != http.StatusForbidden {
			t.Errorf("the inner request, without credentials, was answered with %d", got.Code)
		}
		if u, i := request.UserFrom(r.Context()), request.InfoFrom(r.Context()); u.GetName() != "bob" || i.Resource != "pods" || !authz.DecisionFrom(r.Context()).
			Allowed() {
			t.Errorf("the outer request is now %s's for %+v", u.GetName(), i)
		}
		ok(w, r)
	})
	r := httptest.NewRequest(http.MethodGet, "/api/v1/pods", nil)
	r.Header.Set("Authorization", "Bearer bob")
	if got := serve(outer, r); got.Code != http.StatusOK {
		t.Errorf("the outer request was answered with %d", got.Code)
	}
}

func TestRecordCounts(t *testing.T) {
	for name, c := range map[string]struct {
		do    func(http.ResponseWriter)
		code  int
		bytes int64
	}{
		"Write":            {func(w http.ResponseWriter) { _, _ = io.WriteString(w, "abc") }, 200, 3},
		"ReadFrom":         {func(w http.ResponseWriter) { _, _ = io.Copy(w, io.LimitReader(strings.NewReader("abcd"), 4)) }, 200, 4},
		"Header":           {func(w http.ResponseWriter) { w.WriteHeader(http.StatusNotFound) }, 404, 0},
		"FirstHeaderWins":  {func(w http.ResponseWriter) { w.WriteHeader(http.StatusNotFound); w.WriteHeader(http.StatusOK) }, 404, 0},
		"InformationalNot": {func(w http.ResponseWriter) { w.WriteHeader(http.StatusEarlyHints); w.WriteHeader(http.StatusCreated) }, 201, 0},
		"Flush":            {func(w http.ResponseWriter) { w.(http.Flusher).Flush() }, 200, 0},
		"Nothing":          {func(http.ResponseWriter) {}, 200, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w, _, rec := recorded(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
			c.do(w)
			if rec.code() != c.code || rec.bytes != c.bytes {
				t.Errorf("got %d, %d bytes", rec.code(), rec.bytes)
			}
		})
	}
}

func TestRecover(t *testing.T) {
	m, reg := newMetrics(t)
	for name, c := range map[string]struct {
		do      func(http.ResponseWriter)
		code    int
		aborted bool
	}{
		"PanicIs500":            {func(http.ResponseWriter) { panic("secret text") }, 500, false},
		"NilMapIs500":           {func(http.ResponseWriter) { var p *request.Info; _ = p.Verb }, 500, false},
		"LengthOfNothingIsGone": {func(w http.ResponseWriter) { w.Header().Set("Content-Length", "9999"); panic(1) }, 500, false},
		"AbortGoesOn":           {func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, 0, true},
		"WrappedAbortGoesOn":    {func(http.ResponseWriter) { panic(errors.Join(http.ErrAbortHandler)) }, 0, true},
		"HalfAnAnswerIsAborted": {func(w http.ResponseWriter) { _, _ = io.WriteString(w, `{"a":`); panic(1) }, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			h := Chain(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { c.do(w) }), Observe(m), Recover)
			srv := httptest.NewServer(h)
			defer srv.Close()
			res, err := http.Get(srv.URL + "/version")
			if err == nil {
				defer func() { _ = res.Body.Close() }()
				var body []byte
				body, err = io.ReadAll(res.Body)
				if strings.Contains(string(body), "secret") {
					t.Errorf("the answer tells the panic: %s", body)
				}
			}
			if (err != nil) != c.aborted {
				t.Fatalf("the client sees %v", err)
			}
			if !c.aborted && res.StatusCode != c.code {
				t.Errorf("code %d", res.StatusCode)
			}
		})
	}
	if n, err := testutil.GatherAndCount(reg, "ks_server_request_total"); err != nil || n == 0 {
		t.Errorf("panics are not counted: %v", err)
	}
}

func TestMetricsNameWhatWasAskedFor(t *testing.T) {
	m, reg := newMetrics(t)
	h := Chain(http.HandlerFunc(ok), Observe(m), Recover, Info)
	for _, path := range []string{"/apis/apps/v1/deployments", "/apis/apps/v1/deployments", "/version", "/a//b", "/api/v1/pods?watch=1", "/readyz?verbose",
		"/kapi/v1/nodes?limit=1&view=live"} {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		serve(h, r)
	}
	want := `
# HELP ks_server_request_total Requests, by what they asked for and the status code of the answer.
# TYPE ks_server_request_total counter
ks_server_request_total{code="200",group="",resource="",verb="get",version=""} 1
ks_server_request_total{code="200",group="",resource="nodes",verb="list",version="v1"} 1
ks_server_request_total{code="200",group="",resource="pods",verb="watch",version="v1"} 1
ks_server_request_total{code="200",group="apps",resource="deployments",verb="list",version="v1"} 2
ks_server_request_total{code="200",group="",resource="",verb="probe",version=""} 1
ks_server_request_total{code="400",group="",resource="",verb="get",version=""} 1
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "ks_server_request_total"); err != nil {
		t.Error(err)
	}
	if n, err := testutil.GatherAndCount(reg, "ks_server_request_duration_seconds"); err != nil || n != 3 {
		t.Errorf("%d timed series, want lists, probes and the rest but no watch and no live page: %v", n, err)
	}
}

func TestMetricsOfWhatDoesNotExistShareOneSeries(t *testing.T) {
	m, reg := newMetrics(t)
	code := http.StatusNotFound
	h := Chain(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }), Observe(m), Info)
	for _, s := range []string{"a", "b", "c", "d"} {
		serve(h, httptest.NewRequest(http.MethodGet, "/apis/"+s+"/v1/"+s+"s", nil))
	}
	for _, method := range []string{"FOO", "BAR"} {
		serve(h, httptest.NewRequest(method, "/version", nil))
	}
	if n, err := testutil.GatherAndCount(reg, "ks_server_request_total"); err != nil || n != 2 {
		t.Errorf("%d series, want one for the resources and one for the methods: %v", n, err)
	}
	code = http.StatusOK // now that something exists, its failures are its own
	serve(h, httptest.NewRequest(http.MethodGet, "/apis/a/v1/as", nil))
	code = http.StatusForbidden
	serve(h, httptest.NewRequest(http.MethodGet, "/apis/a/v1/as", nil))
	serve(h, httptest.NewRequest(http.MethodGet, "/apis/b/v1/bs", nil))
	if n, err := testutil.GatherAndCount(reg, "ks_server_request_total"); err != nil || n != 5 {
		t.Errorf("%d series, want 5: %v", n, err)
	}
}

func TestMetricsAreBounded(t *testing.T) {
	m, _ := newMetrics(t)
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	for i := range maxResources + 100 {
		name := "r" + strings.Repeat("x", i%50) + string(rune('a'+i%26)) + time.Duration(i).String()
		m.observe(&record{info: &request.Info{IsResource: true, Verb: "get", Resource: name}}, r, 0)
	}
	if got := len(m.known); got != maxResources {
		t.Errorf("%d resources have series", got)
	}
	if got := len(m.series); got > maxResources+1 {
		t.Errorf("%d series", got)
	}
}

func TestCountingAllocatesNothing(t *testing.T) {
	m, _ := newMetrics(t)
	rec := &record{status: 200, info: &request.Info{IsResource: true, Verb: "list", APIGroup: "apps", APIVersion: "v1", Resource: "deployments"}}
	r := httptest.NewRequest(http.MethodGet, "/?limit=10&labelSelector=app%3Dweb&page=2", nil)
	if n := testing.AllocsPerRun(100, func() { m.observe(rec, r, time.Millisecond) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestWhatLastsAsLongAsTheClientLikesIsNotTimed(t *testing.T) {
	for target, want := range map[string]bool{
		"/kapi/v1/pods?view=live&limit=10":                                     true,
		"/kapis/apps/v1/namespaces/a/deployments?limit=1&v%69ew=l%69ve":        true,
		"/clusters/host/kapis/resources.kubesphere.io/v1alpha3/pods?view=live": true,
		"/kapi/v1/pods?view=live&view=x":                                       true,
		"/kapi/v1/pods?view=x&view=live":                                       false,
		"/kapi/v1/pods?review=live":                                            false,
		"/kapi/v1/pods?q=view=live":                                            false,
		"/kapi/v1/pods?limit=10":                                               false,
		"/kapi/v1/namespaces/a/pods/p?view=live":                               false,
		"/api/v1/pods?view=live":                                               false, // which kube-apiserver answers like any list
		"/api/v1/pods?watch=true":                                              true,
		"/kapi/v1/watch/pods":                                                  true,
		"/kapi/v1/namespaces/a/pods/p/log":                                     true,
		"/api/v1/namespaces/a/services/s/proxy/x":                              true,
		"/oauth/userinfo?view=live":                                            false,
	} {
		r := httptest.NewRequest(http.MethodGet, target, nil)
		info, err := request.Parse(r)
		if err != nil {
			t.Fatalf("%s: %v", target, err)
		}
		if got := lasting(info, r.URL.RawQuery); got != want {
			t.Errorf("%s: %v", target, got)
		}
	}
	if lasting(nil, "view=live") {
		t.Error("what nobody understood was over at once")
	}
}
