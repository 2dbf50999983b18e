package setting

import "testing"

func TestVersionsAreComparedAsNumbers(t *testing.T) {
	for claim, tc := range map[string]struct {
		a, b  string
		older bool
	}{"Older": {"9", "10", true}, "Newer": {"10", "9", false}, "Same": {"9", "9", false}, "Unknown": {"", "9", false}, "NotKnownBefore": {"9", "", false}} {
		if older(tc.a, tc.b) != tc.older {
			t.Error(claim)
		}
	}
}
