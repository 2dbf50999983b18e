// Package kube connects this program to a cluster: its address, the credentials, and the types of its objects.
package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	apimachineryversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

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
