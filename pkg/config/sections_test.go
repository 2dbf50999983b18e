package config_test

import (
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
