package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// minRotation is the shortest life of a signing key: a shorter one would fill the set with keys that still verify.
const minRotation = 24 * time.Hour

// LegacyUntil returns AcceptLegacyTokensUntil as a time; zero where none is set.
func (i *Issuer) LegacyUntil() time.Time {
	t, err := time.Parse(time.RFC3339, i.AcceptLegacyTokensUntil)
	if err != nil {
		return time.Time{} // Validate refused it
	}
	return t
}

// checkKeys validates the signing of tokens.
func (i *Issuer) checkKeys(fault func(format string, args ...any)) {
	if r := time.Duration(i.SigningKeyRotation); r != 0 && r < minRotation {
		fault("authentication.issuer.signingKeyRotation: %v is less than %v; 0 turns it off", r, minRotation)
	}
	if i.AcceptLegacyTokensUntil == "" {
		return
	}
	if _, err := time.Parse(time.RFC3339, i.AcceptLegacyTokensUntil); err != nil {
		fault("authentication.issuer.acceptLegacyTokensUntil: %q is not a time such as 2027-01-31T00:00:00Z", i.AcceptLegacyTokensUntil)
	}
	if err := strongSecret(string(i.JWTSecret)); err != nil {
		fault("authentication.issuer.jwtSecret: %v; with it anybody could make tokens of an older installation, so take"+
			" acceptLegacyTokensUntil out", err)
	}
}

// strongSecret refuses a secret that can be guessed. Its errors hold nothing of it.
func strongSecret(s string) error {
	const least = 32 // bytes (RFC 7518, 3.2)
	if n := len(strings.TrimSpace(s)); n < least {
		return fmt.Errorf("has %d bytes; %d are the least", n, least)
	}
	if repeated(s) {
		return errors.New("is a few characters repeated")
	}
	if slices.Contains(samples(), strings.ToLower(strings.TrimSpace(s))) {
		return errors.New("is the secret of a well-known example")
	}
	return nil
}

// repeated reports whether s is one text over and over.
func repeated(s string) bool {
	for n := 1; n <= len(s)/2; n++ {
		if s[n:] == s[:len(s)-n] {
			return true
		}
	}
	return false
}

// samples returns secrets that documentation shows and people copy, in lower case.
func samples() []string {
	return []string{
		"a-string-secret-at-least-256-bits-long",
		"a-valid-string-secret-that-is-at-least-512-bits-long-which-is-very-long",
		"abcdefghijklmnopqrstuvwxyz123456",
		"abcdefghijklmnopqrstuvwxyz012345",
		"abcdefghijklmnopqrstuvwxyz0123456789",
		"my-32-character-ultra-secure-and-ultra-long-secret",
		"this-is-a-secret-key-of-32-bytes",
		"thisisasecretkeyof32byteslong!!!",
		"your-256-bit-secret-key-goes-here",
	}
}
