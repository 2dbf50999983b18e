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
	// KubeconfigServiceAccountToken has kubeconfigs for kube-apiserver with a token of a service account that impersonates the user.
	KubeconfigServiceAccountToken = "service-account-token"
)

// Kubeconfig is the section kubeconfig: the content of a user's kubeconfig (GET users/{user}/kubeconfig).
type Kubeconfig struct {
	// Server is the https URL at which kubectl reaches this server; authentication.issuer.url, where that is one.
	Server string `json:"server"`
	// CertificateAuthority is a PEM file of the CAs of Server's certificate; "" for the CAs of the users' machines.
	CertificateAuthority string `json:"certificateAuthority"`
	// Client is the OAuth client that the plugin logs in with; kubectl.
	Client string `json:"client"`

	// AuthMode is exec, oidc-token, webhook-token, client-certificate or service-account-token; exec. With exec a kubeconfig has no credential, the plugin kubectl-ks
	// logs in to this server. With oidc-token and webhook-token it does too, for requests to kube-apiserver itself, which trusts this
	// server's ID tokens, or asks it about access tokens. With client-certificate a kubeconfig has a certificate of the user for
	// kube-apiserver itself, which can't be revoked before it expires. With service-account-token it has a token, also for kube-apiserver
	// itself, of a service account that may impersonate the user.
	AuthMode string `json:"authMode"`
	// CertificateMaxAge is the life of such a certificate; 168h. It is renewed after two thirds of it.
	CertificateMaxAge Duration `json:"certificateMaxAge"`
	// TokenMaxAge is the life of such a token; 12h.
	TokenMaxAge Duration `json:"tokenMaxAge"`
	// KubernetesServer is the https URL at which users reach kube-apiserver, for all modes but exec; that of this program's own
	// kubeconfig.
	KubernetesServer string `json:"kubernetesServer"`
}

// AtKubeAPIServer reports whether ks-apiserver writes kubeconfigs with which kubectl calls kube-apiserver itself.
func (k *Kubeconfig) AtKubeAPIServer() bool {
	return k.AuthMode == KubeconfigOIDCToken || k.AuthMode == KubeconfigWebhookToken || k.AuthMode == KubeconfigServiceAccountToken
}

// Tokens returns the life of the tokens in kubeconfigs; 0 where they have none.
func (k *Kubeconfig) Tokens() time.Duration {
	if k.AuthMode != KubeconfigServiceAccountToken {
		return 0
	}
	return time.Duration(k.TokenMaxAge)
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
	case KubeconfigExec, KubeconfigClientCertificate, KubeconfigWebhookToken, KubeconfigServiceAccountToken:
	case KubeconfigOIDCToken:
		if !strings.HasPrefix(issuer, "https://") {
			fault("kubeconfig.authMode: with %s kube-apiserver trusts authentication.issuer.url, which has to be https then, and is %q",
				k.AuthMode, issuer)
		}
	default:
		fault("kubeconfig.authMode: %q is not exec, client-certificate, oidc-token, webhook-token or service-account-token", k.AuthMode)
	}
	// kube-apiserver accepts no expirationSeconds below 600. A certificate that can't be revoked must not be valid for months.
	if d := time.Duration(k.CertificateMaxAge); d < 10*time.Minute || d > 30*24*time.Hour {
		fault("kubeconfig.certificateMaxAge: %v is not from 10m to 720h", d)
	}
	// No TokenRequest is for less than 10 minutes either; what is to last longer than some days is a certificate, or the plugin.
	if d := time.Duration(k.TokenMaxAge); d < 10*time.Minute || d > 7*24*time.Hour {
		fault("kubeconfig.tokenMaxAge: %v is not from 10m to 168h", d)
	}
}
