package apiserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	sessionv1alpha1 "kapis.dev/ks-apiserver/pkg/api/session/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/config"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/session"
	"kapis.dev/ks-apiserver/pkg/idp"
	kapisterminal "kapis.dev/ks-apiserver/pkg/kapis/terminal"
	"kapis.dev/ks-apiserver/pkg/oauth/client"
	"kapis.dev/ks-apiserver/pkg/redis"
	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/pkg/token"
)

// makeSessions makes the index of sessions, which are stored in the Kubernetes API and, if the configuration names one, in a Redis
// server.
func (p *components) makeSessions() error {
	kube, err := session.NewClient(p.cluster)
	if err != nil {
		return err
	}
	o := session.Options{
		API: kube, Users: p.users, Keys: p.keys, Lifetime: lifetimeOf(p.clients), ClientCredential: p.clients.Credential,
		Skew:   time.Duration(p.cfg.Authentication.Issuer.MaximumClockSkew),
		Single: !p.cfg.Authentication.MultipleLogin, Now: time.Now, Metrics: p.metrics,
		Synced:  func() bool { return cmp.Or(p.secretsKnown(), p.identityKnown()) == nil },
		Enabled: func(provider string) bool { return p.directory.Enabled(provider) }, // made later
		Linked: func(provider, subject string) (*iam.User, error) {
			return p.accounts.authenticator.Registered(p.people.Linked(provider, subject))
		},
		Refresher: p.askProvider, Complete: func() error { return sessionsKnown(p.store, p.redis) },
	}
	if c := p.cfg.Cache; c.Type == config.CacheRedis {
		if p.redis, err = openRedis(&c.Options, p.keys); err != nil {
			return err
		}
		o.API, o.Prefix = &session.SplitBackend{Prefix: redis.Prefix, Optional: p.redis, Kube: kube}, p.redis.Place
	}
	p.sessions, err = session.New(o)
	return err
}

// sessionsKnown returns why there may be sessions that this replica was not told of, or nil.
func sessionsKnown(of *store.Store, optional *redis.Sessions) error {
	if optional != nil {
		if err := optional.Fault(); err != nil {
			return fmt.Errorf("sessions in Redis: %w", err)
		}
	}
	return store.Complete(of, sessionv1alpha1.SchemeGroupVersion.WithResource("sessions"))()
}

// lifetimeOf returns how long the sessions of a client live.
func lifetimeOf(clients *client.Registry) func(name string) session.Lifetime {
	return func(name string) session.Lifetime {
		if name == kapisterminal.KubectlClient {
			return kapisterminal.KubectlLifetime()
		}
		return clients.Lifetime(name)
	}
}

// openRedis returns the client of the Redis servers that the configuration names.
func openRedis(c *config.CacheOptions, keys token.KeySource) (*redis.Sessions, error) {
	encrypted, err := c.TLS.Client()
	if err != nil {
		return nil, err
	}
	o := redis.Options{
		Addresses: c.Addresses(), Username: c.Username, Password: string(c.Password), DB: c.DB, TLS: encrypted,
		Cluster: len(c.Cluster.Addresses) > 0, Keys: keys, AcceptUnsealed: c.UnsealedUntil(),
	}
	if c.UsesSentinel() {
		o.Sentinel = &redis.Sentinel{Master: c.Sentinel.MasterName, Username: c.Sentinel.Username, Password: string(c.Sentinel.Password)}
	}
	return redis.New(o), nil
}

// runSessions runs the sessions' background work until ctx ends.
func (p *components) runSessions(ctx context.Context) {
	p.running.Go(func() { p.sessions.Run(ctx) })
	if p.redis == nil {
		return
	}
	p.running.Go(func() {
		p.redis.Run(ctx, p.sessions)
		_ = p.redis.Close() // nothing is pending any more that could be lost
	})
}

// askProvider asks an identity provider again for the user of a session.
func (p *components) askProvider(ctx context.Context, s *session.Session, subject, refresh string) (groups []string, newRefresh,
	hint string, err error) {
	id, err := p.directory.Refresh(ctx, s.Provider, subject, refresh)
	if err != nil {
		var renewed *idp.RenewedError
		if errors.As(err, &renewed) {
			newRefresh = renewed.Next.Reveal()
		}
		return nil, newRefresh, "", err
	}
	return id.Groups, id.Refresh, id.Hint, nil
}
