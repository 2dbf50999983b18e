package controllermanager

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/config"
	controllercatalogue "kapis.dev/ks-apiserver/pkg/controller/catalogue"
	"kapis.dev/ks-apiserver/pkg/controller/extensionversion"
	"kapis.dev/ks-apiserver/pkg/controller/repository"
	"kapis.dev/ks-apiserver/pkg/helm"
	"kapis.dev/ks-apiserver/pkg/version"
)

// catalogue returns the controllers of the catalogue of extensions, which the host of a fleet has; a member installs what its hub brings.
func catalogue(cfg *config.Config, executor *helm.Executor) []controller {
	from, needs := chartSource(cfg), append(catalogueKinds("ExtensionVersion", "InstallPlan"), extensionKinds()...)
	if host(cfg) == "" {
		return []controller{installs(cfg, executor, from, needs)}
	}
	needs = append(needs, append(catalogueKinds("Extension"), clusterv1alpha1.SchemeGroupVersion.WithKind("Cluster"))...)
	return []controller{
		{repository.Name, catalogueKinds("Repository", "Extension", "ExtensionVersion", "InstallPlan"),
			func(ctx context.Context, mgr manager.Manager) error { return repository.Setup(ctx, mgr, from) }},
		{extensionversion.Name, catalogueKinds("Repository", "ExtensionVersion"), func(ctx context.Context, mgr manager.Manager) error {
			kube, err := kubernetes.NewForConfig(mgr.GetConfig())
			if err != nil {
				return err
			}
			return extensionversion.Setup(ctx, mgr, charts(from, kube))
		}},
		installs(cfg, executor, from, needs),
		{controllercatalogue.ExtensionName, catalogueKinds("Extension", "ExtensionVersion", "InstallPlan"),
			func(ctx context.Context, mgr manager.Manager) error {
				kube, err := kubernetes.NewForConfig(mgr.GetConfig())
				if err != nil {
					return err
				}
				return controllercatalogue.SetupExtensions(ctx, mgr, controllercatalogue.Platform{
					Kubernetes: (&clusterVersion{from: kube.Discovery(), now: time.Now}).get, KubeSphere: version.Get().GitVersion,
				})
			}},
		{controllercatalogue.CategoryName, catalogueKinds("Category", "Extension"), controllercatalogue.SetupCategories},
	}
}

func catalogueKinds(kinds ...string) []schema.GroupVersionKind {
	out := make([]schema.GroupVersionKind, len(kinds))
	for i, kind := range kinds {
		out[i] = v1alpha1.SchemeGroupVersion.WithKind(kind)
	}
	return out
}
