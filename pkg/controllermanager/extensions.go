package controllermanager

import (
	"context"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
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

// ownGroup reports whether ks-apiserver has routes of a group, in any version.
func ownGroup(gv schema.GroupVersion) bool {
	switch gv.Group {
	case "application.kubesphere.io", "cluster.kubesphere.io", "config.kubesphere.io", "extensions.kubesphere.io", "gateway.kubesphere.io",
		"iam.kubesphere.io", "kubesphere.io", "operations.kubesphere.io", "package.kubesphere.io", "quota.kubesphere.io",
		"resources.kubesphere.io", "tenant.kubesphere.io", "terminal.kubesphere.io", "workloadtemplate.kubesphere.io":
		return true
	}
	return strings.HasSuffix(gv.Group, ".kapis.dev")
}

// mayAs reports whether the writer of an object may do something by the rights at kube-apiserver.
func (n *native) mayAs(ctx context.Context, u authenticationv1.UserInfo, what authorizationv1.ResourceAttributes) (bool, error) {
	extra := make(map[string][]string, len(u.Extra))
	for k, v := range u.Extra {
		extra[k] = v
	}
	return n.ask(ctx, &user.DefaultInfo{Name: u.Username, UID: u.UID, Groups: u.Groups, Extra: extra}, what)
}
