package config

import (
	"time"
)

// LegacyUntil returns AcceptLegacyTokensUntil as a time; zero where none is set.
func (i *Issuer) LegacyUntil() time.Time {
	t, err := time.Parse(time.RFC3339, i.AcceptLegacyTokensUntil)
	if err != nil {
		return time.Time{} // Validate refused it
	}
	return t
}
