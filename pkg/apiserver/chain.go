package apiserver

import (
	"net/http"
	"net/url"

	"kapis.dev/ks-apiserver/pkg/config"
	"kapis.dev/ks-apiserver/pkg/filter"
	"kapis.dev/ks-apiserver/pkg/kapis/application/app"
	kapisterminal "kapis.dev/ks-apiserver/pkg/kapis/terminal"
	"kapis.dev/ks-apiserver/pkg/oauth"
	"kapis.dev/ks-apiserver/pkg/request"
)

// chain lists the filters of a request, in the order in which they run.
func (p *components) chain(answer http.Handler) http.Handler {
	fleet, members := memberships{p}, memberships{p}.filters()
	return filter.Chain(answer,
		filter.Observe(p.requests),
		filter.Body(p.drain.Started, filter.BodyStallTimeout),
		filter.Recover,
		p.auditing().Wrap, // before everything that answers
		filter.Info,
		filter.Limit(filter.MaxBody, func(i *request.Info) bool {
			return kapisterminal.IsUpload(i) || app.IsUpload(i) || p.extensions.Takes(i)
		}),
		filter.Upgrade(p.ours()),
		filter.Authentication{Authenticator: p.who, Proxies: fleet.peers(), Source: p.accounts.sourceOf,
			VerifiesItself: func(r *request.Info) bool { return oauth.OwnsCredentials(r.Path) || fleet.owns(r.Path) }}.Wrap,
		members.Cluster(p.cfg.Multicluster.ClusterName, p.cfg.Multicluster.HostClusterName, "host"),
		filter.Authorize(p.may),
		p.auditing().Begin,
		recordings{p}.refusing().Wrap,
		members.Fleet(p.may, p.cfg.Multicluster.ClusterName, p.cfg.Multicluster.HostClusterName, "host"),
		members.Pass,
	)
}

// ours returns the origins of the pages that count as this server's: that of the issuer's address, where the console may be, and those that
// the configuration names.
func (p *components) ours() request.Origins {
	out := request.Origins{request.OriginOf(p.cfg.Authentication.Issuer.URL)}
	for _, s := range p.cfg.Authentication.TrustedOrigins {
		if origin, err := request.ParseOrigin(s); err == nil { // Validate refused others
			out = append(out, origin)
		}
	}
	return out
}

// console returns the address of the console where it asks users to log in for clients, else "".
func (p *components) console() string {
	if p.cfg.Authentication.LoginPage == config.LoginPageConsole {
		return p.cfg.Authentication.Issuer.URL
	}
	return ""
}

// origin returns the origin of this server's pages, as browsers write it (RFC 6454, 6.2).
func (p *components) origin() string {
	u, err := url.Parse(p.cfg.Authentication.Issuer.URL)
	if err != nil {
		return "" // Validate refused it
	}
	return u.Scheme + "://" + u.Host
}
