package filter_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/filter"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/web"
)

func TestAnswersAreYAMLForWhoAsksForIt(t *testing.T) {
	answer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/kapis/x/v1/text":
			w.Header().Set("Content-Type", "text/plain")
			_, _ = w.Write([]byte(`{"a":1}`))
		case "/kapis/x/v1/long":
			web.WriteJSON(w, r, http.StatusOK, strings.Repeat("x", 4<<20))
		case "/kapis/x/v1/deep":
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(strings.Repeat(`{"a":`, 2000) + "[" + strings.Repeat("1,", 20_000) + "1]" + strings.Repeat("}", 2000)))
		case "/kapis/x/v1/error":
			web.WriteError(w, r, http.ErrNoLocation)
		default:
			w.Header().Set("ETag", `"json"`)
			if r.Header.Get("If-None-Match") != "" {
				w.WriteHeader(http.StatusNotModified)
				return
			}
			web.WriteJSON(w, r, http.StatusOK, map[string]any{"kind": "Pod", "encoding": r.Header.Get("Accept-Encoding")})
		}
	})
	h := filter.Chain(answer, filter.Info, filter.YAML)
	const json, yaml = "application/json", "application/yaml"
	for name, tc := range map[string]struct {
		method, path, accept string
		code                 int
		media, body          string
	}{
		"AnObject":       {"GET", "pods/a", yaml, 200, yaml, "encoding: \"\"\nkind: Pod\n"},
		"WithParameters": {"GET", "pods/a", "text/html, application/yaml;charset=utf-8", 200, yaml, "kind: Pod"},
		"JSONIsAsGood":   {"GET", "pods/a", "application/yaml, application/json;q=0.1", 304, "", ""},
		"NothingSaid":    {"GET", "pods/a", "", 304, "", ""},
		"Anything":       {"GET", "pods/a", "*/*", 304, "", ""},
		"AWrite":         {"POST", "pods", yaml, 304, "", ""},
		"AWatch":         {"GET", "pods?watch=true", yaml, 304, "", ""},
		"ALivePage":      {"GET", "pods?view=live", yaml, 304, "", ""},
		"AText":          {"GET", "text", yaml, 200, "text/plain", `{"a":1}`},
		"AnError":        {"GET", "error", yaml, 500, yaml, "kind: Status"},
		"TooLong":        {"GET", "long", yaml, 413, json, "limit and page"},
		"TooDeep":        {"GET", "deep", yaml, 413, json, "limit and page"},
		"JSONRefused":    {"GET", "pods/a", "application/yaml, application/json;q=0", 200, yaml, "kind: Pod"},
		"AFile":          {"GET", "namespaces/a/pods/a/file", yaml, 304, "", ""},
		"AHead":          {"HEAD", "pods/a", yaml, 200, yaml, ""},
		"OfKubernetes":   {"GET", "../../../api/v1/pods", yaml, 304, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest(tc.method, path.Join("/kapis/x/v1/", tc.path), nil)
			r.Header.Set("If-None-Match", `"json"`)
			r.Header.Set("Accept-Encoding", "gzip")
			if tc.accept != "" {
				r.Header.Set("Accept", tc.accept)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			got := w.Result()
			if got.StatusCode != tc.code || got.Header.Get("Content-Type") != tc.media || !strings.Contains(w.Body.String(), tc.body) {
				t.Errorf("got %d %s %.200s; want %d %s %s", got.StatusCode, got.Header.Get("Content-Type"), w.Body, tc.code, tc.media, tc.body)
			}
			if tc.media == yaml && got.Header.Get("ETag") != "" {
				t.Errorf("the YAML has the entity tag of the JSON, %s", got.Header.Get("ETag"))
			}
		})
	}
}

func TestAHeadOfYAMLHasTheLengthOfIt(t *testing.T) {
	h := filter.Chain(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		web.WriteJSON(w, r, http.StatusOK, map[string]any{"endless": web.IsHead(r)})
	}), filter.Info, filter.YAML)
	for method, want := range map[string][2]string{http.MethodGet: {"endless: false\n", "15"}, http.MethodHead: {"", "14"}} { // "endless: true"
		r := httptest.NewRequest(method, "/kapis/x/v1/pods/a", nil)
		r.Header.Set("Accept", "application/yaml")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if n := w.Header().Get("Content-Length"); w.Code != http.StatusOK || w.Body.String() != want[0] || n != want[1] {
			t.Errorf("%s: %d, %s bytes: %q", method, w.Code, n, w.Body)
		}
	}
}

