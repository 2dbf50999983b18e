package controllermanager

import (
	"k8s.io/client-go/kubernetes"

	"kapis.dev/ks-apiserver/pkg/chart/source"
	"kapis.dev/ks-apiserver/pkg/config"
	"kapis.dev/ks-apiserver/pkg/egress"
)

func chartSource(cfg *config.Config) *source.Client {
	return source.New(egress.Options{AllowLoopback: cfg.Egress.AllowLoopback})
}

// charts returns the loader of charts of versions.
func charts(from *source.Client, kube kubernetes.Interface) *source.Loader {
	return &source.Loader{Client: from, Objects: source.Kube{Client: kube}}
}
