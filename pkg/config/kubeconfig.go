package config

import (
	"net/url"
	"time"
)

// The modes of kubeconfigs.
const (
	KubeconfigExec              = "exec"
	KubeconfigClientCertificate = "client-certificate"
)

// check validates the section.
func (k *Kubeconfig) check(fault func(format string, args ...any)) {
	for key, s := range map[string]string{"server": k.Server, "kubernetesServer": k.KubernetesServer} {
		if s == "" {
			continue
		}
		if u, err := url.Parse(s); err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			fault("kubeconfig.%s: %q is not an https URL without user, query and fragment: kubectl sends no credentials over plain http", key, s)
		}
	}
	switch k.AuthMode {
	case KubeconfigExec, KubeconfigClientCertificate:
	case "service-account-token", "oidc-token", "webhook-token":
		fault("kubeconfig.authMode: %q is not supported: a token in a file outlives the login; use exec, with which kubectl logs in, or"+
			" client-certificate", k.AuthMode)
	default:
		fault("kubeconfig.authMode: %q is not exec or client-certificate", k.AuthMode)
	}
	// kube-apiserver accepts no expirationSeconds below 600. A certificate that can't be revoked must not be valid for months.
	if d := time.Duration(k.CertificateMaxAge); d < 10*time.Minute || d > 30*24*time.Hour {
		fault("kubeconfig.certificateMaxAge: %v is not from 10m to 720h", d)
	}
}
