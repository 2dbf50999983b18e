package apiserver

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kapis.dev/ks-apiserver/pkg/idp"
)

// readiness has the checks of /readyz.
type readiness struct{ *components }

// checks returns the lines of /readyz. Only what every request needs is vital.
func (p readiness) checks() []check {
	all := []check{
		{name: "shutdown", vital: true, fault: p.drain.fault},
		{name: "oauth-clients", fault: p.clientsFault},
		{name: "identity-providers", fault: p.providersFault},
		{name: "settings", fault: p.settings.Synced},
		{name: "discovery", fault: p.store.Catalog().Err},
	}
	if p.aggregated != nil {
		all = append(all, check{name: "aggregated", fault: p.aggregated.proxy.Fault})
	}
	if p.audit != nil {
		all = append(all, check{name: "audit", fault: p.audit.fault})
	}
	if p.recorder != nil {
		all = append(all, check{name: "terminal-recording", fault: p.recorder.Fault})
	}
	if p.redis != nil {
		all = append(all, check{name: "redis", fault: p.redis.Fault})
	}
	for _, f := range slices.Concat(p.feeds, p.accounts.feeds) {
		all = append(all, check{name: "feed/" + f.gvr.GroupResource().String(), vital: true, fault: func() error {
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
		all = append(all, check{name: name, fault: func() error { return c.Err }})
	}
	return all
}

func (p readiness) clientsFault() error {
	if !p.clients.Synced() {
		return errors.New("the Secrets of OAuth clients are not loaded")
	}
	if wrong := p.clients.Problems(); len(wrong) > 0 {
		return errors.New(wrong[0])
	}
	return nil
}

// providersFault returns what is wrong with the configuration of identity providers, and which of them do not answer.
func (p readiness) providersFault() error {
	if !p.directory.Synced() {
		return errors.New("the Secrets of identity providers are not loaded")
	}
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
