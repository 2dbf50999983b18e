package child

import (
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// getter gives the SDK a connection as the impersonated user. Discovery is cached in memory: there is no folder.
type getter struct {
	config    *rest.Config
	namespace string
	live      discovery.DiscoveryInterface
	discovery discovery.CachedDiscoveryInterface
	mapper    *restmapper.DeferredDiscoveryRESTMapper
}

func newGetter(cfg *rest.Config, namespace string) (*getter, error) {
	client, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return nil, err
	}
	cached := memory.NewMemCacheClient(client)
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(cached)
	return &getter{config: cfg, namespace: namespace, live: client, discovery: cached, mapper: mapper}, nil
}

// forget drops what is cached of discovery.
func (g *getter) forget() {
	g.discovery.Invalidate()
	g.mapper.Reset()
}

func (g *getter) ToRESTConfig() (*rest.Config, error) { return rest.CopyConfig(g.config), nil }

func (g *getter) ToDiscoveryClient() (discovery.CachedDiscoveryInterface, error) {
	return g.discovery, nil
}

func (g *getter) ToRESTMapper() (meta.RESTMapper, error) { return g.mapper, nil }

// ToRawKubeConfigLoader returns a config without a cluster: the SDK takes the namespace from it, and the connection from ToRESTConfig.
func (g *getter) ToRawKubeConfigLoader() clientcmd.ClientConfig {
	in := &clientcmd.ConfigOverrides{Context: clientcmdapi.Context{Namespace: g.namespace}}
	return clientcmd.NewDefaultClientConfig(*clientcmdapi.NewConfig(), in)
}
