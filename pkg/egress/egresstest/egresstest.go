// Package egresstest has what the tests of the packages share that make requests to external servers for users.
package egresstest

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// BasicAuth passes requests with this account (RFC 7617) on to next, and challenges all others.
func BasicAuth(user, password string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if u, p, ok := r.BasicAuth(); !ok || u != user || p != password {
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// CheckError checks the result of a request: no error if code is 0, and otherwise a Status of that code, with the words in it and none of
// the secrets.
func CheckError(t testing.TB, err error, code int, words string, secrets ...string) {
	t.Helper()
	if code == 0 {
		if err != nil {
			t.Errorf("failed: %v", err)
		}
		return
	}
	var s apierrors.APIStatus
	if !errors.As(err, &s) || int(s.Status().Code) != code || !strings.Contains(err.Error(), words) {
		t.Errorf("%v, want %d %s", err, code, words)
		return
	}
	shown, marshalErr := json.Marshal(s.Status())
	if marshalErr != nil {
		t.Error(marshalErr)
	}
	for _, secret := range secrets {
		if strings.Contains(err.Error()+string(shown), secret) {
			t.Errorf("the error shows %s: %v", secret, err)
		}
	}
}
