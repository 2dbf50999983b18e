package config

import (
	"path/filepath"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Gateway is the section gateway: what the gateways of projects are made by (docs/gateway.md). Without either key there are none.
type Gateway struct {
	// ClassName is the name of a GatewayClass of gateway.networking.k8s.io; "".
	ClassName string `json:"className"`
	// Templates is a folder with the Deployment and the Service of an ingress controller, as the ConfigMap ks-router-config of KubeSphere 3.0
	// has them; "".
	Templates string `json:"templates"`

	WatchesPath any `json:"watchesPath" config:"unread"`
	Namespace   any `json:"namespace" config:"unread"`
	Repository  any `json:"repository" config:"unread"`
	Tag         any `json:"tag" config:"unread"`
}

func (g Gateway) check(fault func(format string, args ...any)) {
	if g.ClassName != "" && g.Templates != "" {
		fault("gateway.className and gateway.templates are both set: gateways are made by one of them")
	}
	if wrong := validation.IsDNS1123Subdomain(g.ClassName); g.ClassName != "" && len(wrong) > 0 {
		fault("gateway.className: %q is not the name of a GatewayClass: %s", g.ClassName, wrong[0])
	}
	if g.Templates != "" && !filepath.IsAbs(g.Templates) {
		fault("gateway.templates: %q is not the absolute path of a folder", g.Templates)
	}
}
