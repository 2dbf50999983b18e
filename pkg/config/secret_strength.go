package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

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
