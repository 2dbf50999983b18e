package config_test

import (
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/config"
)

func TestWhatGatewaysAreMadeByIsSaidOnce(t *testing.T) { // O22
	for text, want := range map[string]config.Gateway{
		"":                                    {},
		"gateway: {className: shared}":        {ClassName: "shared"},
		"gateway: {templates: /etc/gateways}": {Templates: "/etc/gateways"},
	} {
		if c, err := config.Parse([]byte(text), nil); err != nil || c.Gateway != want {
			t.Errorf("%q: %+v, %v", text, c, err)
		}
	}
	if c, err := config.Parse(nil, []string{"KUBESPHERE_GATEWAY_TEMPLATES=/tmp/x"}); err != nil || c.Gateway.Templates != "/tmp/x" {
		t.Errorf("by a variable: %v", err)
	}
	// The section of KubeSphere 3.
	c, err := config.Parse([]byte("gateway: {watchesPath: /var/helm-charts/watches.yaml, namespace: kubesphere-controls-system, repository: r, tag: t}"), nil)
	if err != nil || len(c.Ignored) != 4 {
		t.Errorf("%+v, %v", c, err)
	}
	for text, want := range map[string]string{
		"className: a, templates: /b": "gateway.className and gateway.templates",
		"className: A_b":              `gateway.className: "A_b"`,
		"templates: gateways":         `gateway.templates: "gateways"`,
		"class: a":                    "class",
	} {
		if _, err := config.Parse([]byte("gateway: {"+text+"}"), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
