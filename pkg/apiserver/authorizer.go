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
)

// makeAuthorizer puts the authorizers in their order: the scope of an API key, the paths that are open to everybody, then the configured
// modes. The modes also decide about what a request stands for (a kind of another group, a legacy name, the membership of a workspace),
// so that a denial of the one is a denial of the other. ARCHITECTURE.md has a drawing.
func (p *components) makeAuthorizer() error {
	order := p.cfg.Authorization.Order()
	var all, before []authz.Authorizer
	for n, mode := range order {
		a, err := p.authorizerOf(mode)
		if err != nil {
			return err
		}
		all = append(all, a)
		if mode == config.ModeWebhook && n < len(order)-1 {
			before = slices.Clone(all) // its denials hold against the modes after it
		}
	}
	aliases := authz.Aliases{Next: authz.Union(all...), GroupOf: p.store.Catalog().GroupOf}
	decide := authz.LegacyNames(aliases)
	if slices.Contains(order, config.ModeRBAC) { // only roles know memberships and partial lists
		p.members = p.membersToo(decide)
		decide = p.members
	}
	if len(before) > 0 {
		decide = authz.WebhookVeto{Before: authz.LegacyNames(authz.Union(before...)), Next: decide, As: aliases.Of}
	}
	p.may = authz.RestrictAPIKeys(authz.Union(authz.Paths(authz.DefaultPaths()), decide))
	return nil
}

// authorizerOf makes the one of a mode.
func (p *components) authorizerOf(mode string) (authz.Authorizer, error) {
	c := &p.cfg.Authorization
	switch mode {
	case config.ModeRBAC:
		return loaded{p.rbac, p.rolesKnown}, nil
	case config.ModeWebhook:
		w := &c.Webhook
		return webhook.New(webhook.Options{
			Kubeconfig: w.KubeconfigFile, Timeout: time.Duration(w.Timeout), FailOpen: w.FailurePolicy == config.FailureNoOpinion,
			AuthorizedTTL: time.Duration(w.AuthorizedTTL), UnauthorizedTTL: time.Duration(w.UnauthorizedTTL),
			WorkspaceOf: p.rbac.WorkspaceOf, Metrics: p.metrics, Now: time.Now,
		})
	case config.ModeABAC:
		a, err := abac.Load(c.ABAC.PolicyFile)
		if err != nil {
			return nil, err
		}
		a.WorkspaceOf = p.rbac.WorkspaceOf
		return a, nil
	case config.ModeAlwaysAllow:
		klog.InfoS("WARNING: the authorization mode AlwaysAllow lets everybody who is logged in do everything; it is for tests alone")
		return authz.AlwaysAllow(), nil
	case config.ModeAlwaysDeny:
		return authz.AlwaysDeny(), nil
	}
	return nil, fmt.Errorf("make the authorizer of the mode %q: there is none", mode) // Validate refused it
}
