package controllermanager

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	applicationv2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	"kapis.dev/ks-apiserver/pkg/appstore/file"
	"kapis.dev/ks-apiserver/pkg/config"
	"kapis.dev/ks-apiserver/pkg/controller/application"
)

// appStore returns the controllers of applications, their versions and categories, which the host of a fleet has.
func appStore(cfg *config.Config) []controller {
	if host(cfg) == "" {
		return nil
	}
	kinds := func(names ...string) []schema.GroupVersionKind {
		out := make([]schema.GroupVersionKind, len(names))
		for i, name := range names {
			out[i] = applicationv2.SchemeGroupVersion.WithKind(name)
		}
		return out
	}
	return []controller{
		{application.Name, kinds("Application", "ApplicationVersion", "Category"), application.Setup},
		{application.VersionName, kinds("Application", "ApplicationVersion"), func(ctx context.Context, mgr manager.Manager) error {
			kube, err := kubernetes.NewForConfig(mgr.GetConfig())
			if err != nil {
				return err
			}
			return application.SetupVersions(ctx, mgr, file.NewConfigMaps(kube.CoreV1()))
		}},
		{application.AttachmentName, kinds("Application"), application.SetupAttachments},
		{application.CategoryName, kinds("Application", "Category"), application.SetupCategories},
	}
}