// stalled is a client that reads nothing of an answer before it is let go.
type stalled struct {
	*httptest.ResponseRecorder
	began chan struct{}
	goOn  chan struct{}
	timed bool // it has a bounded time
}

func (s *stalled) Write(p []byte) (int, error) {
	select {
	case s.began <- struct{}{}:
	case <-s.goOn:
	}
	<-s.goOn
	return s.ResponseRecorder.Write(p)
}

func (s *stalled) SetWriteDeadline(at time.Time) error {
	s.timed = s.timed || !at.IsZero()
	return nil
}

// U8: clients that read nothing keep nobody else from YAML, but for bytes that are in memory for them.
func TestAClientThatReadsNothingKeepsNobodyFromYAML(t *testing.T) {
	const long = 4 << 20
	text := bytes.Repeat([]byte("x"), long)
	h := filter.Chain(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "short") {
			web.WriteJSON(w, r, http.StatusOK, "x")
			return
		}
		w.Header().Set("Content-Type", "text/plain") // what is no JSON is sent as it is
		_, _ = w.Write(text)
	}), filter.Info, filter.YAML)
	ask := func(w http.ResponseWriter, who, name string) {
		r := httptest.NewRequest(http.MethodGet, "/kapis/x/v1/pods/"+name, nil)
		r = r.WithContext(request.WithUser(r.Context(), &user.DefaultInfo{Name: who}))
		r.Header.Set("Accept", "application/yaml")
		h.ServeHTTP(w, r)
	}
	goOn, all := make(chan struct{}), sync.WaitGroup{}
	var clients []*stalled
	for i := range 32 { // 128 MiB, of which one user has at most half
		s := &stalled{ResponseRecorder: httptest.NewRecorder(), began: make(chan struct{}), goOn: goOn}
		clients = append(clients, s)
		all.Go(func() { ask(s, []string{"ann", "bob"}[i/16], "long") })
		<-s.began
		if i == 15 {
			w := httptest.NewRecorder()
			if ask(w, "ann", "long"); w.Code != http.StatusTooManyRequests {
				t.Errorf("one user takes the room of the others: got %d", w.Code)
			}
		}
	}
	for name, want := range map[string]int{"short": http.StatusOK, "long": http.StatusTooManyRequests} {
		w := httptest.NewRecorder()
		if ask(w, "eve", name); w.Code != want {
			t.Errorf("%s: got %d %.200s", name, w.Code, w.Body)
		}
	}
	close(goOn)
	all.Wait()
	for _, s := range clients {
		if s.Code != http.StatusOK || s.Body.Len() != long || !s.timed {
			t.Errorf("a client that read late: %d, %d bytes, with a deadline: %v", s.Code, s.Body.Len(), s.timed)
		}
	}
}

func TestFewAnswersAreYAMLAtOnce(t *testing.T) {
	began, finish := make(chan struct{}), make(chan struct{})
	h := filter.Chain(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began <- struct{}{}
		<-finish
		web.WriteJSON(w, r, http.StatusOK, "x")
	}), filter.Info, filter.YAML)
	ask := func() *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, "/kapis/x/v1/pods", nil)
		r.Header.Set("Accept", "application/yaml")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	answers := make(chan *httptest.ResponseRecorder)
	for range 8 {
		go func() { answers <- ask() }()
		<-began
	}
	if w := ask(); w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") == "" {
		t.Errorf("the ninth at once: got %d %s", w.Code, w.Body)
	}
	close(finish)
	for range 8 {
		if w := <-answers; w.Code != http.StatusOK {
			t.Errorf("got %d %s", w.Code, w.Body)
		}
	}
	go func() { <-began }()
	if w := ask(); w.Code != http.StatusOK {
		t.Errorf("after the others: got %d %s", w.Code, w.Body)
	}
}
