package config_test

import (
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/config"
)

func TestTheConsoleAsksForLoginsOnlyWhereTheFileSaysSo(t *testing.T) {
	issuer := "  issuer: {url: 'https://console.example'}\n"
	for name, test := range map[string]struct{ text, page, fault string }{
		"nothing":            {"", config.LoginPageOwn, ""},
		"an issuer alone":    {"authentication:\n" + issuer, config.LoginPageOwn, ""},
		"own":                {"authentication:\n  loginPage: own\n", config.LoginPageOwn, ""},
		"console":            {"authentication:\n  loginPage: console\n" + issuer, config.LoginPageConsole, ""},
		"console, no issuer": {"authentication:\n  loginPage: console\n", "", "needs authentication.issuer.url"},
		"empty":              {"authentication:\n  loginPage: ''\n" + issuer, "", "is not own or console"},
		"an address":         {"authentication:\n  loginPage: https://evil.example\n" + issuer, "", "is not own or console"},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := config.Parse([]byte(test.text), nil)
			if err == nil {
				err = c.Validate()
			}
			if test.fault != "" && (err == nil || !strings.Contains(err.Error(), test.fault)) || test.fault == "" && (err != nil || c.Authentication.LoginPage != test.page) {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestATrustedOriginIsAnOrigin(t *testing.T) { // S52
	for origin, good := range map[string]bool{
		"https://console.example": true, "http://10.0.0.1:30880": true, "https://[::1]:8443": true, "https://Console.example:443": true,
		"https://console.example/": false, "https://*.example": false, "*": false, "null": false, "": false, "console.example": false,
		"https://u@console.example": false, "https://console.example?x": false, "https://console.example#x": false, "ftp://console.example": false,
		"https://a.example,https://b.example": false, "https://a.example https://b.example": false, "https://": false, "file:///x": false,
	} {
		c := config.Default()
		c.Authentication.TrustedOrigins = []string{origin}
		if err := c.Validate(); (err == nil) != good || err != nil && !strings.Contains(err.Error(), "authentication.trustedOrigins[0]") {
			t.Errorf("%q: %v", origin, err)
		}
	}
}
