package controllermanager

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/manager"

	"kapis.dev/ks-apiserver/pkg/config"
	"kapis.dev/ks-apiserver/pkg/controller/apiservice"
)

// aggregated returns the controller of the APIService. Where the aggregated API is off, it only deletes what is left of it.
func aggregated(cfg *config.Config) controller {
	return controller{name: apiservice.Name, setup: func(ctx context.Context, mgr manager.Manager) error {
		return apiservice.Setup(ctx, mgr, cfg.Aggregated.Enabled)
	}}
}
