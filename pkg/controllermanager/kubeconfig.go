package controllermanager

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"kapis.dev/ks-apiserver/pkg/config"
	"kapis.dev/ks-apiserver/pkg/controller/kubeconfig"
	"kapis.dev/ks-apiserver/pkg/kube"
)

// kubeconfigs returns the controllers of the credentials in users' kubeconfigs that the configuration enables.
func kubeconfigs(cfg *config.Config, cluster *rest.Config) ([]controller, error) {
	k, tokens := cfg.Kubeconfig, controller{kubeconfig.TokenName, iam("User"), kubeconfig.RemoveTokens}
	switch k.AuthMode {
	case config.KubeconfigClientCertificate:
	case config.KubeconfigServiceAccountToken:
		tokens.setup = kubeconfig.SetupTokens
		return []controller{tokens}, nil
	default:
		return []controller{tokens}, nil
	}
	server, authority, err := kube.Endpoint(cluster, k.KubernetesServer)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig.authMode is %s: %w", k.AuthMode, err)
	}
	if len(authority) == 0 && k.KubernetesServer == "" {
		return nil, errors.New("kubeconfig.authMode is client-certificate, and this program's own kubeconfig names no authority of" +
			" kube-apiserver: set kubeconfig.kubernetesServer")
	}
	o := kubeconfig.Options{Namespace: Namespace, Server: server, Authority: authority, MaxAge: time.Duration(k.CertificateMaxAge),
		Metrics: metrics.Registry}
	return []controller{tokens, {kubeconfig.Name, iam("User"), func(ctx context.Context,
		mgr manager.Manager) error {
		return kubeconfig.Setup(ctx, mgr, o)
	}}}, nil
}
