package config

import (
	"net/netip"
	"time"
)

// validateAccounts validates the limits of logins, records and keys.
func (a *Authentication) validateAccounts(fault func(format string, args ...any)) {
	if n := a.AuthenticateRateLimiterMaxTries; n < 1 || n > 1000 {
		fault("authentication.authenticateRateLimiterMaxTries: %d is not from 1 to 1000", n)
	}
	if d := time.Duration(a.AuthenticateRateLimiterDuration); d < time.Second || d > 24*time.Hour {
		fault("authentication.authenticateRateLimiterDuration: %v is not from 1s to 24h", d)
	}
	if d := time.Duration(a.LoginHistoryRetentionPeriod); d < time.Minute {
		fault("authentication.loginHistoryRetentionPeriod: %v is less than 1m", d)
	}
	if n := a.LoginHistoryMaximumEntries; n < 1 {
		fault("authentication.loginHistoryMaximumEntries: %d is less than 1", n)
	}
	if d := time.Duration(a.APIKeyMaximumAge); d < time.Minute {
		fault("authentication.apiKeyMaximumAge: %v is less than 1m", d)
	}
	switch a.SecondFactor {
	case "off", "optional", "required":
	default:
		fault("authentication.secondFactor: %q is not off, optional or required", a.SecondFactor)
	}
	for i, s := range a.TrustedProxies {
		if _, err := netip.ParsePrefix(s); err == nil {
			continue
		}
		if _, err := netip.ParseAddr(s); err != nil {
			fault("authentication.trustedProxies[%d]: %q is neither an address range such as 10.244.0.0/16 nor an address", i, s)
		}
	}
}
