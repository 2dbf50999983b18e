package config

import (
	"net/netip"
	"net/url"
	"strings"
	"time"
)

// Who asks users to log in.
const (
	LoginPageOwn     = "own"
	LoginPageConsole = "console"
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
	a.validateOrder(fault)
	switch a.LoginPage {
	case LoginPageOwn:
	case LoginPageConsole:
		if a.Issuer.URL == DefaultIssuerURL {
			fault("authentication.loginPage: console needs authentication.issuer.url, the address of the console: browsers are sent there to" +
				" log in")
		}
	default:
		fault("authentication.loginPage: %q is not own or console", a.LoginPage)
	}
	for i, s := range a.TrustedOrigins {
		u, err := url.Parse(s)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || strings.TrimPrefix(s, u.Scheme+"://") != u.Host ||
			strings.ContainsAny(u.Host, "*, ") {
			fault("authentication.trustedOrigins[%d]: %q is no origin: http:// or https://, a host, and a port where it isn't the usual one,"+
				" as in https://console.example:30880", i, s)
		}
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
