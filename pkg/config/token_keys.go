package config

import (
	"time"
)

// minRotation is the shortest life of a signing key: a shorter one would fill the set with keys that still verify.
const minRotation = 24 * time.Hour

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
