package controllermanager

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"kapis.dev/ks-apiserver/pkg/api/extensions/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/config"
	controllerextension "kapis.dev/ks-apiserver/pkg/controller/extension"
	"kapis.dev/ks-apiserver/pkg/egress"
)

// extensions returns the controllers of the objects of extensions.
func extensions(cfg *config.Config) []controller {
	of := func(kind string, setup func(context.Context, manager.Manager, controllerextension.Options) error) func(name string) controller {
		return func(name string) controller {
			return controller{name: name, needs: []schema.GroupVersionKind{v1alpha1.SchemeGroupVersion.WithKind(kind)},
				setup: func(ctx context.Context, mgr manager.Manager) error {
					kube, err := kubernetes.NewForConfig(mgr.GetConfig())
					if err != nil {
						return err
					}
					return setup(ctx, mgr, controllerextension.Options{Client: kube, Egress: egress.Options{AllowLoopback: cfg.Egress.AllowLoopback}})
				}}
		}
	}
	return []controller{
		of("JSBundle", controllerextension.SetupBundles)(controllerextension.BundleName),
		of("APIService", controllerextension.SetupAPIServices)(controllerextension.APIServiceName),
		of("ReverseProxy", controllerextension.SetupReverseProxies)(controllerextension.ReverseProxyName),
	}
}
