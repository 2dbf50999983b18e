package resources_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/kapis/kapistest"
	"kapis.dev/ks-apiserver/pkg/kapis/resources"
	"kapis.dev/ks-apiserver/pkg/request"
)

func TestListsAndObjectsAreTablesWhereThatIsAccepted(t *testing.T) {
	c := kapistest.Container((&resources.V1alpha3{Resources: kapistest.NewService(t)}).WebService())
	for path, want := range map[string]string{
		"/pods?sortBy=name&ascending=true&limit=1&page=2": `"totalItems":3,"columnDefinitions":[{"name":"Name"`,
		"/namespaces/a/pods/p1":                           `"rows":[{"cells":["p1",`,
		"/namespaces/a/pods/p1?includeObject=x":           `"field":"includeObject"`,
		"/pods?includeObject=x":                           `"field":"includeObject"`,
	} {
		r, rec := httptest.NewRequestWithContext(t.Context(), http.MethodGet, resources.Root+path, nil), httptest.NewRecorder()
		r.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json")
		info, err := request.Parse(r)
		if err != nil {
			t.Fatal(err)
		}
		c.ServeHTTP(rec, r.WithContext(request.WithInfo(r.Context(), info)))
		if !strings.Contains(rec.Body.String(), want) {
			t.Errorf("%s: %d %s", path, rec.Code, rec.Body)
		}
	}
}
