package apiserver

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kapis.dev/ks-apiserver/pkg/apiserver/health"
	"kapis.dev/ks-apiserver/pkg/idp"
)

// readiness has the checks of /readyz.
type readiness struct{ *components }

// checks returns the lines of /readyz. Only what every request needs is vital.
func (p readiness) checks() []health.Check {
	all := []health.Check{
		{Name: "shutdown", Vital: true, Fault: p.drain.Fault}, {Name: "login", Vital: true, Fault: p.secretsKnown},
		{Name: "oauth-clients", Fault: p.clientsFault}, {Name: "identity-providers", Fault: p.providersFault},
		{Name: "settings", Fault: p.settings.Synced}, {Name: "discovery", Fault: p.store.Catalog().Err},
	}
	if p.aggregated != nil {
		all = append(all, health.Check{Name: "aggregated", Fault: p.aggregated.proxy.Fault})
	}
	if p.audit != nil {
		all = append(all, health.Check{Name: "audit", Fault: p.audit.fault})
	}
	if p.recorder != nil {
		all = append(all, health.Check{Name: "terminal-recording", Fault: p.recorder.Fault})
	}
	if p.redis != nil {
		all = append(all, health.Check{Name: "redis", Fault: p.redis.Fault})
	}
	for _, f := range slices.Concat(p.feeds, p.accounts.feeds) {
		all = append(all, health.Check{Name: "feed/" + f.gvr.GroupResource().String(), Vital: true, Fault: func() error {
			err := f.synced()
			if apierrors.IsNotFound(err) {
				return nil // shown below, as what it degrades
			}
			return err
		}})
	}
	for _, c := range p.store.Conditions() {
		name := "cache/" + c.GVR.GroupResource().String()
		if c.Namespaces > 0 {
			name += "@namespaces"
		}
		all = append(all, health.Check{Name: name, Fault: func() error { return c.Err }})
	}
	return all
}

func (p readiness) clientsFault() error {
	if wrong := p.clients.Problems(); len(wrong) > 0 {
		return errors.New(wrong[0])
	}
	return nil
}

// providersFault returns what is wrong with the configuration of identity providers, and which of them do not answer.
func (p readiness) providersFault() error {
	wrong := slices.Clone(p.directory.Problems())
	for _, e := range p.directory.Entries() {
		if s := p.directory.Status(e.Name); s != nil && e.Usable() {
			if c := meta.FindStatusCondition(s.Conditions, idp.ConditionReachable); c != nil && c.Status == metav1.ConditionFalse {
				wrong = append(wrong, fmt.Sprintf("identity provider %q: %s", e.Name, c.Message))
			}
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return errors.New(strings.Join(wrong, "; "))
}

// rolesKnown returns nil once every kind of role and binding is known. It does not wait for a kind that the cluster does not have.
func (p *components) rolesKnown() error {
	for _, f := range p.feeds {
		if err := f.synced(); f.roles && err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// secretsKnown returns nil once the Secrets of OAuth clients and of identity providers are read.
func (p *components) secretsKnown() error {
	if !p.clients.Synced() || !p.directory.Synced() {
		return errors.New("the Secrets of OAuth clients and identity providers are not read yet")
	}
	return nil
}

func (p *components) identityKnown() error {
	for _, f := range p.feeds {
		if err := f.synced(); !f.roles && err != nil {
			return err
		}
	}
	return nil
}
