package config

import (
	"net/url"
	"strings"
	"time"
)

// The modes of kubeconfigs.
const (
	KubeconfigExec              = "exec"
	KubeconfigClientCertificate = "client-certificate"
	// With these the plugin logs in as with exec, and kube-apiserver itself is called, which trusts the ID tokens of this server, or asks it
	// about access tokens.
	KubeconfigOIDCToken    = "oidc-token"
	KubeconfigWebhookToken = "webhook-token"
)

// Plugin reports whether kubeconfigs have the plugin log in at this server, for requests to kube-apiserver itself.
func (k *Kubeconfig) Plugin() bool {
	return k.AuthMode == KubeconfigOIDCToken || k.AuthMode == KubeconfigWebhookToken
}

// check validates the section.
func (k *Kubeconfig) check(issuer string, fault func(format string, args ...any)) {
	for key, s := range map[string]string{"server": k.Server, "kubernetesServer": k.KubernetesServer} {
		if s == "" {
			continue
		}
		if u, err := url.Parse(s); err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			fault("kubeconfig.%s: %q is not an https URL without user, query and fragment: kubectl sends no credentials over plain http", key, s)
		}
	}
	switch k.AuthMode {
	case KubeconfigExec, KubeconfigClientCertificate, KubeconfigWebhookToken:
	case KubeconfigOIDCToken:
		if !strings.HasPrefix(issuer, "https://") {
			fault("kubeconfig.authMode: with %s kube-apiserver trusts authentication.issuer.url, which has to be https then, and is %q",
				k.AuthMode, issuer)
		}
	case "service-account-token":
		fault("kubeconfig.authMode: %q is not supported: a service account is somebody else than the user, and its token in a file outlives the"+
			" login; use exec, oidc-token or webhook-token, with which kubectl logs in, or client-certificate", k.AuthMode)
	default:
		fault("kubeconfig.authMode: %q is not exec, client-certificate, oidc-token or webhook-token", k.AuthMode)
	}
	// kube-apiserver accepts no expirationSeconds below 600. A certificate that can't be revoked must not be valid for months.
	if d := time.Duration(k.CertificateMaxAge); d < 10*time.Minute || d > 30*24*time.Hour {
		fault("kubeconfig.certificateMaxAge: %v is not from 10m to 720h", d)
	}
}
