package apiserver

import (
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"kapis.dev/ks-apiserver/pkg/config"
)

func TestKubeconfigsNameKubeAPIServerInTheModesForIt(t *testing.T) {
	own := &rest.Config{Host: "https://10.0.0.1:6443", TLSClientConfig: rest.TLSClientConfig{CAData: []byte("ca")}}
	for mode, idToken := range map[string]bool{config.KubeconfigOIDCToken: true, config.KubeconfigWebhookToken: false,
		config.KubeconfigServiceAccountToken: false} {
		got, err := kubeOfUsers(config.Kubeconfig{AuthMode: mode, KubernetesServer: "https://kube.example.com", TokenMaxAge: 1}, own)
		if err != nil || got.Server != "https://kube.example.com" || string(got.Authority) != "ca" || got.IDToken != idToken ||
			(got.Tokens != 0) != (mode == config.KubeconfigServiceAccountToken) {
			t.Errorf("%s: %+v, %v", mode, got, err)
		}
		_, err = kubeOfUsers(config.Kubeconfig{AuthMode: mode}, &rest.Config{Host: "http://127.0.0.1:8080"})
		if err == nil || !strings.Contains(err.Error(), "kubeconfig.authMode is "+mode) || !strings.Contains(err.Error(), "kubeconfig.kubernetesServer") {
			t.Errorf("%s at a plain http address: %v", mode, err)
		}
	}
	for _, mode := range []string{config.KubeconfigExec, config.KubeconfigClientCertificate} {
		if got, err := kubeOfUsers(config.Kubeconfig{AuthMode: mode}, own); got != nil || err != nil {
			t.Errorf("%s: %+v, %v", mode, got, err)
		}
	}
}
