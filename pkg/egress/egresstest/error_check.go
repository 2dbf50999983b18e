package egresstest

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

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
