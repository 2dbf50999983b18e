// Package fleet makes a server the hub of a fleet of clusters, or a member of one.
package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	kubespherev1alpha1 "kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/apiserver/fleetlist"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/certificate"
	"kapis.dev/ks-apiserver/pkg/chart/source"
	"kapis.dev/ks-apiserver/pkg/cluster"
	"kapis.dev/ks-apiserver/pkg/cluster/agent"
	"kapis.dev/ks-apiserver/pkg/cluster/deployment"
	"kapis.dev/ks-apiserver/pkg/cluster/direct"
	"kapis.dev/ks-apiserver/pkg/cluster/extensionsync"
	"kapis.dev/ks-apiserver/pkg/cluster/fleetsync"
	"kapis.dev/ks-apiserver/pkg/cluster/hub"
	"kapis.dev/ks-apiserver/pkg/cluster/lite"
	"kapis.dev/ks-apiserver/pkg/egress"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/pkg/tenant"
	"kapis.dev/ks-apiserver/pkg/version"
)

// ClustersKind is the kind of the members.
var ClustersKind = clusterv1alpha1.SchemeGroupVersion.WithResource("clusters")

// Hub is what a server has that is the hub of a fleet. Nil stands for one that is not.
type Hub struct {
	*hub.Hub
	authority *certificate.Keeper
	source    *fleetsync.Source
	enter     entry
	agent     deployment.Options
	caFile    string
	dialing   *direct.Dialing
	lites     *lite.Keeper
	// address gets where other replicas reach this one.
	address chan string
	caches  fleetsync.Snapshots
	host    string
	// Asked counts what lists over all clusters ask.
	Asked *fleetlist.Asked
	// fed return nil once the sinks have been fed all that there is.
	fed atomic.Pointer[[]func() error]
}

// Options are what a hub and a member work with.
type Options struct {
	Client  kubernetes.Interface
	Cluster *rest.Config
	// Caches has this cluster's objects.
	Caches fleetsync.Snapshots
	// Namespace is this server's, and Host the name of this cluster.
	Namespace, Host string
	// Agent is what members of a hub run, but for the token. CAFile has the authorities of the hub's certificate; "" for those of the
	// system.
	Agent  deployment.Options
	CAFile string
	// AllowLoopback lets a hub dial members on this machine, and Drain ends the links that a hub has dialled.
	AllowLoopback bool
	Drain         context.Context
	// Lite makes what serves a member in which no program of ours runs, until ctx ends.
	Lite func(ctx context.Context, t lite.Terms) (*lite.Served, error)
}

// NewHub makes the hub. Held returns what users hold on the platform, and bound where they are bound.
func NewHub(ctx context.Context, o Options, held Grants, bound tenant.Memberships) (*Hub, error) {
	authority, err := certificate.Open(ctx, hub.AuthorityOptions(o.Client.CoreV1().Secrets(o.Namespace), time.Now))
	if apierrors.IsForbidden(err) {
		return nil, errors.Join(err, errors.New("fleet.enabled needs the rights of config/fleet/hub"))
	}
	if err != nil {
		return nil, err
	}
	objects, err := dynamic.NewForConfig(o.Cluster)
	if err != nil {
		return nil, fmt.Errorf("make a client of clusters: %w", err)
	}
	uid, err := clusterUID(ctx, o.Client)
	if err != nil {
		return nil, err
	}
	h := &Hub{authority: authority, source: fleetsync.NewSource(o.Caches), agent: o.Agent, caFile: o.CAFile, address: make(chan string, 1),
		caches: o.Caches, host: o.Host, Asked: fleetlist.NewAsked()}
	h.Hub = hub.New(hub.Options{Clusters: objects.Resource(ClustersKind), Authority: authority, UID: uid, Host: o.Host, Now: time.Now,
		Leases: o.Client.CoordinationV1().Leases(o.Namespace), Drain: o.Drain})
	syncer := &fleetsync.Syncer{Source: h.source, Known: h.known, Hub: uid, Current: h.Members.ByUID}
	extensions := &extensionsync.Hub{Caches: o.Caches, UID: uid, Current: h.Members.ByUID, Now: time.Now,
		Charts: &source.Loader{Client: source.New(egress.Options{AllowLoopback: o.AllowLoopback}), Objects: source.Kube{Client: o.Client}},
		Plans:  objects.Resource(kubespherev1alpha1.SchemeGroupVersion.WithResource("installplans"))}
	h.Members.Follow = func(ctx context.Context, m *cluster.Member) {
		go extensions.Follow(ctx, m)
		syncer.Follow(ctx, m)
	}
	h.dialing = &direct.Dialing{Members: h.Members, Hub: uid, Admit: h.Invited, Failed: h.Failed, Replace: h.ReplaceKubeconfig,
		Transport: dialed(o.AllowLoopback), Endpoint: toEndpoints(o.AllowLoopback)}
	h.dialing.Host, h.dialing.Installed, h.dialing.Software = o.Host, h.Acted, func() ([]byte, error) {
		return deployment.YAML(deployment.Options{APIServerImage: o.Agent.APIServerImage, ControllerManagerImage: o.Agent.ControllerManagerImage})
	}
	h.lites = &lite.Keeper{Members: h.Members, Hub: uid, Admit: h.Invited, Failed: h.Failed, Replace: h.ReplaceKubeconfig,
		Transport: h.dialing.Transport, Serve: o.Lite, Version: version.Get().GitVersion, Now: time.Now}
	h.enter = entry{h.Members, held, bound, &tenant.Clusters{Store: o.Caches, Host: o.Host}}
	return h, nil
}

