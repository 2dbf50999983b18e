package filter

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/audit"
)

// S57: an audit event has nothing of a query, a header, a body or an answer, whether the request was allowed, refused or not authenticated.
func TestAuditRecordsNoSecret(t *testing.T) {
	const canary = "Canary-7f3a9"
	answered := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("X-Answer", canary)
		_, _ = io.WriteString(w, `{"token":"`+canary+`"}`)
	})
	for name, token := range map[string]string{"Allowed": "bob", "Refused": "", "Unauthenticated": "bad"} {
		t.Run(name, func(t *testing.T) {
			var got []*audit.Event
			h := Chain(
				answered,
				Recover,
				Info,
				Audit(audit.SinkFunc(func(e *audit.Event) { got = append(got, e) }), time.Now),
				Authentication{Authenticator: tokens}.Wrap,
				Authorize(namedOnly),
			)
			r := httptest.NewRequest(http.MethodPost, "/oauth/token?code="+canary+"&access_token="+canary, strings.NewReader("password="+canary))
			for _, header := range []string{"Cookie", "Referer", "X-Forwarded-For", "Impersonate-User", "X-Anything"} {
				r.Header.Set(header, canary)
			}
			if token != "" {
				r.Header.Set("Authorization", "Bearer "+token)
			}
			serve(h, r)
			if len(got) != 1 {
				t.Fatalf("%d events", len(got))
			}
			text, err := json.Marshal(got[0])
			if err != nil || strings.Contains(string(text), canary) {
				t.Errorf("%s, %v", text, err)
			}
		})
	}
}
