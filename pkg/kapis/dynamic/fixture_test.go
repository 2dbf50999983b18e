package dynamic

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	restful "github.com/emicklei/go-restful/v3"

	"kapis.dev/ks-apiserver/pkg/kapis/dynamic/read"
	"kapis.dev/ks-apiserver/pkg/kapis/kapistest"
	"kapis.dev/ks-apiserver/pkg/request"
)

// seen is a request as kube-apiserver got it.
type seen struct {
	method, path, query, contentType, accept, agent, body string
	info                                                  *request.Info
}

// fakeKube records its requests, and answers them by answer: with 200 and an empty object where that is nil or returns no code.
type fakeKube struct {
	seen   []seen
	answer func(s seen) (code int, body string)
}

func (k *fakeKube) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	s := seen{
		r.Method, r.URL.Path, r.URL.RawQuery, r.Header.Get("Content-Type"), r.Header.Get("Accept"), r.UserAgent(), string(body),
		request.InfoFrom(r.Context()),
	}
	k.seen = append(k.seen, s)
	rec, code, text := httptest.NewRecorder(), 0, ""
	if k.answer != nil {
		code, text = k.answer(s)
	}
	if code == 0 {
		code, text = http.StatusOK, "{}"
	}
	rec.Header().Set("Content-Type", "application/json")
	if !strings.HasPrefix(text, "{") {
		rec.Header().Set("Content-Type", "text/plain")
	}
	rec.WriteHeader(code)
	_, _ = rec.WriteString(text)
	return rec.Result(), nil
}

func (k *fakeKube) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i := request.InfoFrom(r.Context())
	k.seen = append(k.seen, seen{method: r.Method, path: i.Path, query: r.URL.RawQuery, info: i})
	_, _ = io.WriteString(w, "passed on")
}

// writes are the writes among the recorded requests.
func (k *fakeKube) writes() []seen {
	var out []seen
	for _, s := range k.seen {
		if s.method != http.MethodGet {
			out = append(out, s)
		}
	}
	return out
}

// only returns the one write that was recorded.
func (k *fakeKube) only(t *testing.T) seen {
	t.Helper()
	w := k.writes()
	if len(w) != 1 {
		t.Fatalf("kube-apiserver saw %d writes, want 1: %+v", len(w), k.seen)
	}
	return w[0]
}

// world is the routes with a fake kube-apiserver. Its cache has the namespaces a and b of the workspaces w-a and w-b.
type world struct {
	*fakeKube
	container *restful.Container
}

func newWorld(t *testing.T) *world {
	t.Helper()
	k := &fakeKube{}
	return &world{k, kapistest.Container(WebServices(&Handler{Handler: &read.Handler{Resources: kapistest.NewService(t)}, Kube: k})...)}
}

// do sends a request that the filters have accepted. Headers are "Name: value".
func (w *world) do(t *testing.T, method, path, body string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	w.seen = nil
	return kapistest.Send(t, w.container, method, path, body, append([]string{"User-Agent: kubectl/v1"}, headers...)...)
}

// refused checks that a request is answered with code and a Status that contains all of has, and that nothing was written.
func (w *world) refused(t *testing.T, code int, has string, method, path, body string, headers ...string) {
	t.Helper()
	rec := w.do(t, method, path, body, headers...)
	text := rec.Body.String()
	if rec.Code != code || !strings.Contains(text, has) || !strings.Contains(text, `"kind":"Status"`) {
		t.Errorf("%s %s = %d %s, want %d and %q", method, path, rec.Code, text, code, has)
	}
	if n := len(w.writes()); n != 0 {
		t.Errorf("%s %s: %d writes went out: %+v", method, path, n, w.writes())
	}
}

// holds answers reads of an object of the workspace, and the writes with answers, one after the other.
func (w *world) holds(workspace string, answers ...int) {
	version := 6
	w.answer = func(s seen) (int, string) {
		if s.method == http.MethodGet {
			version++
			return http.StatusOK, fmt.Sprintf(`{"metadata":{"uid":"u","resourceVersion":"%d","labels":{"kubesphere.io/workspace":%q}}}`, version, workspace)
		}
		if len(answers) == 0 {
			return 0, ""
		}
		code := answers[0]
		answers = answers[1:]
		return code, fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d,"message":"answer %d"}`, code, code)
	}
}
