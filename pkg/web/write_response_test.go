package web_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	restful "github.com/emicklei/go-restful/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kapis.dev/ks-apiserver/pkg/web"
)

func answer(t *testing.T, h web.Handler, method string) *httptest.ResponseRecorder {
	t.Helper()
	ws := new(restful.WebService).Path("/x").Produces(restful.MIME_JSON)
	ws.Route(ws.GET("").To(web.Handle(h)))
	ws.Route(ws.HEAD("").To(web.Handle(h)))
	c := restful.NewContainer()
	c.Add(ws)
	w := httptest.NewRecorder()
	c.ServeHTTP(w, httptest.NewRequest(method, "/x", nil))
	return w
}

func TestErrorsAreStatusesWithTheirOwnCode(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	retry := apierrors.NewServiceUnavailable("the cache of pods is loading")
	retry.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: 2}
	for _, c := range []struct {
		name    string
		err     error
		code    int
		message string
		headers map[string]string
	}{
		{"not found", apierrors.NewNotFound(pods, "a"), 404, `pods "a" not found`, nil},
		{"a wrapped error keeps its code", fmt.Errorf("get pod: %w", apierrors.NewConflict(pods, "a", errors.New("changed"))), 409, "changed", nil},
		{"401 says how to authenticate", apierrors.NewUnauthorized("who are you"), 401, "who are you", map[string]string{"WWW-Authenticate": "Bearer"}},
		{"503 says when to come back", retry, 503, "loading", map[string]string{"Retry-After": "2"}},
		{"a deadline", fmt.Errorf("wait: %w", context.DeadlineExceeded), 504, "took too long", nil},
		{"an unknown error tells nothing of itself", errors.New("secret path /etc/x"), 500, "see the server's log", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := answer(t, func(*restful.Request) (any, error) { return nil, c.err }, http.MethodGet)
			var s metav1.Status
			if err := json.Unmarshal(w.Body.Bytes(), &s); err != nil {
				t.Fatalf("body %q: %v", w.Body, err)
			}
			if w.Code != c.code || int(s.Code) != c.code || s.Kind != "Status" || s.APIVersion != "v1" || s.Status != "Failure" ||
				!strings.Contains(s.Message, c.message) {
				t.Errorf("%d %s, want a Status with %d and %q", w.Code, w.Body, c.code, c.message)
			}
			if strings.Contains(w.Body.String(), "/etc/x") {
				t.Error("the text of an internal error reached the client")
			}
			for k, v := range c.headers {
				if w.Header().Get(k) != v {
					t.Errorf("%s = %q, want %q", k, w.Header().Get(k), v)
				}
			}
			if w.Header().Get("X-Content-Type-Options") != "nosniff" || w.Header().Get("Content-Type") != "application/json" { // S59
				t.Errorf("headers %v: not safe from sniffing", w.Header())
			}
		})
	}
}

type teapot struct{}

func (teapot) Respond(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }

func TestValuesAreWrittenOrWriteThemselves(t *testing.T) {
	value := func(v any) web.Handler { return func(*restful.Request) (any, error) { return v, nil } }
	if w := answer(t, value(map[string]int{"a": 1}), http.MethodGet); w.Code != 200 || w.Body.String() != `{"a":1}` {
		t.Errorf("value: %d %s", w.Code, w.Body)
	}
	if w := answer(t, value(map[string]int{"a": 1}), http.MethodHead); w.Code != 200 || w.Body.Len() != 0 || w.Header().Get("Content-Length") != "7" {
		t.Errorf("HEAD: %d %q, length %s", w.Code, w.Body, w.Header().Get("Content-Length"))
	}
	if w := answer(t, value(teapot{}), http.MethodGet); w.Code != http.StatusTeapot {
		t.Errorf("responder: %d", w.Code)
	}
	if w := answer(t, value(make(chan int)), http.MethodGet); w.Code != 500 {
		t.Errorf("a value that is not JSON: %d", w.Code)
	}
}
