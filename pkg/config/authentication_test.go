package config_test

import (
	"strings"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/config"
)

func TestLimitsOfLogins(t *testing.T) {
	c, err := config.Parse(
		[]byte(
			"authentication: {authenticateRateLimiterMaxTries: 10, authenticateRateLimiterDuration: 10m, trustedProxies: [10.244.0.0/16, '::1'], secondFactor: required}",
		),
		nil,
	)
	if err != nil {
		t.Fatal(err)
	}
	if a := c.Authentication; a.AuthenticateRateLimiterMaxTries != 10 || a.AuthenticateRateLimiterDuration != config.Duration(10*time.Minute) ||
		a.LoginHistoryMaximumEntries != 100 || a.LoginHistoryRetentionPeriod != config.Duration(168*time.Hour) || len(a.TrustedProxies) != 2 ||
		a.SecondFactor != "required" {
		t.Errorf("read %+v", a)
	}
	for text, want := range map[string]string{
		"authenticateRateLimiterMaxTries: 0":       "authenticateRateLimiterMaxTries",
		"authenticateRateLimiterDuration: 0s":      "authenticateRateLimiterDuration",
		"loginHistoryRetentionPeriod: 1s":          "loginHistoryRetentionPeriod",
		"loginHistoryMaximumEntries: -1":           "loginHistoryMaximumEntries",
		"apiKeyMaximumAge: 0s":                     "apiKeyMaximumAge",
		"secondFactor: sometimes":                  `"sometimes" is not off`,
		"trustedProxies: [everybody]":              `trustedProxies[0]: "everybody"`,
		"trustedProxies: [10.0.0.0/8, 10.0.0.0/x]": "trustedProxies[1]",
	} {
		if _, err := config.Parse([]byte("authentication: {"+text+"}"), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
