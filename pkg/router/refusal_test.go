package router

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	restful "github.com/emicklei/go-restful/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/web"
)

func TestRefusalsOfTypesSayWhatIsTaken(t *testing.T) {
	ws := new(restful.WebService).Path("/kapis/x/v1").Produces(restful.MIME_JSON)
	nothing := web.Handle(func(*restful.Request) (any, error) { return nil, nil })
	ws.Route(ws.PATCH("/things/{name}").To(nothing).Consumes("application/merge-patch+json", "application/json-patch+json"))
	ws.Route(ws.PUT("/things/{name}").To(nothing).Consumes("application/json"))
	routes, err := NewContainer([]*restful.WebService{ws})
	if err != nil {
		t.Fatal(err)
	}
	for claim, tc := range map[string]struct {
		method, path, header string
		code                 int
		reason, message      string
	}{
		"WrongType": {"PATCH", "/kapis/x/v1/things/a", "Content-Type: text/plain", 415, "UnsupportedMediaType",
			"/kapis/x/v1/things/a: the body is of Content-Type text/plain; what is taken: application/merge-patch+json, application/json-patch+json"},
		"NoType": {"PUT", "/kapis/x/v1/things/a", "Content-Type: ", 415, "UnsupportedMediaType",
			"/kapis/x/v1/things/a: the body has no Content-Type; what is taken: application/json"},
		"NotAcceptable": {"PUT", "/kapis/x/v1/things/a", "Accept: image/png", 406, "NotAcceptable",
			"/kapis/x/v1/things/a: no answer is of a type that the header Accept names (image/png); what there is: application/json"},
		"NoRoute": {"GET", "/kapis/x/v1/others", "", 404, "NotFound", "the server could not find the requested resource"},
	} {
		t.Run(claim, func(t *testing.T) {
			r := httptest.NewRequest(tc.method, tc.path, strings.NewReader("{}"))
			r.Header.Set("Content-Type", "application/json")
			if k, v, ok := strings.Cut(tc.header, ": "); ok {
				if r.Header.Set(k, v); v == "" {
					r.Header.Del(k)
				}
			}
			w := httptest.NewRecorder()
			routes.ServeHTTP(w, r.WithContext(authz.WithDecision(r.Context(), authz.Allow("", ""))))
			var s metav1.Status
			if err := json.Unmarshal(w.Body.Bytes(), &s); err != nil || w.Code != tc.code || string(s.Reason) != tc.reason || s.Message != tc.message ||
				w.Code == http.StatusOK {
				t.Errorf("%d %s %v", w.Code, w.Body, err)
			}
		})
	}
}
