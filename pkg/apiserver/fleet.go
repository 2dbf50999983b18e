package apiserver

import (
	"cmp"
	"context"
	"net/http"

	"kapis.dev/ks-apiserver/pkg/apiserver/fleet"
	"kapis.dev/ks-apiserver/pkg/apiserver/lite"
	authnfleet "kapis.dev/ks-apiserver/pkg/authn/fleet"
	"kapis.dev/ks-apiserver/pkg/cluster/deployment"
	"kapis.dev/ks-apiserver/pkg/cluster/join"
	"kapis.dev/ks-apiserver/pkg/filter"
	"kapis.dev/ks-apiserver/pkg/proxy"
	"kapis.dev/ks-apiserver/pkg/store"
)

// memberships are those of this cluster: its members where it is a hub, and its own where it is a member.
type memberships struct{ *components }

// make makes the hub of a fleet, and the way in which a member knows its callers.
func (p memberships) make(ctx context.Context) (err error) {
	if p.isMember() {
		p.fromHub = &authnfleet.Authenticator{Local: p.users.FleetUIDOf}
	}
	if p.cfg.Fleet.Enabled {
		if p.hub, err = fleet.NewHub(ctx, p.options(), p.rbac, p.rbac); err == nil {
			p.metrics.MustRegister(p.hub.Members, p.hub.Asked)
			p.running.Go(func() { p.hub.Run(ctx) })
			p.guard.Named, p.guard.InMembers = p.hub.Named(p.guard.Named), p.hub.Members.BindGroup
		}
	}
	return err
}

func (p memberships) options() fleet.Options {
	c, f, issuer := p.cfg, p.cfg.Fleet, p.cfg.Authentication.Issuer
	return fleet.Options{Client: p.client, Cluster: p.cluster, Caches: p.store, Changes: store.ChangesOf(p.store), Namespace: namespace,
		Files: p.files, Drain: p.drain.Started,
		AllowLoopback: c.Egress.AllowLoopback, Lite: (&lite.Clusters{MemoryBytes: int64(f.LiteMemory), MaxItems: c.Resources.MaxItems}).Serve,
		SharedSecret: fleet.SharedSecret{Members: f.SharedSecretMembers, Directory: f.SharedSecretDirectory, Issuer: issuer.URL,
			Own: []byte(issuer.JWTSecret), Serve: proxy.NewSharedSecretMember}, Configz: c.Configz(),
		Host: c.Multicluster.HostClusterName, CAFile: cmp.Or(f.Agent.CAFile, c.Kubeconfig.CertificateAuthority), Agent: deployment.Options{
			Hub:            cmp.Or(c.Multicluster.ProxyPublishAddress, issuer.URL),
			APIServerImage: f.Agent.APIServerImage, ControllerManagerImage: f.Agent.ControllerManagerImage}}
}

// follow feeds the hub.
func (p memberships) follow() {
	if p.hub == nil {
		return
	}
	var all []func() error
	for gvr, sink := range p.hub.Sinks() {
		synced := p.store.Feed(gvr, sink)
		p.feeds, all = append(p.feeds, feed{gvr, false, synced}), append(all, synced)
	}
	p.hub.Fed(append(all, p.rolesKnown), store.Complete(p.store, p.hub.Kinds()...))
	p.hub.Complete = store.Complete(p.store, fleet.ClustersKind)
}

// join keeps this cluster in the fleet of its hub, whose requests handler answers, if it is to be a member of one.
func (p memberships) join(ctx context.Context, handler http.Handler) error {
	p.hub.Listen(ctx, p.listeners[0], p.cluster.Host)
	switch {
	case !p.isMember():
		return nil
	case p.cfg.Fleet.Hub.URL == "":
		guest, err := fleet.NewGuest(ctx, p.options(), p.kubernetes.GitVersion, handler)
		if err == nil {
			p.guest.Store(guest)
			p.running.Go(func() { guest.Run(ctx) })
		}
		return err
	}
	member, err := fleet.NewMember(ctx, p.options(), fleet.Way(p.cfg.Fleet.Hub), p.kubernetes.GitVersion, handler)
	if err == nil {
		p.running.Go(func() { member.Run(ctx) })
	}
	return err
}

// filters pass requests on to members; nil where there are none.
func (p memberships) filters() *filter.Members {
	if p.hub == nil {
		return nil
	}
	return &filter.Members{Has: p.hub.Has, Handler: routes(p).kubeconfigs().OfMembers(proxy.NewMembers(p.hub.Members.ByName, p.streams)),
		Lists: p.hub.Lists(p.may, p.streams, proxy.MemberReader{Find: p.hub.Members.ByName}), MayList: p.hub.MayList(p.may)}
}

// isMember reports whether this cluster is to be a member of a fleet.
func (p memberships) isMember() bool { return p.cfg.Multicluster.ClusterRole == "member" }

// owns reports whether a path is for clusters that have not proved who they are yet, or for a hub that dials this member.
func (p memberships) owns(path string) bool {
	return p.hub.Owns(path) || p.fromHub != nil && path == join.PathDirect
}

// joins answers clusters that have not proved who they are yet, and a hub that dials this member.
func (p memberships) joins() http.Handler {
	if p.hub != nil {
		return p.hub.Joins(p.drain.Started)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if guest := p.guest.Load(); guest != nil {
			guest.ServeHTTP(w, r)
			return
		}
		http.NotFound(w, r)
	})
}

// peers are whose headers name users.
func (p memberships) peers() filter.Proxies {
	if p.fromHub == nil {
		return p.proxies
	}
	return filter.AllProxies{p.proxies, p.fromHub}
}