// Sinks returns what has to be fed.
func (h *Hub) Sinks() map[schema.GroupVersionResource]store.Sink {
	out := h.source.Sinks()
	out[ClustersKind] = h.Members
	return out
}

// Fed sets what return nil once the sinks have been fed all that there is.
func (h *Hub) Fed(all []func() error) { h.fed.Store(&all) }

var errNotFed = errors.New("it is not fed yet")

func (h *Hub) known() error {
	all := h.fed.Load()
	if all == nil {
		return errNotFed
	}
	for _, synced := range *all {
		if err := synced(); err != nil {
			return err
		}
	}
	return nil
}

// Run keeps the authority and the conditions of members, until ctx ends.
func (h *Hub) Run(ctx context.Context) {
	go h.authority.Run(ctx)
	go h.dialing.Run(ctx)
	go h.lites.Run(ctx)
	go h.Hub.Run(ctx)
	select {
	case <-ctx.Done():
	case address := <-h.address:
		h.Peers.Run(ctx, address)
	}
}

// Listen tells the other replicas of the hub that this one listens by l.
func (h *Hub) Listen(ctx context.Context, l net.Listener, apiserver string) {
	if h == nil {
		return
	}
	h.address <- peerAddress(ctx, l.Addr(), apiserver)
}

// peerAddress returns the address at which other replicas reach one that listens at another; "" where that is not known. One that listens
// everywhere is reached where it reaches kube-apiserver from, which costs no packet to know. One whose address is not known passes requests
// on all the same.
func peerAddress(ctx context.Context, listen net.Addr, apiserver string) string {
	at, ok := listen.(*net.TCPAddr)
	if !ok {
		return ""
	}
	own := *at
	if at.IP.IsUnspecified() {
		u, err := url.Parse(apiserver)
		if err != nil {
			return ""
		}
		port := cmp.Or(u.Port(), "443")
		conn, err := (&net.Dialer{}).DialContext(ctx, "udp", net.JoinHostPort(u.Hostname(), port))
		if err != nil {
			return ""
		}
		defer func() { _ = conn.Close() }()
		from, ok := conn.LocalAddr().(*net.UDPAddr)
		if !ok {
			return ""
		}
		own.IP = from.IP
	}
	return netip.AddrPortFrom(own.AddrPort().Addr().Unmap(), own.AddrPort().Port()).String()
}

// Deployment returns what is applied to a cluster so that it joins as c.
func (h *Hub) Deployment(_ context.Context, c *clusterv1alpha1.Cluster) ([]byte, error) {
	if isLite(c) {
		return h.liteDeployment(c)
	}
	o := h.agent
	if h.caFile != "" {
		raw, err := os.ReadFile(h.caFile)
		if err != nil {
			return nil, fmt.Errorf("read the authorities of this server's certificate (fleet.agent.caFile): %w", err)
		}
		o.CA = string(raw)
	}
	token, _, err := h.Token(c)
	if err != nil {
		return nil, err
	}
	o.Token = token
	return deployment.YAML(o)
}

// Pending returns what a member still has to get or to lose, and whether it was told everything since it was linked.
func (h *Hub) Pending(name string) (synced bool, pending []cluster.Pending) {
	if m := h.Members.ByName(name); m != nil {
		return m.Synced()
	}
	return false, nil
}

// Has reports whether there is a member of a name.
func (h *Hub) Has(name string) bool { return h != nil && name != "" && h.Members.ByName(name) != nil }

// Entering returns what decides who may enter a member, where requests are for one, and leaves all others to next.
func (h *Hub) Entering(next authz.Authorizer) authz.Authorizer {
	if h == nil {
		return next
	}
	return entering{h, next}
}

