package protocol_test

import (
	"testing"

	"kapis.dev/ks-apiserver/pkg/oauth/protocol"
)

func TestRedirectKeepsTheQuery(t *testing.T) {
	for uri, want := range map[string]string{
		"https://a/": "https://a/?k=v+%26", "https://a/?x=%2f&y": "https://a/?x=%2f&y&k=v+%26", "https://a/?": "https://a/?k=v+%26",
		"com.example:/cb": "com.example:/cb?k=v+%26",
	} {
		if got := protocol.RedirectTo(uri, "k", "v &", "empty", ""); string(got) != want {
			t.Errorf("%s: %s", uri, got)
		}
	}
}
