package lookup_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/helm"
	"kapis.dev/ks-apiserver/pkg/helm/lookup"
)

// refuses answers with a code.
type refuses int

func (code refuses) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: int(code), Body: io.NopCloser(strings.NewReader("as it is"))}, nil
}

// X21: what templates may not read is not there, and noted; every other answer stays as it is.
func TestX21WhatTemplatesMayNotReadIsNoted(t *testing.T) {
	for _, c := range []struct {
		method, path string
		code         int
		want         *helm.Lookup
	}{
		{http.MethodGet, "/api/v1/namespaces/a/secrets/b", 403, &helm.Lookup{Resource: "secrets", Namespace: "a", Name: "b"}},
		{http.MethodGet, "/api/v1/namespaces/a/secrets", 403, &helm.Lookup{Resource: "secrets", Namespace: "a"}},
		{http.MethodGet, "/api/v1/namespaces/a", 403, &helm.Lookup{Resource: "namespaces", Name: "a"}},
		{http.MethodGet, "/api/v1/nodes", 403, &helm.Lookup{Resource: "nodes"}},
		{http.MethodGet, "/apis/apps/v1/namespaces/a/deployments/b", 403, &helm.Lookup{Group: "apps", Resource: "deployments", Namespace: "a", Name: "b"}},
		{http.MethodGet, "/apis/apps/v1/deployments", 403, &helm.Lookup{Group: "apps", Resource: "deployments"}},
		{http.MethodGet, "/api/v1/namespaces/a/secrets/b", 200, nil},
		{http.MethodGet, "/api/v1/namespaces/a/secrets/b", 404, nil},
		{http.MethodGet, "/api/v1/namespaces/a/pods/b/log", 403, nil},
		{http.MethodGet, "/apis/apps/v1", 403, nil},
		{http.MethodGet, "/api/v1", 403, nil},
		{http.MethodGet, "/version", 403, nil},
		{http.MethodGet, "/", 403, nil},
		{http.MethodPost, "/api/v1/namespaces/a/secrets", 403, nil},
		{http.MethodDelete, "/api/v1/namespaces/a/secrets/b", 403, nil},
	} {
		notes := &lookup.Denied{}
		r, err := http.NewRequestWithContext(t.Context(), c.method, "https://kube.example"+c.path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			answer, err := notes.Transport(refuses(c.code)).RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(answer.Body)
			_ = answer.Body.Close()
			if noted := answer.StatusCode == http.StatusNotFound && c.code != http.StatusNotFound; noted != (c.want != nil) || !noted && string(body) != "as it is" {
				t.Errorf("%s %s: %d becomes %d %s", c.method, c.path, c.code, answer.StatusCode, body)
			}
		}
		if all := notes.All(); c.want == nil && len(all) > 0 || c.want != nil && (len(all) != 1 || all[0] != *c.want) {
			t.Errorf("%s %s: %+v", c.method, c.path, all)
		}
	}
	const most = 100
	notes := &lookup.Denied{}
	for i := range 2 * most {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("https://kube.example/api/v1/secrets/%d", i), http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := notes.Transport(refuses(http.StatusForbidden)).RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		if _ = answer.Body.Close(); (answer.StatusCode == http.StatusNotFound) != (i < most) {
			t.Errorf("the answer %d is %d", i, answer.StatusCode)
		}
	}
	if len(notes.All()) != most {
		t.Errorf("%d are noted", len(notes.All()))
	}
}