// MayList reports whether a user may know which clusters there are.
func (h *Hub) MayList(ctx context.Context, may authz.Authorizer, u user.Info) bool {
	d, err := may.Authorize(ctx, u, &request.Info{Verb: "list", IsResource: true, APIPrefix: "kapis", APIGroup: ClustersKind.Group,
		APIVersion: ClustersKind.Version, Resource: ClustersKind.Resource, Scope: request.Cluster,
		Path: "/kapis/" + ClustersKind.GroupVersion().String() + "/" + ClustersKind.Resource})
	return err == nil && d.Allowed()
}

// Joins returns what answers clusters that are nobody yet.
func (h *Hub) Joins(drain context.Context) http.Handler { return hub.NewHandler(drain, h.Hub) }

// Owns reports whether a path is one of clusters that are nobody yet.
func (h *Hub) Owns(path string) bool { return h != nil && hub.Owns(path) }

// entering decides who may enter a member.
type entering struct {
	hub  *Hub
	next authz.Authorizer
}

// Authorize implements authz.Authorizer. It decides who enters a cluster; what they may do there is decided there, by its own roles.
func (e entering) Authorize(ctx context.Context, u user.Info, r *request.Info) (authz.Decision, error) {
	lists := fleetlist.Owns(r)
	if !lists && (r == nil || !e.hub.Has(r.Cluster)) {
		return e.next.Authorize(ctx, u, r)
	}
	if d, err := authz.RestrictAPIKeys(ctx, u, r); err != nil || d.Denied() {
		return d, err
	}
	if lists {
		if u == nil || !slices.Contains(u.GetGroups(), user.AllAuthenticated) {
			return authz.Decision{}, nil
		}
		return authz.Allow("asks clusters, each of which decides what they may see there", ""), nil
	}
	why, err := e.hub.enter.reason(ctx, u, r.Cluster)
	if err != nil || why == "" {
		return authz.Decision{}, err
	}
	return authz.Allow("enters the cluster, which decides what they may do there: "+why, ""), nil
}

// clusterUID returns the identity of a cluster: the UID of kube-system.
func clusterUID(ctx context.Context, client kubernetes.Interface) (string, error) {
	ns, err := client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("read the identity of this cluster: %w", err)
	}
	return string(ns.UID), nil
}

// Way is how a member finds its hub: the address, and files with the authorities of its certificate and with a join token.
type Way struct{ URL, CAFile, TokenFile string }

// ofMember returns what every member works with.
func ofMember(ctx context.Context, o Options, kubernetesVersion string, handler http.Handler) (agent.Options, error) {
	uid, err := clusterUID(ctx, o.Client)
	if err != nil {
		return agent.Options{}, err
	}
	handler, err = ofHub(o, kubernetesVersion, handler)
	if err != nil {
		return agent.Options{}, err
	}
	return agent.Options{Secrets: o.Client.CoreV1().Secrets(o.Namespace), UID: uid, KubernetesVersion: kubernetesVersion,
		Version: version.Get().GitVersion, Handler: handler, Drain: o.Drain, Now: time.Now}, nil
}

// NewGuest returns what makes this cluster a member of the fleet of a hub that invites it, whose requests handler answers.
func NewGuest(ctx context.Context, o Options, kubernetesVersion string, handler http.Handler) (*agent.Guest, error) {
	options, err := ofMember(ctx, o, kubernetesVersion, handler)
	if err != nil {
		return nil, err
	}
	return agent.NewGuest(options, o.Client.CoreV1().ConfigMaps(o.Namespace)), nil
}

// NewMember returns what keeps this cluster in the fleet of a hub, whose requests handler answers.
func NewMember(ctx context.Context, o Options, w Way, kubernetesVersion string, handler http.Handler) (*agent.Agent, error) {
	at, err := url.Parse(w.URL)
	if err != nil {
		return nil, fmt.Errorf("read fleet.hub.url: %w", err)
	}
	options, err := ofMember(ctx, o, kubernetesVersion, handler)
	if err != nil {
		return nil, err
	}
	options.Hub, options.Token = at, w.token
	if w.CAFile != "" {
		if options.CA, err = os.ReadFile(w.CAFile); err != nil {
			return nil, fmt.Errorf("read fleet.hub.caFile: %w", err)
		}
	}
	a, err := agent.New(options)
	if err != nil {
		return nil, fmt.Errorf("join a fleet (fleet.hub): %w", err)
	}
	return a, nil
}

// token returns the join token in the file, "" for none.
func (w Way) token() (string, error) {
	if w.TokenFile == "" {
		return "", nil
	}
	raw, err := os.ReadFile(w.TokenFile)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read fleet.hub.tokenFile: %w", err)
	}
	return strings.TrimSpace(string(raw)), nil
}
