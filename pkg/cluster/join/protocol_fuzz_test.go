package join_test

import (
	"strings"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/cluster/join"
)

// No text is a token but what was issued, and a token says nothing else than what it was issued for.
func FuzzTokens(f *testing.F) {
	now := time.Date(2026, 11, 24, 12, 7, 0, 0, time.UTC)
	tokens := join.Tokens{Key: func() ([]byte, error) { return []byte("a key of this hub"), nil }, Now: func() time.Time { return now }}
	token, _, err := tokens.Issue("u-1")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(token, "u-1")
	f.Add("", "")
	f.Add(token+"=", "u 1")
	f.Add(strings.ToUpper(token), "\xff")
	f.Fuzz(func(t *testing.T, text, uid string) {
		if got, err := tokens.Verify(text); err == nil && (text != token || got != "u-1") {
			t.Errorf("%q is a token of %q", text, got)
		}
		if strings.Contains(uid, " ") {
			return // no UID has one
		}
		issued, _, err := tokens.Issue(uid)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := tokens.Verify(issued); err != nil || got != uid {
			t.Errorf("the token of %q is of %q: %v", uid, got, err)
		}
	})
}
