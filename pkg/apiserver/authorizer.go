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

// makeAuthorizer lists who decides. What the credential is for comes before all; then what is open to all, and then the modes in the
// configured order. These are asked about what a request stands for as well (a kind of another group, an older name, the membership of a
// workspace), so that whoever forbids the one forbids the other.
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
			before = slices.Clone(all) // what it forbids, those behind it do not allow
		}
	}
	aliases := authz.Aliases{Next: authz.Union(all...), GroupOf: p.store.Catalog().GroupOf}
	decide := authz.LegacyNames(aliases)
	if slices.Contains(order, config.ModeRBAC) { // only roles tell what somebody is a member of, and what part of a list he may see
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
