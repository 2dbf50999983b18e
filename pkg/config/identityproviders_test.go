package config_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/config"
)

// Both generations' names are read; this package does not validate providers, and none shows its content.
func TestIdentityProvidersAreKeptAsTheyAre(t *testing.T) {
	for name, text := range map[string]string{
		"v4":   "authentication:\n  identityProviders:\n  - name: corp\n    scopez: 1\n    provider: {clientSecret: canary, nested: {aB: 1}}\n",
		"v3.4": "authentication:\n  oauthOptions:\n    identityProviders:\n    - name: corp\n      scopez: 1\n      provider: {clientSecret: canary, nested: {aB: 1}}\n",
	} {
		c, err := config.Parse([]byte(text), nil)
		if err != nil || len(c.Authentication.IdentityProviders) != 1 || len(c.Ignored) != 0 {
			t.Fatalf("%s: %v, %v", name, c, err)
		}
		p := c.Authentication.IdentityProviders[0]
		var m map[string]any
		if err := json.Unmarshal(p, &m); err != nil || m["name"] != "corp" || m["provider"].(map[string]any)["nested"].(map[string]any)["aB"] == nil {
			t.Errorf("%s: %v, %v", name, m, err)
		}
		marshalled, err := json.Marshal(c)
		if said := fmt.Sprintf("%v %+v %#v %s %x %d", c, c.Authentication, p, p, p, p) + string(marshalled); err != nil || strings.Contains(said, "canary") ||
			strings.Contains(said, "99 97 110") {
			t.Errorf("%s: the secret shows: %v", name, err)
		}
	}
	for _, text := range []string{"authentication: {identityProviders: [x]}", "authentication: {identityProviders: {name: corp}}"} {
		if _, err := config.Parse([]byte(text), nil); err == nil || !strings.Contains(err.Error(), "identityProviders") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
