package apiserver

import (
	"fmt"
	"strings"

	"k8s.io/client-go/rest"

	"kapis.dev/ks-apiserver/pkg/config"
	"kapis.dev/ks-apiserver/pkg/kapis/resources/kubeconfig"
	"kapis.dev/ks-apiserver/pkg/kube"
)

// kubeconfigs returns the handler of users' kubeconfigs.
func (p routes) kubeconfigs() *kubeconfig.Handler {
	issuer, k := p.cfg.Authentication.Issuer.URL, p.cfg.Kubeconfig
	if k.Server == "" && issuer != config.DefaultIssuerURL && strings.HasPrefix(issuer, "https://") {
		k.Server = issuer
	}
	out := &kubeconfig.Handler{Server: k.Server, Authority: k.CertificateAuthority, Issuer: issuer, Client: k.Client, Kube: p.kubeOfUsers,
		AsCaller: p.caller(), IsUser: func(name string) bool { return p.users.ByName(name) != nil }}
	if k.AuthMode == config.KubeconfigClientCertificate {
		out.Certificates = &kubeconfig.Certificates{Namespace: namespace, Own: p.ownSecret, AsCaller: out.AsCaller}
	}
	return out
}

// kubeOfUsers returns the kube-apiserver that users' kubeconfigs name; nil where they name this server.
func kubeOfUsers(k config.Kubeconfig, cluster *rest.Config) (*kubeconfig.Kube, error) {
	if !k.AtKubeAPIServer() {
		return nil, nil
	}
	server, authority, err := kube.Endpoint(cluster, k.KubernetesServer)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig.authMode is %s: %w", k.AuthMode, err)
	}
	return &kubeconfig.Kube{Server: server, Authority: authority, IDToken: k.AuthMode == config.KubeconfigOIDCToken, Tokens: k.Tokens()}, nil
}
