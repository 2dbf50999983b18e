package child

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// sent notes the requests that reach kube-apiserver.
type sent struct{ requests []*http.Request }

func (s *sent) RoundTrip(r *http.Request) (*http.Response, error) {
	s.requests = append(s.requests, r)
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

// closes notes that a body was closed.
type closes struct {
	io.Reader
	closed bool
}

func (c *closes) Close() error { c.closed = true; return nil }

// X23: a preview sends reads and dry runs, whatever it is asked to send; what can't be a dry run is not sent.
func TestX23APreviewSendsNoWrite(t *testing.T) {
	const path = "https://kube.example/api/v1/namespaces/a/configmaps/b"
	for _, c := range []struct {
		method, url, upgrade string
		sent, dry            bool
	}{
		{http.MethodGet, path, "", true, false},
		{http.MethodHead, path, "", true, false},
		{http.MethodPost, path, "", true, true},
		{http.MethodPut, path, "", true, true},
		{http.MethodPatch, path + "?fieldManager=helm&force=true", "", true, true},
		{http.MethodPost, path + "?dryRun=", "", true, true},
		{http.MethodPost, path + "?dryRun=None&dryRun=Some", "", true, true},
		{http.MethodPost, path + "?%64ryRun=None", "", true, true},
		{http.MethodDelete, path, "", false, false},
		{http.MethodDelete, path + "?dryRun=All", "", false, false},
		{"patch", path, "", false, false},
		{"CONNECT", path, "", false, false},
		{http.MethodOptions, path, "", false, false},
		{http.MethodGet, path + "/exec?command=sh", "SPDY/3.1", false, false},
		{http.MethodPost, path + "/exec?command=sh", "websocket", false, false},
	} {
		s, body := &sent{}, &closes{Reader: bytes.NewReader([]byte(`{"dryRun":[]}`))}
		r, err := http.NewRequestWithContext(t.Context(), c.method, c.url, body)
		if err != nil {
			t.Fatal(err)
		}
		if c.upgrade != "" {
			r.Header.Set("Upgrade", c.upgrade)
		}
		before := r.URL.String()
		answer, err := dryRuns{s}.RoundTrip(r)
		if err == nil {
			_ = answer.Body.Close()
		}
		if (err == nil) != c.sent || (len(s.requests) == 1) != c.sent || body.closed == c.sent {
			t.Errorf("%s %s: %d sent, body closed: %v, %v", c.method, c.url, len(s.requests), body.closed, err)
			continue
		}
		if c.sent && !reflect.DeepEqual(s.requests[0].URL.Query()["dryRun"], map[bool][]string{true: {"All"}}[c.dry]) {
			t.Errorf("%s %s: sent as %s", c.method, c.url, s.requests[0].URL)
		}
		if r.URL.String() != before {
			t.Errorf("the caller's request became %s", r.URL)
		}
	}
}

// X23: which fields change is said, and none of their values.
func TestX23ChangedFieldsAreNamedWithoutTheirValues(t *testing.T) {
	before := map[string]any{
		"metadata": map[string]any{"name": "a", "resourceVersion": "1", "annotations": map[string]any{"example.com/a.b": "canary", "plain": "canary"}},
		"data":     map[string]any{"password": "canary", "same": "canary", "gone": "canary"},
		"spec": map[string]any{"replicas": int64(1), "containers": []any{map[string]any{"image": "canary"}, map[string]any{"image": "same"}},
			"ports": []any{int64(1)}, "kind": map[string]any{"a": "b"}},
		"status": map[string]any{"canary": "canary"},
	}
	after := map[string]any{
		"metadata": map[string]any{"name": "a", "resourceVersion": "2", "managedFields": []any{"canary"},
			"annotations": map[string]any{"example.com/a.b": "other", "plain": "other"}},
		"data": map[string]any{"password": "other", "same": "canary", "new": "canary"},
		"spec": map[string]any{"replicas": int64(2), "containers": []any{map[string]any{"image": "other"}, map[string]any{"image": "same"}},
			"ports": []any{int64(1), int64(2)}, "kind": "text"},
		"status": map[string]any{},
	}
	want := []string{"data.gone", "data.new", "data.password", "metadata.annotations.plain", "metadata.annotations[example.com/a.b]",
		"spec.containers[0].image", "spec.kind", "spec.ports", "spec.replicas"}
	if got := changedFields(before, after); !reflect.DeepEqual(got, want) {
		t.Errorf("got %q", got)
	}
	if got := changedFields(before, before); len(got) != 0 {
		t.Errorf("of the same object: %q", got)
	}
	many := map[string]any{}
	for i := range 100 {
		many[strings.Repeat("k", i+1)] = "v"
	}
	if got := changedFields(nil, map[string]any{"data": many}); len(got) != 1 || got[0] != "data" {
		t.Errorf("of a new field: %q", got)
	}
	got := changedFields(map[string]any{"data": map[string]any{}}, map[string]any{"data": many})
	if len(got) != maxFields+1 || got[maxFields] != "and 50 more" {
		t.Errorf("of many fields: %d, %q", len(got), got[len(got)-1])
	}
}

// X23: kube-apiserver's refusals quote what is not valid, and a preview does not.
func TestX23AProblemQuotesNothing(t *testing.T) {
	refused := &apierrors.StatusError{ErrStatus: metav1.Status{Code: 422, Reason: "Invalid", Message: `spec.a: Invalid value: "canary"`,
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Field: "spec.a", Message: "canary"}, {Field: "spec.a"}, {Field: "spec.b"}}}}}
	if got := problemOf(errors.Join(refused)); got != "kube-apiserver answers 422 Invalid, because of spec.a, spec.b" {
		t.Error(got)
	}
	if got := problemOf(errors.New("canary")); strings.Contains(got, "canary") {
		t.Error(got)
	}
}
