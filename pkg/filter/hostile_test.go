package filter_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"kapis.dev/ks-apiserver/pkg/filter"
	"kapis.dev/ks-apiserver/tools/hostile"
)

// A request goes on if it names this cluster exactly, or no cluster; no other word is taken for it.
func TestNoWordIsThisClusterButItsNames(t *testing.T) {
	passed, refused := 0, 0
	for seed := range uint64(1000) {
		word := hostile.New(seed).Mixed("host", "Host", "host ", "h\u043est", "hos", "alias")
		if word == "" {
			continue
		}
		u, err := url.ParseRequestURI("/clusters/" + url.PathEscape(word) + "/api/v1/pods")
		if err != nil {
			t.Fatal(err)
		}
		through := false
		rec := httptest.NewRecorder()
		filter.Info(filter.Cluster("host", "alias")(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { through = true }))).
			ServeHTTP(rec, (&http.Request{Method: http.MethodGet, URL: u, Header: http.Header{}}).WithContext(t.Context()))
		if named := word == "host" || word == "alias"; through != named || !through && rec.Code != http.StatusBadRequest {
			t.Errorf("%q goes on: %t, with %d", word, through, rec.Code)
		}
		if passed++; !through {
			refused, passed = refused+1, passed-1
		}
	}
	if passed == 0 || refused == 0 {
		t.Errorf("%d passed, %d were refused", passed, refused)
	}
}
