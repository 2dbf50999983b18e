// Package kube connects this program to a cluster: its address, the credentials, and the types of its objects.
package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	apimachineryversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	applicationv2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	extensionsv1alpha1 "kapis.dev/ks-apiserver/pkg/api/extensions/v1alpha1"
	gatewayv1alpha1 "kapis.dev/ks-apiserver/pkg/api/gateway/v1alpha1"
	gatewayv1alpha2 "kapis.dev/ks-apiserver/pkg/api/gateway/v1alpha2"
	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	kubespherev1alpha1 "kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	quotav1alpha2 "kapis.dev/ks-apiserver/pkg/api/quota/v1alpha2"
	sessionv1alpha1 "kapis.dev/ks-apiserver/pkg/api/session/v1alpha1"
	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
	"kapis.dev/ks-apiserver/pkg/version"
)

// Access is how to reach a cluster, and how many requests a client may send.
type Access struct {
	// Kubeconfig is a file; empty means the cluster that this program runs in, else ~/.kube/config.
	Kubeconfig string
	// Master overrides the address in the kubeconfig.
	Master string
	// QPS and Burst bound the requests a second of one client; 0 means client-go's defaults.
	QPS   float32
	Burst int
	// UserAgent is how the program names itself to kube-apiserver.
	UserAgent string
}

// Config returns how to reach the cluster of a. The error says which file or variable was tried.
func (a Access) Config() (*rest.Config, error) {
	cfg, err := a.load()
	if err != nil {
		return nil, err
	}
	cfg.QPS, cfg.Burst = a.QPS, a.Burst
	cfg.UserAgent = a.UserAgent + "/" + version.Get().GitVersion
	return cfg, nil
}

func (a Access) load() (*rest.Config, error) {
	if a.Kubeconfig == "" && a.Master == "" {
		cfg, err := rest.InClusterConfig()
		if err == nil || !errors.Is(err, rest.ErrNotInCluster) {
			return cfg, err
		}
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	if a.Kubeconfig != "" {
		if _, err := os.Stat(a.Kubeconfig); err != nil {
			return nil, fmt.Errorf("read kubeconfig: %w", err)
		}
		rules = &clientcmd.ClientConfigLoadingRules{ExplicitPath: a.Kubeconfig}
	}
	overrides := &clientcmd.ConfigOverrides{}
	overrides.ClusterInfo.Server = a.Master
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides).ClientConfig()
	if clientcmd.IsEmptyConfig(err) && a.Kubeconfig == "" {
		return nil, errors.New("no cluster: not running in one, and no kubeconfig found; name one with --kubeconfig")
	}
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig %s: %w", cmp.Or(a.Kubeconfig, rules.GetDefaultFilename()), err)
	}
	return cfg, nil
}

// Reach asks the cluster for its version, to fail early and in one line if it can't be reached.
func Reach(ctx context.Context, cfg *rest.Config) (*apimachineryversion.Info, error) {
	c := rest.CopyConfig(cfg)
	c.Timeout = 10 * time.Second
	d, err := discovery.NewDiscoveryClientForConfig(c)
	if err != nil {
		return nil, fmt.Errorf("make a client of %s: %w", cfg.Host, err)
	}
	v, err := d.ServerVersion()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("reach the cluster at %s: %w", cfg.Host, err)
	}
	return v, nil
}

// Scheme returns the types that this project reads and writes as Go structs.
func Scheme() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme,
		iamv1beta1.AddToScheme,
		tenantv1beta1.AddToScheme,
		clusterv1alpha1.AddToScheme,
		extensionsv1alpha1.AddToScheme,
		gatewayv1alpha1.AddToScheme,
		gatewayv1alpha2.AddToScheme,
		sessionv1alpha1.AddToScheme,
		applicationv2.AddToScheme,
		kubespherev1alpha1.AddToScheme,
		quotav1alpha2.AddToScheme,
	} {
		utilruntime.Must(add(s))
	}
	return s
}
