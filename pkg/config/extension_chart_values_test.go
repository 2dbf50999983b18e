package config_test

import (
	"maps"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/config"
)

func TestValuesForExtensions(t *testing.T) {
	c, err := config.Parse([]byte(`extension: {imageRegistry: registry.example.com/mirror, nodeSelector: {pool: extensions},
  ingress: {ingressClassName: nginx, domainSuffix: example.com, httpPort: "80", httpsPort: 443}}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	e := &c.Extension
	want := map[string]any{"ingressClassName": "nginx", "domainSuffix": "example.com", "httpPort": 80, "httpsPort": 443}
	if e.ImageRegistry != "registry.example.com/mirror" || !maps.Equal(e.Nodes(), map[string]string{"pool": "extensions"}) || !maps.Equal(e.Ingress.Values(), want) {
		t.Errorf("%+v %v %v", e, e.Nodes(), e.Ingress.Values())
	}
	for _, text := range []string{"", `{imageRegistry: "", nodeSelector: "", ingress: {ingressClassName: "", domainSuffix: ""}}`, "{nodeSelector: {}}"} {
		c, err := config.Parse([]byte("extension: "+text), nil)
		if err != nil || c.Extension.Nodes() != nil || c.Extension.Ingress.Values() != nil {
			t.Errorf("%s: %v, %+v", text, err, c.Extension)
		}
	}
	for text, want := range map[string]string{
		"imageRegistry: https://registry": "extension.imageRegistry", "nodeSelector: pool=x": "extension.nodeSelector",
		"nodeSelector: {pool: [x]}": "extension.nodeSelector", "ingress: {httpPort: http}": "extension.ingress.httpPort",
		"ingress: {httpsPort: 70000}": "extension.ingress.httpsPort", "ingress: {domainSuffix: a..b}": "extension.ingress.domainSuffix",
	} {
		if _, err := config.Parse([]byte("extension: {"+text+"}"), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
