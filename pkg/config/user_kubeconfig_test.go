package config_test

import (
	"strings"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/config"
)

func TestKubeconfigSection(t *testing.T) {
	for name, c := range map[string]struct {
		change func(k *config.Kubeconfig)
		want   string // part of the error; empty for none
	}{
		"Default":          {func(*config.Kubeconfig) {}, ""},
		"Certificates":     {func(k *config.Kubeconfig) { k.AuthMode = "client-certificate" }, ""},
		"ServiceAccounts":  {func(k *config.Kubeconfig) { k.AuthMode = "service-account-token" }, ""},
		"OIDC":             {func(k *config.Kubeconfig) { k.AuthMode = "oidc-token" }, ""},
		"Webhook":          {func(k *config.Kubeconfig) { k.AuthMode = "webhook-token" }, ""},
		"Unknown":          {func(k *config.Kubeconfig) { k.AuthMode = "x" }, "is not exec, client-certificate"},
		"TooShort":         {func(k *config.Kubeconfig) { k.CertificateMaxAge = config.Duration(time.Minute) }, "certificateMaxAge"},
		"ForAYear":         {func(k *config.Kubeconfig) { k.CertificateMaxAge = config.Duration(8760 * time.Hour) }, "certificateMaxAge"},
		"TokenTooShort":    {func(k *config.Kubeconfig) { k.TokenMaxAge = config.Duration(time.Minute) }, "tokenMaxAge"},
		"TokenForAMonth":   {func(k *config.Kubeconfig) { k.TokenMaxAge = config.Duration(720 * time.Hour) }, "tokenMaxAge"},
		"PlainHTTP":        {func(k *config.Kubeconfig) { k.KubernetesServer = "http://kube" }, "kubeconfig.kubernetesServer"},
		"ServerWithAUser":  {func(k *config.Kubeconfig) { k.Server = "https://a:b@kube" }, "kubeconfig.server"},
		"ServerOfTheirOwn": {func(k *config.Kubeconfig) { k.KubernetesServer = "https://kube:6443" }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config.Default()
			c.change(&cfg.Kubeconfig)
			err := cfg.Validate()
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

func TestOnlyTheModeForTokensHasTokens(t *testing.T) {
	for mode, want := range map[string]time.Duration{"exec": 0, "oidc-token": 0, "client-certificate": 0, "service-account-token": 12 * time.Hour} {
		k := config.Default().Kubeconfig
		if k.AuthMode = mode; k.Tokens() != want {
			t.Errorf("%s: %v", mode, k.Tokens())
		}
	}
}

// kube-apiserver trusts no issuer whose address is not https.
func TestIDTokensNeedAnIssuerByHTTPS(t *testing.T) {
	cfg := config.Default()
	cfg.Kubeconfig.AuthMode, cfg.Authentication.Issuer.URL = "oidc-token", "http://127.0.0.1:9090"
	if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), "kubeconfig.authMode") || !strings.Contains(err.Error(), "issuer.url") {
		t.Error(err)
	}
}
