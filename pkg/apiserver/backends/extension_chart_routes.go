package backends

import (
	"time"

	"k8s.io/client-go/kubernetes"

	"kapis.dev/ks-apiserver/pkg/chart/source"
	"kapis.dev/ks-apiserver/pkg/egress"
	"kapis.dev/ks-apiserver/pkg/kapis/packages"
	"kapis.dev/ks-apiserver/pkg/store"
)

// NewPackages returns the routes of the files of charts of extensions.
func NewPackages(caches *store.Store, client kubernetes.Interface, charts *source.Client) *packages.V1alpha1 {
	return packages.New(caches, &source.Loader{Client: charts, Objects: source.Kube{Client: client}}, time.Now)
}

// Charts returns the client of chart repositories.
func Charts(allowLoopback bool) *source.Client {
	return source.New(egress.Options{AllowLoopback: allowLoopback})
}
