package apiserver

import (
	"time"

	restful "github.com/emicklei/go-restful/v3"
	"k8s.io/apimachinery/pkg/api/resource"

	kapisconfig "kapis.dev/ks-apiserver/pkg/kapis/config"
)

// configService returns the routes of the configuration that clients need, and of the settings that are changed while the platform runs.
func (p routes) configService() *restful.WebService {
	fleet, issuer := p.cfg.Multicluster, p.cfg.Authentication.Issuer
	var terminals *kapisconfig.Terminal
	if t := p.cfg.Terminal; t.Files {
		terminals = &kapisconfig.Terminal{UploadFileLimit: resource.NewQuantity(int64(t.UploadFileLimit), resource.BinarySI).String()}
	}
	var gpus []kapisconfig.GPUKind
	for _, k := range p.cfg.GPU.Offered() {
		gpus = append(gpus, kapisconfig.GPUKind{ResourceName: k.ResourceName, ResourceType: k.ResourceType, Default: k.Default})
	}
	return kapisconfig.Handler{
		Terminal: terminals, GPUKinds: gpus, Auditing: p.audit != nil && p.audit.recent != nil,
		Multicluster: kapisconfig.Multicluster{ClusterRole: fleet.ClusterRole, HostClusterName: fleet.HostClusterName,
			ClusterName: fleet.ClusterName},
		OAuth: &kapisconfig.OAuth{
			Issuer: kapisconfig.Issuer{URL: issuer.URL, AccessTokenMaxAge: time.Duration(issuer.AccessTokenMaxAge),
				AccessTokenInactivityTimeout: time.Duration(issuer.AccessTokenInactivityTimeout),
				MaximumClockSkew:             time.Duration(issuer.MaximumClockSkew)},
			Clients: p.shownClients, Providers: p.directory, Console: p.clients.Console,
		},
		IdentityProviders: &kapisconfig.IdentityProviders{Directory: p.directory, Accounts: p.people},
		Settings:          &kapisconfig.Settings{Settings: p.settings, AsCaller: p.caller()},
	}.V1alpha2()
}

// shownClients returns the OAuth clients without their secrets.
func (p routes) shownClients() []kapisconfig.Client {
	all := p.clients.All()
	out := make([]kapisconfig.Client, 0, len(all))
	for _, c := range all {
		out = append(out, kapisconfig.Client{
			Name: c.Name, Trusted: c.Trusted, GrantMethod: c.GrantMethod, RespondWithChallenges: c.RespondWithChallenges,
			ScopeRestrictions: c.ScopeRestrictions, RedirectURIs: c.RedirectURIs,
			AccessTokenMaxAgeSeconds: c.AccessTokenMaxAgeSeconds, AccessTokenInactivityTimeoutSeconds: c.AccessTokenInactivityTimeoutSeconds,
		})
	}
	return out
}
