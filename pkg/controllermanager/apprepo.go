package controllermanager

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	applicationv2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	"kapis.dev/ks-apiserver/pkg/config"
	"kapis.dev/ks-apiserver/pkg/controller/apprepo"
)

// appRepos returns the controller of the application store's Repos, which the host of a fleet has.
func appRepos(cfg *config.Config) []controller {
	if host(cfg) == "" {
		return nil
	}
	var kinds []schema.GroupVersionKind
	for _, kind := range []string{"Application", "ApplicationRelease", "ApplicationVersion", "Repo"} {
		kinds = append(kinds, applicationv2.SchemeGroupVersion.WithKind(kind))
	}
	return []controller{{apprepo.Name, kinds, func(ctx context.Context, mgr manager.Manager) error {
		return apprepo.Setup(ctx, mgr, chartSource(cfg))
	}}}
}
