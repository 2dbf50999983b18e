package e2e

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// raw sends a request line as it is, which net/http would tidy up, and returns the status code.
func raw(t *testing.T, target, token string, headers ...string) int {
	t.Helper()
	u, err := url.Parse(product.URL)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", u.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(
		conn,
		"GET %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nConnection: close\r\n%s\r\n",
		target,
		u.Host,
		token,
		strings.Join(append(headers, ""), "\r\n"),
	)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("%s: %v", target, err)
	}
	defer resp.Body.Close()
	return resp.StatusCode
}

func TestAPathWithTwoReadingsIsRefused(t *testing.T) { // S23
	a := admin(t)
	for _, target := range []string{
		"//api/v1/pods", "/api//v1/pods", "/api/v1/./pods", "/api/v1/namespaces/../secrets", "/api/v1/%2e%2e/secrets", "/api/v1/namespaces/default%2fpods",
		"/api/v1/namespaces/default%2Fpods", "/api/v1/namespaces/%5c/pods", "/kapis/x/v1/namespaces/B/../A/pods", "/clusters/host/clusters/host/api/v1/pods",
		"/clusters/nope/api/v1/pods", "/clusters/x/api", "/clusters/x", "/clusters/", "/api/v1/namespaces/a%00b/pods", "/api/v1/namespaces/default/pods;a=b/x",
		"/api/v1/namespaces/%252e%252e/pods",
		"/" + strings.Repeat("a/", 5000),
	} {
		if code := raw(t, target, a.token); code < 400 || code > 499 {
			t.Errorf("%s = %d, want 4xx", clip(target), code)
		}
	}
	for target, code := range map[string]int{
		"/api/v1/pods/": 200, "/api/v1/namespaces/default/pods": 200, "/clusters/host/api/v1/pods": 200, "/api/clusters/host/v1/pods": 200,
		"/apis/clusters/host/apps/v1/deployments":                    200,
		"/kapis/clusters/host/resources.kubesphere.io/v1alpha3/pods": 200, "/API/v1/pods": 404, "/api/v1/Pods": 404,
	} {
		if got := raw(t, target, a.token); got != code {
			t.Errorf("%s = %d, want %d", target, got, code)
		}
	}
}

func TestBrokenBodiesAndBigOnes(t *testing.T) { // S56
	a := admin(t)
	a.must(t, http.StatusBadRequest, http.MethodPost, "/api/v1/namespaces", `{"metadata":`)
	r, err := a.do(t.Context(), http.MethodPost, "/api/v1/namespaces", `{"metadata":{"name":"`+strings.Repeat("x", 4<<20)+`"}}`)
	if err != nil || r.code != http.StatusRequestEntityTooLarge {
		t.Errorf("4 MiB: %d %s %v", r.code, clip(r.body), err)
	}
	if r := anonymous().must(t, http.StatusUnsupportedMediaType, http.MethodPost, "/oauth/token",
		`{"grant_type":"password"}`); r.header.Get("Cache-Control") != "no-store" {
		t.Errorf("headers %v", r.header)
	}
	anonymous().must(t, http.StatusMethodNotAllowed, http.MethodGet, "/oauth/token", nil) // T6749-9
}
