package direct_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"

	"kapis.dev/ks-apiserver/pkg/cluster/direct"
)

// F17, F39: what answers as the kube-apiserver of a member is not trusted: of an answer without an end a bound is read, and no redirect is followed.
func TestAnswersOfAKubeAPIServerHaveABound(t *testing.T) {
	const most = 64 << 20
	var redirected atomic.Bool
	elsewhere := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { redirected.Store(true) }))
	defer elsewhere.Close()
	ended := make(chan bool, 100)
	for name, answers := range map[string]http.HandlerFunc{
		"Endless": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			part, n := bytes.Repeat([]byte(" "), 1<<16), 0
			for err := error(nil); err == nil && n < most; n += len(part) {
				_, err = w.Write(part)
			}
			ended <- n >= most
		},
		"Elsewhere": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		},
	} {
		t.Run(name, func(t *testing.T) {
			kube := httptest.NewTLSServer(answers)
			defer kube.Close()
			c, err := direct.Parse(kubeconfigOf(t, kube), func(c *rest.Config) { c.CAData = nil; c.Insecure = true })
			if err != nil {
				t.Fatal(err)
			}
			uid, findings := direct.Check(t.Context(), c, "m1", direct.Known{})
			if uid != "" || len(findings) != 1 || !strings.Contains(findings[0].Found, "is no kube-apiserver") {
				t.Errorf("%q, %+v", uid, findings)
			}
			if name == "Endless" && <-ended {
				t.Errorf("it is read without a bound")
			}
		})
	}
	if redirected.Load() {
		t.Error("a redirect was followed")
	}
}
