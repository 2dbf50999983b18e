// Package config serves config.kubesphere.io: what clients need to know about the configuration.
package config

import (
	restful "github.com/emicklei/go-restful/v3"

	"kapis.dev/ks-apiserver/pkg/web"
)

// Handler answers the routes of config.kubesphere.io.
type Handler struct {
	// Multicluster is the answer of configz about the fleet.
	Multicluster Multicluster
	// Terminal is the answer of configz about files of containers; nil where none are transferred.
	Terminal *Terminal
	// Auditing is the answer of configz whether pages may show recent audit events.
	Auditing bool
	// IdentityProviders are the routes of identity providers; nil for none.
	IdentityProviders *IdentityProviders
	// OAuth answers the login page; nil for no such route.
	OAuth *OAuth
	// GPUKinds are the resources that older clients offer as graphics processors of a container.
	GPUKinds []GPUKind
	// Settings are the routes of settings that change while the platform runs; nil for none.
	Settings *Settings
}

// V1alpha2 returns the routes of config.kubesphere.io/v1alpha2.
func (h Handler) V1alpha2() *restful.WebService {
	ws := new(restful.WebService).Path("/kapis/config.kubesphere.io/v1alpha2").Produces(restful.MIME_JSON)
	ws.Route(ws.GET("/configs/configz").To(web.Handle(h.configz)).
		Doc("what this cluster is in a fleet, and how large uploads may be").Operation("getMulticlusterConfiguration").Writes(configz{}))
	ws.Route(ws.GET("/configs/gpu/kinds").To(web.Handle(h.gpuKinds)).
		Doc("which resources of nodes are graphics processors").Operation("getGPUKinds").Writes([]GPUKind{}))
	if h.IdentityProviders != nil {
		h.IdentityProviders.mount(ws)
	}
	if h.OAuth != nil {
		ws.Route(ws.GET("/configs/oauth").To(web.Handle(h.OAuth.show)).
			Doc("how to log in").Operation("getOAuthConfiguration").Writes(oauthConfig{}))
	}
	if h.Settings != nil {
		h.Settings.mount(ws)
	}
	return ws
}
