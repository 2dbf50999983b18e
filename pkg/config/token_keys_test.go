package config_test

import (
	"strings"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/config"
)

const strong = "8Jx2QmVnB5tY7wRcKp3LsHdF9gZaEu4W"

// S31: with an empty, blank, short or well-known secret the program does not start.
func TestSecretOfAnOlderInstallation(t *testing.T) {
	for name, test := range map[string]struct {
		secret, until string
		ok            bool
	}{
		"good":               {strong, "2027-01-31T00:00:00Z", true},
		"empty":              {"", "2027-01-31T00:00:00Z", false},
		"blank":              {strings.Repeat(" ", 40), "2027-01-31T00:00:00Z", false},
		"short":              {strong[:31], "2027-01-31T00:00:00Z", false},
		"padded with blanks": {"abc" + strings.Repeat(" ", 40), "2027-01-31T00:00:00Z", false},
		"one byte":           {strings.Repeat("x", 40), "2027-01-31T00:00:00Z", false},
		"repeated":           {strings.Repeat("changeme", 5), "2027-01-31T00:00:00Z", false},
		"repeated and cut":   {strings.Repeat("changeme", 5)[:35], "2027-01-31T00:00:00Z", false},
		"an example's":       {"A-string-secret-at-least-256-bits-long", "2027-01-31T00:00:00Z", false},
		"no time":            {strong, "soon", false},
		"weak, not read":     {"abc", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			text := "authentication: {issuer: {jwtSecret: '" + test.secret + "', acceptLegacyTokensUntil: '" + test.until + "'}}"
			c, err := config.Parse([]byte(text), nil)
			if (err == nil) != test.ok {
				t.Fatalf("got %v", err)
			}
			if err != nil && len(test.secret) > 3 && strings.Contains(err.Error(), test.secret) {
				t.Error("the error shows the secret")
			}
			if name == "good" && (c.Authentication.Issuer.LegacyUntil() != time.Date(2027, 1, 31, 0, 0, 0, 0, time.UTC) || len(c.Ignored) != 0) {
				t.Errorf("until %v, ignored %v", c.Authentication.Issuer.LegacyUntil(), c.Ignored)
			}
			if test.until == "" && (len(c.Ignored) != 1 || !c.Authentication.Issuer.LegacyUntil().IsZero()) {
				t.Errorf("read all the same, or not said: %v", c.Ignored)
			}
		})
	}
}

func TestTimeNeedsNoQuotes(t *testing.T) {
	c, err := config.Parse([]byte("authentication: {issuer: {jwtSecret: "+strong+", acceptLegacyTokensUntil: 2027-01-31T00:00:00Z}}"), nil)
	if err != nil || c.Authentication.Issuer.LegacyUntil().IsZero() {
		t.Errorf("got %v", err)
	}
}

func TestSigningKeyRotation(t *testing.T) {
	for text, want := range map[string]time.Duration{"": 2160 * time.Hour, "0": 0, "24h": 24 * time.Hour, "1h": -1, "-24h": -1} {
		file := ""
		if text != "" {
			file = "authentication: {issuer: {signingKeyRotation: " + text + "}}"
		}
		c, err := config.Parse([]byte(file), nil)
		if (err != nil) != (want < 0) || err == nil && time.Duration(c.Authentication.Issuer.SigningKeyRotation) != want {
			t.Errorf("%q: %v", text, err)
		}
	}
}
