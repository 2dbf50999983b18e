package cluster_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"kapis.dev/ks-apiserver/pkg/kapis/cluster"
	"kapis.dev/ks-apiserver/pkg/kapis/kapistest"
	"kapis.dev/ks-apiserver/pkg/request"
)

const (
	root = "/kapis/cluster.kubesphere.io/v1alpha1"
	path = "/apis/cluster.kubesphere.io/v1alpha1/labels"
)

func label(name, created, key, value string) string {
	return fmt.Sprintf(`{"apiVersion":"cluster.kubesphere.io/v1alpha1","kind":"Label","metadata":{"name":%q,"resourceVersion":"5","creationTimestamp":%q},`+
		`"spec":{"key":%q,"value":%q,"clusters":["host"]}}`, name, created, key, value)
}

// The page of clusters reads an object of keys, and breaks on a list.
func TestLabelsAreAnsweredByKey(t *testing.T) {
	for name, c := range map[string]struct {
		objects []any
		want    string
	}{
		"None": {nil, `{}`},
		"TheValuesOfAKeyInTheOrderInWhichTheyWereMade": {
			[]any{label("b", "2026-01-02T00:00:00Z", "env", "live"), label("a", "2026-01-03T00:00:00Z", "env", "test"),
				label("c", "2026-01-01T00:00:00Z", "region", "eu \"1\"")},
			`{"env":[{"value":"live","id":"b"},{"value":"test","id":"a"}],"region":[{"value":"eu \"1\"","id":"c"}]}`,
		},
		"AKeyAlone": {[]any{`{"metadata":{"name":"x","resourceVersion":"5"},"spec":{"key":"gpu"}}`}, `{"gpu":[{"value":"","id":"x"}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			h := &cluster.V1alpha1{Caches: kapistest.NewAccounts(t, map[string][]any{path: c.objects})}
			rec := kapistest.Serve(t, kapistest.Container(h.WebService()), http.MethodGet, root+"/labels")
			if rec.Code != http.StatusOK || rec.Body.String() != c.want {
				t.Errorf("%d %s", rec.Code, rec.Body)
			}
		})
	}
}

// S2: what was authorized is what is answered.
func TestOnlyTheListThatWasAuthorizedIsAnswered(t *testing.T) {
	h := &cluster.V1alpha1{Caches: kapistest.NewAccounts(t, map[string][]any{path: {label("a", "2026-01-01T00:00:00Z", "env", "test")}})}
	c := kapistest.Container(h.WebService())
	if rec := kapistest.Serve(t, c, http.MethodGet, root+"/labels?watch=true"); rec.Code != http.StatusMethodNotAllowed {
		t.Errorf("a watch: %d %s", rec.Code, rec.Body)
	}
	for name, info := range map[string]*request.Info{
		"Nothing":         nil,
		"AnotherGroup":    {IsResource: true, Verb: "list", APIGroup: "resources.kubesphere.io", APIVersion: "v1alpha1", Resource: "labels"},
		"AnotherVersion":  {IsResource: true, Verb: "list", APIGroup: "cluster.kubesphere.io", APIVersion: "v1", Resource: "labels"},
		"AnotherResource": {IsResource: true, Verb: "list", APIGroup: "cluster.kubesphere.io", APIVersion: "v1alpha1", Resource: "clusters"},
		"OneOfThem":       {IsResource: true, Verb: "get", APIGroup: "cluster.kubesphere.io", APIVersion: "v1alpha1", Resource: "labels", Name: "a"},
		"InAWorkspace":    {IsResource: true, Verb: "list", APIGroup: "cluster.kubesphere.io", APIVersion: "v1alpha1", Resource: "labels", Workspace: "w"},
		"AtKubeAPIServer": {IsResource: true, IsKubernetes: true, Verb: "list", APIGroup: "cluster.kubesphere.io", APIVersion: "v1alpha1", Resource: "labels"},
	} {
		r, rec := httptest.NewRequestWithContext(t.Context(), http.MethodGet, root+"/labels", nil), httptest.NewRecorder()
		if info != nil {
			r = r.WithContext(request.WithInfo(r.Context(), info))
		}
		c.ServeHTTP(rec, r)
		if rec.Code != http.StatusNotFound {
			t.Errorf("%s: %d %s", name, rec.Code, rec.Body)
		}
	}
}

func TestWithoutTheDefinitionThereIsNothing(t *testing.T) {
	h := &cluster.V1alpha1{Caches: kapistest.NewStore(t, nil)}
	if rec := kapistest.Serve(t, kapistest.Container(h.WebService()), http.MethodGet, root+"/labels"); rec.Code != http.StatusNotFound {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
}
