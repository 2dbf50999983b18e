package dynamic_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/kapis/dynamic"
	"kapis.dev/ks-apiserver/pkg/kapis/dynamic/read"
	"kapis.dev/ks-apiserver/pkg/kapis/kapistest"
	"kapis.dev/ks-apiserver/pkg/kapis/resources"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/stream"
	"kapis.dev/ks-apiserver/pkg/web"

	"github.com/coder/websocket"
)

// listen serves both generations of routes, as the server would: parsed, then routed.
func listen(t *testing.T) string {
	t.Helper()
	service, guard := kapistest.NewService(t), stream.New(stream.Options{})
	all := dynamic.WebServices(&dynamic.Handler{Handler: &read.Handler{Resources: service, Streams: guard}})
	container := kapistest.Container(append(all, (&resources.V1alpha3{Resources: service, Streams: guard}).WebService())...)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, err := request.Parse(r)
		if err != nil {
			web.WriteError(w, r, err)
			return
		}
		container.ServeHTTP(w, r.WithContext(request.WithInfo(r.Context(), info)))
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

// names are those of the objects in a line, in their order.
func names(t *testing.T, text string) (names string) {
	t.Helper()
	type object struct {
		Kind     string
		Metadata struct{ Name string }
	}
	var m struct {
		Object object
		Items  []object
	}
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	for _, o := range append(m.Items, m.Object) {
		if o.Metadata.Name != "" {
			names += o.Kind + " " + o.Metadata.Name + ","
		}
	}
	return names
}

const (
	dynamicPods = "/kapi/v1"
	olderPods   = "/kapis/resources.kubesphere.io/v1alpha3"
)

func TestEveryListCanBeWatched(t *testing.T) {
	url := listen(t)
	for path, want := range map[string][]string{
		dynamicPods + "/pods?watch=true":                                            {"Pod p1,", "Pod p2,", "Pod p3,"},
		dynamicPods + "/pods?watch=true&fieldSelector=metadata.name%3Dp2":           {"Pod p2,"},
		dynamicPods + "/namespaces/b/pods?watch=1":                                  {"Pod p3,"},
		dynamicPods + "/namespaces/b/pods?watch=1&fieldSelector=metadata.name%3Dp2": nil, // S2
		dynamicPods + "/workspaces/w-a/pods?watch=true":                             {"Pod p1,", "Pod p2,"},
		dynamicPods + "/workspaces/w-a/namespaces/a/pods?watch=true":                {"Pod p1,", "Pod p2,"},
		dynamicPods + "/watch/pods":                                                 {"Pod p1,", "Pod p2,", "Pod p3,"},
		dynamicPods + "/watch/namespaces/a/pods":                                    {"Pod p1,", "Pod p2,"},
		dynamicPods + "/watch/namespaces/a/pods/p2":                                 {"Pod p2,"},
		dynamicPods + "/watch/namespaces/b/pods/p2":                                 nil,
		dynamicPods + "/watch/namespaces/a":                                         {"Namespace a,"},
		dynamicPods + "/watch/workspaces/w-a/pods":                                  {"Pod p1,", "Pod p2,"},
		dynamicPods + "/workspaces/w-p1/pods?watch=true":                            nil,
		"/kapis/tenant.kubesphere.io/v1beta1/workspaces?watch=true":                 {"Workspace w,"},
		"/kapis/tenant.kubesphere.io/v1beta1/watch/workspaces":                      {"Workspace w,"},
		olderPods + "/pods?watch=true":                                              {"Pod p1,", "Pod p2,", "Pod p3,"},
		olderPods + "/namespaces/a/pods?watch=true":                                 {"Pod p1,", "Pod p2,"},
		dynamicPods + "/pods?view=live&limit=2&sortBy=name":                         {"Pod p3,Pod p2,"},
		olderPods + "/namespaces/a/pods?view=live&limit=5&sortBy=name&ascending=1":  {"Pod p1,Pod p2,"},
	} {
		t.Run(path, func(t *testing.T) {
			res := open(t, http.MethodGet, url+path+"&timeoutSeconds=60")
			lines := bufio.NewScanner(res.Body)
			seen := map[string]bool{}
			for range want {
				if !lines.Scan() {
					t.Fatalf("it ends after %v", seen)
				}
				seen[names(t, lines.Text())] = true
			}
			for _, w := range want {
				if !seen[w] {
					t.Errorf("%v lacks %s", seen, w)
				}
			}
			if res.StatusCode != http.StatusOK {
				t.Error(res.Status)
			}
		})
	}
}

// open sends a request, whose stream is closed at the end of the test.
func open(t *testing.T, method, url string, header ...string) *http.Response {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // of a failing test
	t.Cleanup(cancel)
	if !strings.Contains(url, "?") {
		url = strings.Replace(url, "&", "?", 1)
	}
	req, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range header {
		k, v, _ := strings.Cut(h, ": ")
		req.Header.Set(k, v)
	}
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	return res
}

func TestStreamsThatAreRefused(t *testing.T) {
	url := listen(t)
	for path, code := range map[string]int{
		dynamicPods + "/unicorns?watch=true": 404, dynamicPods + "/pods?watch=true&limit=5": 400, dynamicPods + "/pods?view=x": 400,
		dynamicPods + "/namespaces/a/pods/p1/log?watch=true": 404, dynamicPods + "/watch/unicorns": 404, dynamicPods + "/namespaces/a/bindings?watch=true": 405,
		olderPods + "/pods?view=live": 400, olderPods + "/unicorns?view=live&limit=1": 404, olderPods + "/namespaces/a/workspaces?watch=true": 404,
	} {
		if res := open(t, http.MethodGet, url+path); res.StatusCode != code {
			t.Errorf("%s: %s", path, res.Status)
		}
	}
	for _, path := range []string{dynamicPods + "/pods", olderPods + "/pods"} {
		if res := open(t, http.MethodGet, url+path, "Accept: text/event-stream"); res.StatusCode != http.StatusNotAcceptable {
			t.Errorf("%s as events: %s", path, res.Status)
		}
		res := open(t, http.MethodGet, url+path+"?watch=true", "Accept: text/event-stream")
		if text, _ := bufio.NewReader(res.Body).ReadString('\n'); res.Header.Get("Content-Type") != "text/event-stream" || !strings.HasPrefix(text, "retry:") {
			t.Errorf("%s?watch=true as events: %v %s", path, res.Header, text)
		}
	}
}

func TestTheConsoleWatchesByWebSocket(t *testing.T) {
	url := listen(t)
	conn, _, err := websocket.Dial(
		t.Context(),
		url+dynamicPods+"/watch/namespaces/b/pods",
		&websocket.DialOptions{HTTPHeader: http.Header{"Origin": {"http://console.example.com"}}},
	)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseNow()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	typ, text, err := conn.Read(ctx)
	if err != nil || typ != websocket.MessageText || names(t, string(text)) != "Pod p3," ||
		!strings.HasPrefix(string(text), `{"type":"ADDED","object":{"kind":"Pod"`) {
		t.Errorf("%v %s %v", typ, text, err)
	}
}

func TestARightToWatchIsNoneToRead(t *testing.T) {
	service := kapistest.NewService(t)
	c := kapistest.Container(dynamic.WebServices(&dynamic.Handler{Handler: &read.Handler{Resources: service}})...)
	for _, verb := range []string{"watch", "get"} { // as if a parser had read the request differently
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, dynamicPods+"/namespaces/a/pods/p1", nil)
		info, err := request.Parse(r)
		if err != nil {
			t.Fatal(err)
		}
		info.Verb = verb
		rec := httptest.NewRecorder()
		c.ServeHTTP(rec, r.WithContext(request.WithInfo(r.Context(), info)))
		if want := map[string]int{"watch": 405, "get": 200}[verb]; rec.Code != want {
			t.Errorf("%s: %d %s", verb, rec.Code, rec.Body)
		}
	}
	rec := kapistest.Serve(t, c, http.MethodGet, dynamicPods+"/pods?watch=true")
	if rec.Code != http.StatusInternalServerError { // there is no guard
		t.Errorf("a watch that nobody watches over: %d", rec.Code)
	}
}

