package config_test

import (
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/config"
)

func TestUsersReachThisMachineOnlyWhereTheFileSaysSo(t *testing.T) { // S20
	for text, want := range map[string]bool{"": false, "egress:": false, "egress: {}": false, "egress: {allowLoopback: false}": false,
		"egress: {allowLoopback: true}": true} {
		c, err := config.Parse([]byte(text), nil)
		if err != nil || c.Egress.AllowLoopback != want {
			t.Errorf("%q: %v, %v", text, c, err)
		}
	}
	if c, err := config.Parse(nil, []string{"KUBESPHERE_EGRESS_ALLOWLOOPBACK=true"}); err != nil || !c.Egress.AllowLoopback {
		t.Errorf("by a variable: %v, %v", c, err)
	}
	if _, err := config.Parse([]byte("egress: {allowLoopbak: true}"), nil); err == nil {
		t.Error("an unknown key was read")
	}
}

func TestResourcesServedOnly(t *testing.T) {
	for text, want := range map[string]bool{"": false, "resources: {servedOnly: true}": true} {
		if c, err := config.Parse([]byte(text), nil); err != nil || c.Resources.ServedOnly != want {
			t.Errorf("%q: %v, want %v", text, err, want)
		}
	}
	if _, err := config.Parse([]byte("resources: {servedOnli: true}"), nil); err == nil {
		t.Error("a key that nothing reads is accepted")
	}
}

func TestMaxItems(t *testing.T) {
	for text, want := range map[string]int{"": 0, "resources: {maxItems: 0}": 0, "resources: {maxItems: 1}": 1, "resources: {maxItems: 1000000}": 1_000_000} {
		if c, err := config.Parse([]byte(text), nil); err != nil || c.Resources.MaxItems != want {
			t.Errorf("%q: got %d, %v, want %d", text, c.Resources.MaxItems, err, want)
		}
	}
	if c, err := config.Parse(nil, []string{"KUBESPHERE_RESOURCES_MAXITEMS=20"}); err != nil || c.Resources.MaxItems != 20 {
		t.Errorf("by a variable: got %d, %v, want 20", c.Resources.MaxItems, err)
	}
	for _, wrong := range []string{"-1", "1000001", "many", "1.5"} {
		if _, err := config.Parse([]byte("resources: {maxItems: "+wrong+"}"), nil); err == nil || !strings.Contains(err.Error(), "maxItems") {
			t.Errorf("%s: got %v, want an error that names the key", wrong, err)
		}
	}
}

func TestValidationDirective(t *testing.T) {
	for text, want := range map[string]string{
		"": "",
		"experimental: {validationDirective: ''}":     "",
		"experimental: {validationDirective: Strict}": "Strict",
		"experimental: {validationDirective: Warn}":   "Warn",
		"experimental: {validationDirective: Ignore}": "Ignore",
	} {
		if c, err := config.Parse([]byte(text), nil); err != nil || c.Experimental.ValidationDirective != want {
			t.Errorf("%q: got %q, %v, want %q", text, c.Experimental.ValidationDirective, err, want)
		}
	}
	for _, wrong := range []string{"strict", "Strict&dryRun=All", "true"} {
		_, err := config.Parse([]byte("experimental: {validationDirective: '"+wrong+"'}"), nil)
		if err == nil || !strings.Contains(err.Error(), "experimental.validationDirective") {
			t.Errorf("%s: got %v, want an error that names the key", wrong, err)
		}
	}
}

func TestCacheMemory(t *testing.T) {
	for text, want := range map[string]config.Bytes{"": 0, "resources: {cacheMemory: 0}": 0, "resources: {cacheMemory: 800Mi}": 800 << 20,
		`resources: {cacheMemory: "2G"}`: 2e9, "resources: {cacheMemory: 1048576}": 1 << 20, "resources: {cacheMemory: }": 0} {
		if c, err := config.Parse([]byte(text), nil); err != nil || c.Resources.CacheMemory != want {
			t.Errorf("%q: %v, want %v", text, err, want)
		}
	}
	if c, err := config.Parse(nil, []string{"KUBESPHERE_RESOURCES_CACHEMEMORY=1Gi"}); err != nil || c.Resources.CacheMemory != 1<<30 {
		t.Errorf("by a variable: %v", err)
	}
	for _, wrong := range []string{"-1", "-800Mi", "much", "1.5", "[800Mi]", "true", "99999999999Ti", "100m", `""`} {
		if _, err := config.Parse([]byte("resources: {cacheMemory: "+wrong+"}"), nil); err == nil || !strings.Contains(err.Error(), "800Mi") {
			t.Errorf("%s: %v", wrong, err)
		}
	}
}

func TestTheAggregatedAPIIsServedOnlyWhereTheFileSaysSo(t *testing.T) { // O44
	for text, want := range map[string]bool{"": false, "aggregated: {}": false, "aggregated: {enabled: true}": true} {
		if c, err := config.Parse([]byte(text), nil); err != nil || c.Aggregated.Enabled != want {
			t.Errorf("%q: %v, want %v", text, err, want)
		}
	}
	if _, err := config.Parse([]byte("aggregated: {enable: true}"), nil); err == nil {
		t.Error("a key that nothing reads is accepted")
	}
}
