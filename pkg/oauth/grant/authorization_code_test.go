package grant

import (
	"testing"
)

// T7636-2, T7636-5: verifiers and challenges.
func TestVerifyChallenge(t *testing.T) {
	const example, sum = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk", "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM" // RFC 7636, B
	if err := verifyChallenge(sum, example, true); err != nil {
		t.Error(err)
	}
	if err := verifyChallenge(sum, example[:42]+"K", true); err == nil {
		t.Error("another verifier is good")
	}
}
