// Package requesttest parses requests for tests of what is authorized and answered.
package requesttest

import (
	"net/http"
	"net/url"
	"testing"

	"kapis.dev/ks-apiserver/pkg/request"
)

// Info returns what a request without headers asks for. The target is the one of its request line, such as "/api/v1/pods?watch=1".
func Info(t testing.TB, method, target string) *request.Info {
	t.Helper()
	u, err := url.ParseRequestURI(target)
	if err != nil {
		t.Fatal(err)
	}
	i, err := request.Parse(&http.Request{Method: method, URL: u})
	if err != nil {
		t.Fatal(err)
	}
	return i
}
