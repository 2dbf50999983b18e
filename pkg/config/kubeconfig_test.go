package config

import (
	"strings"
	"testing"
	"time"
)

func TestKubeconfigSection(t *testing.T) {
	for name, c := range map[string]struct {
		change func(k *Kubeconfig)
		want   string // part of the error; empty for none
	}{
		"Default":          {func(*Kubeconfig) {}, ""},
		"Certificates":     {func(k *Kubeconfig) { k.AuthMode = "client-certificate" }, ""},
		"ServiceAccounts":  {func(k *Kubeconfig) { k.AuthMode = "service-account-token" }, "use exec"},
		"OIDC":             {func(k *Kubeconfig) { k.AuthMode = "oidc-token" }, "use exec"},
		"Webhook":          {func(k *Kubeconfig) { k.AuthMode = "webhook-token" }, "use exec"},
		"Unknown":          {func(k *Kubeconfig) { k.AuthMode = "x" }, "is not exec or client-certificate"},
		"TooShort":         {func(k *Kubeconfig) { k.CertificateMaxAge = Duration(time.Minute) }, "certificateMaxAge"},
		"ForAYear":         {func(k *Kubeconfig) { k.CertificateMaxAge = Duration(8760 * time.Hour) }, "certificateMaxAge"},
		"PlainHTTP":        {func(k *Kubeconfig) { k.KubernetesServer = "http://kube" }, "kubeconfig.kubernetesServer"},
		"ServerWithAUser":  {func(k *Kubeconfig) { k.Server = "https://a:b@kube" }, "kubeconfig.server"},
		"ServerOfTheirOwn": {func(k *Kubeconfig) { k.KubernetesServer = "https://kube:6443" }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := Default()
			c.change(&cfg.Kubeconfig)
			err := cfg.Validate()
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}
