package apiserver

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/authz/abac"
	"kapis.dev/ks-apiserver/pkg/authz/webhook"
	"kapis.dev/ks-apiserver/pkg/config"
	kapisterminal "kapis.dev/ks-apiserver/pkg/kapis/terminal"
	"kapis.dev/ks-apiserver/pkg/tenant"
)

// makeAuthorizer puts the authorizers in their order: the scope of an API key, the paths that are open to everyone, then the configured
// modes. ARCHITECTURE.md has a drawing.
func (p *components) makeAuthorizer() error {
	all, modes := authz.Union{authz.Func(authz.RestrictAPIKeys), authz.Paths(authz.DefaultPaths())}, p.cfg.Authorization.Order()
	order := &authz.Order{Aliases: p.aliases(), OwnShell: kapisterminal.OwnShell}
	for n, mode := range modes {
		a, err := p.authorizerOf(mode)
		if err != nil {
			return err
		}
		all = append(all, a)
		if mode == config.ModeWebhook && n < len(modes)-1 {
			order.Vetoing = len(all) // its denials hold against the modes after it
		}
	}
	order.Authorizers = all
	if slices.Contains(modes, config.ModeRBAC) { // only roles know memberships and partial lists
		p.members = &tenant.Members{Rights: all[len(all)-len(modes):], Bound: p.rbac, Fleet: p.fleet()}
		order.Members = p.members
	}
	p.may = p.hub.Entering(order)
	return nil
}

// aliases returns the kinds that resources.kubesphere.io has.
func (p *components) aliases() authz.Aliases {
	return authz.Aliases{GroupOf: p.store.Catalog().GroupOf}
}

// authorizerOf returns the authorizer of a mode.
func (p *components) authorizerOf(mode string) (authz.Authorizer, error) {
	c := &p.cfg.Authorization
	switch mode {
	case config.ModeRBAC:
		return authz.Loaded{Authorizer: p.rbac, Known: p.rolesKnown}, nil
	case config.ModeWebhook:
		w := &c.Webhook
		return webhook.New(webhook.Options{
			Kubeconfig: w.KubeconfigFile, Timeout: time.Duration(w.Timeout), FailOpen: w.FailurePolicy == config.FailureNoOpinion,
			AuthorizedTTL: time.Duration(w.AuthorizedTTL), UnauthorizedTTL: time.Duration(w.UnauthorizedTTL),
			WorkspaceOf: p.rbac.WorkspaceOf, GroupsOf: p.groups.Of, Metrics: p.metrics, Now: time.Now,
		})
	case config.ModeABAC:
		a, err := abac.Load(c.ABAC.PolicyFile)
		if err != nil {
			return nil, err
		}
		a.WorkspaceOf, a.GroupsOf = p.rbac.WorkspaceOf, p.groups.Of
		return a, nil
	case config.ModeAlwaysAllow:
		klog.InfoS("WARNING: the authorization mode AlwaysAllow lets everybody who is logged in do everything; it is for tests alone")
		return authz.AlwaysAllow(), nil
	case config.ModeAlwaysDeny:
		return authz.AlwaysDeny(), nil
	}
	return nil, fmt.Errorf("make the authorizer of the mode %q: there is none", mode) // Validate refused it
}
