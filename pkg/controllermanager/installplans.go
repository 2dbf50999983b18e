package controllermanager

import (
	"context"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"kapis.dev/ks-apiserver/pkg/admission"
	extensionsv1alpha1 "kapis.dev/ks-apiserver/pkg/api/extensions/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/chart/source"
	"kapis.dev/ks-apiserver/pkg/config"
	"kapis.dev/ks-apiserver/pkg/controller/installplan"
	"kapis.dev/ks-apiserver/pkg/extension/permission"
	"kapis.dev/ks-apiserver/pkg/helm"
)

// newExecutor returns the executor of operations on Helm releases. There is one, so that its bounds hold for extensions and applications
// together.
func newExecutor(cfg *config.Config) *helm.Executor {
	return helm.New(helm.Options{Timeout: time.Duration(cfg.HelmExecutor.Timeout), HistoryMax: cfg.HelmExecutor.HistoryMax})
}

// installation returns the options of the controller of InstallPlans.
func installation(cfg *config.Config, executor *helm.Executor, charts installplan.Charts) installplan.Options {
	return installplan.Options{
		Helm: executor, Charts: charts, Member: host(cfg) == "", Host: host(cfg),
		Settings: installplan.Settings{
			ImageRegistry: cfg.Extension.ImageRegistry, NodeSelector: cfg.Extension.Nodes(), Ingress: cfg.Extension.Ingress.Values(),
		},
	}
}

// extensionKinds are the kinds that extensions consist of.
func extensionKinds() (out []schema.GroupVersionKind) {
	for _, kind := range []string{"APIService", "ExtensionEntry", "JSBundle", "ReverseProxy"} {
		out = append(out, extensionsv1alpha1.SchemeGroupVersion.WithKind(kind))
	}
	return out
}

// missingToApprove returns the function that checks who may approve installations.
func (w *escalationWebhook) missingToApprove(ctx context.Context, u authenticationv1.UserInfo, plan string, r *permission.Request) (
	[]rbacv1.PolicyRule, error) {
	if err := w.ready(); err != nil {
		return nil, err
	}
	bound := r.Bound()
	return w.guard.MissingToApprove(ctx, writer(u), &admission.Installation{
		Plan: plan, ClusterRules: bound.Cluster, Namespace: bound.Namespace, Rules: bound.Rules,
	})
}

// installs returns the controller of InstallPlans.
func installs(cfg *config.Config, executor *helm.Executor, from *source.Client, needs []schema.GroupVersionKind) controller {
	return controller{installplan.Name, needs, func(ctx context.Context, mgr manager.Manager) error {
		kube, err := kubernetes.NewForConfig(mgr.GetConfig())
		if err != nil {
			return err
		}
		return installplan.Setup(ctx, mgr, installation(cfg, executor, charts(from, kube)))
	}}
}
