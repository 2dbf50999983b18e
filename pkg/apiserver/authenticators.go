package apiserver

import (
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/request/union"

	"kapis.dev/ks-apiserver/pkg/authn/anonymous"
	"kapis.dev/ks-apiserver/pkg/authn/bearer"
	"kapis.dev/ks-apiserver/pkg/authn/providertoken"
	"kapis.dev/ks-apiserver/pkg/config"
	"kapis.dev/ks-apiserver/pkg/token"
)

// authenticator lists the authenticators, in the order of the configuration: the first one whose credential a request has decides.
func (p *components) authenticator() authenticator.Request {
	by := map[string]authenticator.Request{
		config.CredentialProxy: p.proxies,
		config.CredentialToken: &bearer.Authenticator{
			Prefixed: []bearer.Prefixed{
				{Prefix: token.APIKeyPrefix, Token: &bearer.APIKeys{Keys: p.accounts.keys}},
				{Prefix: token.ServiceAccountPrefix, Token: p.accounts.robots},
				{Prefix: token.ClusterPrefix, Token: p.hub},
			},
			Tokens: append([]authenticator.Token{
				&bearer.AccessTokens{Verifier: p.tokens, Sessions: p.sessions},
				p.pods,
				providertoken.New(providertoken.Options{Directory: p.directory, Accounts: p.people, Own: token.IsKey, Now: time.Now}),
			}, p.legacy...),
			Origins: p.ours(),
		},
		config.CredentialCertificate: p.holders,
	}
	all := make([]authenticator.Request, 0, len(by)+2)
	if p.fromHub != nil {
		all = append(all, p.fromHub) // on a link nothing else counts
	}
	for _, credential := range p.cfg.Authentication.Order {
		all = append(all, by[credential])
	}
	return union.NewFailOnError(append(all, anonymous.Authenticator{})...)
}