// Only routes that restrict their answer to the partial list may be marked (S1, S2).
func TestRoutesThatHonourAPartAreMarked(t *testing.T) {
	service := kapistest.NewService(t)
	services := append(dynamic.WebServices(&dynamic.Handler{Handler: &read.Handler{Resources: service}}), (&resources.V1alpha3{Resources: service}).WebService())
	marked := 0
	for _, ws := range services {
		for _, r := range ws.Routes() {
			list := strings.HasSuffix(r.Path, "/{resources}")
			if mark, _ := r.Metadata[web.MetadataPartialList].(bool); mark != list {
				t.Errorf("%s %s: %v", r.Method, r.Path, r.Metadata)
			} else if mark {
				marked++
			}
		}
	}
	if marked == 0 {
		t.Error("no route is marked")
	}
}

func TestThePartIsHandedOn(t *testing.T) { // S2
	service := kapistest.NewService(t)
	guard := stream.New(stream.Options{})
	container := kapistest.Container(
		append(dynamic.WebServices(&dynamic.Handler{Handler: &read.Handler{Resources: service, Streams: guard}}), (&resources.V1alpha3{Resources: service, Streams: guard}).WebService())...)
	part := authz.AllowPartial(&authz.PartialList{Namespaces: []string{"a"}, Key: "k"}, "")
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, err := request.Parse(r)
		if err != nil {
			web.WriteError(w, r, err)
			return
		}
		container.ServeHTTP(w, r.WithContext(authz.WithDecision(request.WithInfo(r.Context(), info), part)))
	}))
	t.Cleanup(srv.Close)
	for _, path := range []string{dynamicPods + "/pods?watch=true", dynamicPods + "/watch/pods?x=y", olderPods + "/pods?view=live&limit=5"} {
		if res := open(t, http.MethodGet, srv.URL+path); res.Header.Get("X-Kapis-Partial") != "true" {
			t.Errorf("%s: %v", path, res.Header)
		}
	}
}
