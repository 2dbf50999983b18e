package redaction_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/redaction"
)

const maxAnswer = 16 << 20 // bytes that are read of an answer

func answered(code int, body string) *http.Response {
	return &http.Response{StatusCode: code, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body))}
}

// S64: an answer is shown without hidden fields, and with its new length; failures, and kinds without hidden fields, pass as they are.
func TestAnswersAreShownWithoutHiddenFields(t *testing.T) {
	users, pods := gr("iam.kubesphere.io", "users"), gr("", "pods")
	const object, cut = `{"spec":{"password":"canary"}}`, `{"spec":{}}`
	for name, c := range map[string]struct {
		res  *redaction.Response
		want string
	}{
		"Object":   {redaction.Respond(answered(http.StatusOK, object), users), cut},
		"Created":  {redaction.Respond(answered(http.StatusCreated, object), users), cut},
		"Failure":  {redaction.Respond(answered(http.StatusConflict, `{"kind":"Status"}`), users), `{"kind":"Status"}`},
		"OfAnyPod": {redaction.Respond(answered(http.StatusOK, object), pods), object},
	} {
		body, length, err := c.res.Shown()
		if err != nil {
			t.Fatal(name, err)
		}
		got, err := io.ReadAll(body)
		if err != nil || string(got) != c.want || length != int64(len(got)) {
			t.Errorf("%s: %s of %d bytes, %v", name, got, length, err)
		}
	}
	for _, broken := range []string{"", "canary", `{"spec":{"password":"canary"}`} {
		if body, _, err := redaction.Respond(answered(http.StatusOK, broken), users).Shown(); err == nil {
			t.Errorf("%q is shown as %v", broken, body)
		} else if strings.Contains(err.Error(), "canary") {
			t.Error(err)
		}
	}
	if _, err := redaction.Respond(answered(http.StatusOK, strings.Repeat(" ", maxAnswer+1)), users).Raw(); err == nil {
		t.Error("an answer has no bound")
	}
	if s := redaction.Respond(answered(http.StatusConflict, `{"kind":"Status","code":409}`), users).Status(); s == nil || s.Code != http.StatusConflict {
		t.Error(s)
	}
	for code, body := range map[int]string{http.StatusOK: `{"kind":"Status"}`, http.StatusConflict: `{"kind":"User"}`, http.StatusGone: "<html>"} {
		if s := redaction.Respond(answered(code, body), users).Status(); s != nil {
			t.Errorf("%d %s is %v", code, body, s)
		}
	}
}
