package controllermanager

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	gatewayv1alpha1 "kapis.dev/ks-apiserver/pkg/api/gateway/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/config"
	controllergateway "kapis.dev/ks-apiserver/pkg/controller/gateway"
	"kapis.dev/ks-apiserver/pkg/gateway"
)

// gateways returns the controller of the gateways of projects; none where nothing is configured that makes them.
func gateways(cfg *config.Config) ([]controller, error) {
	by, err := gateway.NewBackend(cfg.Gateway.ClassName, cfg.Gateway.Templates)
	if err != nil || !by.Configured() {
		return nil, err
	}
	needs := []schema.GroupVersionKind{gatewayv1alpha1.SchemeGroupVersion.WithKind("Gateway")}
	if by.ClassName != "" {
		needs = append(needs, gateway.ClassGatewayKind)
	}
	return []controller{{name: controllergateway.Name, needs: needs, setup: func(ctx context.Context, mgr manager.Manager) error {
		return controllergateway.Setup(ctx, mgr, by)
	}}}, nil
}
