package member

import (
	"net/http"
	"strings"
	"testing"
)

func FuzzReadMembers(f *testing.F) {
	f.Add(`[{"username":"x","roleRef":"y"}]`)
	f.Add(`[null]`)
	f.Add(`{"username":[]}`)
	f.Fuzz(func(t *testing.T, body string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if members, err := readMembers(r); err == nil && (len(members) == 0 || len(members) > maxMembers) {
			t.Errorf("%d members", len(members))
		}
	})
}
