package filter

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// O14: the event of a create names the object, as the answer does, and never as anything else does.
func TestAuditNamesWhatWasCreated(t *testing.T) {
	answer := func(code int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(code)
			_, _ = io.WriteString(w, body)
		}
	}
	const created = `{"kind":"Pod","spec":{"metadata":{"name":"inner"}},"metadata":{"generateName":"p-","name":"p-7","uid":"u-1","resourceVersion":"9","labels":{"name":"label"}}}`
	named := auditv1.ObjectReference{Resource: "pods", Namespace: "a", APIVersion: "v1", Name: "p-7", UID: "u-1", ResourceVersion: "9"}
	unnamed := auditv1.ObjectReference{Resource: "pods", Namespace: "a", APIVersion: "v1"}
	gzipped := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		answer(http.StatusCreated, created)(w, r)
	}
	for name, tc := range map[string]struct {
		path string
		do   http.HandlerFunc
		want auditv1.ObjectReference
	}{
		"Created":            {"/api/v1/namespaces/a/pods", answer(http.StatusCreated, created), named},
		"CutAfterItsName":    {"/api/v1/namespaces/a/pods", answer(http.StatusCreated, created[:len(created)-3]+strings.Repeat(" ", maxCreated)+"}}"), named},
		"MetadataComesLate":  {"/api/v1/namespaces/a/pods", answer(http.StatusCreated, `{"a":"`+strings.Repeat("x", maxCreated)+`",`+created[1:]), unnamed},
		"Refused":            {"/api/v1/namespaces/a/pods", answer(http.StatusConflict, created), unnamed},
		"NotAnObject":        {"/api/v1/namespaces/a/pods", answer(http.StatusCreated, `[`+created+`]`), unnamed},
		"NoText":             {"/api/v1/namespaces/a/pods", answer(http.StatusCreated, `{"metadata":{"name":7}}`), unnamed},
		"CompressedIsUnread": {"/api/v1/namespaces/a/pods", gzipped, unnamed},
		"TheRequestNamesIt": {"/api/v1/namespaces/a/pods/mine/eviction", answer(http.StatusCreated, created),
			auditv1.ObjectReference{Resource: "pods", Subresource: "eviction", Namespace: "a", Name: "mine", APIVersion: "v1"}},
	} {
		t.Run(name, func(t *testing.T) {
			sink := &audited{t: t}
			h := Chain(tc.do, Auditing{Sink: sink, Now: time.Now}.Wrap, Info)
			serve(h, httptest.NewRequest(http.MethodPost, tc.path, strings.NewReader("{}")))
			if len(sink.events) != 1 || *sink.events[0].ObjectRef != tc.want {
				t.Errorf("got %+v, want the object %+v", sink.events, tc.want)
			}
		})
	}
}
