// Package fleet makes a server the hub of a fleet of clusters, or a member of one.
package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	kubespherev1alpha1 "kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/apiserver/fleetlist"
	"kapis.dev/ks-apiserver/pkg/certificate"
	"kapis.dev/ks-apiserver/pkg/chart/source"
	"kapis.dev/ks-apiserver/pkg/cluster"
	"kapis.dev/ks-apiserver/pkg/cluster/deployment"
	"kapis.dev/ks-apiserver/pkg/cluster/direct"
	"kapis.dev/ks-apiserver/pkg/cluster/extensionsync"
	"kapis.dev/ks-apiserver/pkg/cluster/fleetsync"
	"kapis.dev/ks-apiserver/pkg/cluster/hub"
	"kapis.dev/ks-apiserver/pkg/cluster/lite"
	"kapis.dev/ks-apiserver/pkg/egress"
	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/pkg/tenant"
	"kapis.dev/ks-apiserver/pkg/version"
)

// ClustersKind is the kind of the members.
var ClustersKind = clusterv1alpha1.SchemeGroupVersion.WithResource("clusters")

// Hub is what makes a server the hub of a fleet. Nil stands for a server that is no hub.
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
	drain   context.Context //nolint:containedctx // of the server
	// Asked counts what lists over all clusters ask.
	Asked *fleetlist.Asked
	fed   atomic.Pointer[feeds]
}

// feeds are what feeds the sinks of a hub.
type feeds struct {
	// all return nil once the sinks have all objects, and complete while no object is missing in them.
	all      []func() error
	complete func() error
}

// Options are what a hub and a member work with.
type Options struct {
	Client  kubernetes.Interface
	Cluster *rest.Config
	// Caches has this cluster's objects.
	Caches *store.Store
	// Changes tells of changes in this cluster's caches, and in what they feed: see revalidate.Member.
	Changes func() (n uint64, next <-chan struct{})
	// Namespace is this server's, and Host the name of this cluster.
	Namespace, Host string
	// Files keeps the packages of applications.
	Files Files
	// Agent are the options of the agent that members of a hub run, without the token. CAFile has the authorities of the hub's certificate;
	// "" for those of the system.
	Agent  deployment.Options
	CAFile string
	// SharedSecret says how to reach members that authenticate callers by a shared secret.
	SharedSecret SharedSecret
	// Configz is which optional parts of this cluster are on, which a member tells its hub.
	Configz map[string]bool
	// AllowLoopback lets a hub dial members on this machine, and Drain ends the links that a hub has dialled.
	AllowLoopback bool
	Drain         context.Context
	// Lite returns the handler for a member in which none of our programs run; it works until ctx ends.
	Lite func(ctx context.Context, t lite.Terms) (*lite.Served, error)
}

// areCurrent returns nil while the caches have all objects of some kinds, as they are now: see store.Complete.
func (o *Options) areCurrent(kinds ...schema.GroupVersionResource) error {
	return store.Complete(o.Caches, kinds...)()
}

// NewHub returns a hub. held returns the rights of users on the platform, and bound the scopes in which they are bound.
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
		caches: o.Caches, host: o.Host, drain: o.Drain, Asked: fleetlist.NewAsked()}
	h.source.Going = definitionGoing(objects.Resource(definitionsKind))
	h.Hub = hub.New(hub.Options{Clusters: objects.Resource(ClustersKind), Authority: authority, UID: uid, Host: o.Host, Now: time.Now,
		Leases: o.Client.CoordinationV1().Leases(o.Namespace), Drain: o.Drain, Reached: h.reached})
	syncer := &fleetsync.Syncer{Source: h.source, Known: h.isCurrent, Hub: uid, Current: h.Members.ByUID}
	extensions := &extensionsync.Hub{Caches: o.Caches, Known: o.areCurrent, UID: uid, Current: h.Members.ByUID, Now: time.Now,
		Charts: &source.Loader{Client: source.New(egress.Options{AllowLoopback: o.AllowLoopback}), Objects: source.Kube{Client: o.Client}},
		Plans:  objects.Resource(kubespherev1alpha1.SchemeGroupVersion.WithResource("installplans"))}
	releases := releasesOf(h, o, objects, uid)
	h.Members.Follow = func(ctx context.Context, m *cluster.Member) {
		go extensions.Follow(ctx, m)
		go releases.Follow(ctx, m)
		go fleetsync.Prober{}.Follow(ctx, m)
		go fleetsync.FollowNames(ctx, m)
		syncer.Follow(ctx, m)
	}
	h.dialing = &direct.Dialing{Members: h.Members, Hub: uid, Admit: h.Invited, Failed: h.Failed, Replace: h.ReplaceKubeconfig,
		Transport: dialed(o.AllowLoopback), Endpoint: toEndpoints(o.AllowLoopback)}
	h.Members.SharedSecrets, h.dialing.Shared = o.SharedSecret.Members, o.SharedSecret.dialled()
	h.dialing.Host, h.dialing.Installed, h.dialing.Software = o.Host, h.Acted, func() ([]byte, error) {
		return deployment.YAML(deployment.Options{APIServerImage: o.Agent.APIServerImage, ControllerManagerImage: o.Agent.ControllerManagerImage})
	}
	h.lites = &lite.Keeper{Members: h.Members, Hub: uid, Admit: h.Invited, Failed: h.Failed, Replace: h.ReplaceKubeconfig,
		Transport: h.dialing.Transport, Serve: o.Lite, Version: version.Get().GitVersion, Now: time.Now}
	h.enter = entry{h.Members, held, bound, &tenant.Clusters{Store: o.Caches, Host: o.Host}}
	return h, nil
}

// Sinks returns the sinks that the store has to feed.
func (h *Hub) Sinks() map[schema.GroupVersionResource]store.Sink {
	out := h.source.Sinks()
	out[ClustersKind] = fedMembers{h.Members, h.source}
	return out
}

// Kinds returns the kinds that the sinks are fed with.
func (h *Hub) Kinds() []schema.GroupVersionResource { return slices.Collect(maps.Keys(h.Sinks())) }

// fedMembers tells of Clusters those who know the members, and who knows what is to be there.
type fedMembers struct {
	*cluster.Members
	source *fleetsync.Source
}

// Set implements store.Sink.
func (f fedMembers) Set(o *store.Object) {
	f.Members.Set(o)
	f.tell(o.Name)
}

// Delete implements store.Sink.
func (f fedMembers) Delete(namespace, name string) {
	f.Members.Delete(namespace, name)
	f.tell(name)
}

func (f fedMembers) tell(name string) {
	if m := f.ByName(name); m != nil && !m.Lite && !m.SharedSecret { // nothing is kept in those
		f.source.SetMember(name, m.Labels)
	} else {
		f.source.ForgetMember(name)
	}
}

// Fed sets the functions that return nil once the sinks have all objects, and the one that does while they have them as they are now: see
// store.Complete.
func (h *Hub) Fed(all []func() error, complete func() error) { h.fed.Store(&feeds{all, complete}) }

var errNotFed = errors.New("it is not fed yet")

func (h *Hub) known() error {
	fed := h.fed.Load()
	if fed == nil {
		return errNotFed
	}
	for _, synced := range fed.all {
		if err := synced(); err != nil {
			return err
		}
	}
	return nil
}

// isCurrent returns nil while this replica knows what is to be in members as it is now. One that is behind would undo there what another
// replica did, and what members lose that way, such as the bindings of a user, does not come back. Requests don't need it: they are
// answered in an outage, too.
func (h *Hub) isCurrent() error {
	if err := h.known(); err != nil {
		return err
	}
	return h.fed.Load().complete()
}

// Run keeps the authority and the conditions of members, until ctx ends.
func (h *Hub) Run(ctx context.Context) {
	go h.authority.Run(ctx)
	go h.source.Confirm(ctx)
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

// Deployment returns the objects, as YAML, by which a cluster joins as c once they are applied there.
func (h *Hub) Deployment(_ context.Context, c *clusterv1alpha1.Cluster) ([]byte, error) {
	if isLite(c) {
		return h.liteDeployment(c)
	}
	o := h.agent
	_, authority, err := h.reached()
	if err != nil {
		return nil, err
	}
	o.CA = string(authority)
	if o.Token, _, err = h.Token(c); err != nil {
		return nil, err
	}
	return deployment.YAML(o)
}

// reached returns the address at which members reach this hub, and the authorities of its certificate.
func (h *Hub) reached() (server string, authority []byte, err error) {
	if h.caFile != "" {
		if authority, err = os.ReadFile(h.caFile); err != nil {
			return "", nil, fmt.Errorf("read the authorities of this server's certificate (fleet.agent.caFile): %w", err)
		}
	}
	return h.agent.Hub, authority, nil
}

// AuthenticateToken implements authenticator.Token: see hub.Hub.
func (h *Hub) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	if h == nil {
		return nil, false, nil
	}
	return h.Hub.AuthenticateToken(ctx, token)
}

// Pending returns the objects that a member still has to get or to lose, and whether it was told everything since it was linked.
func (h *Hub) Pending(name string) (synced bool, pending []cluster.Pending) {
	if m := h.Members.ByName(name); m != nil {
		return m.Synced()
	}
	return false, nil
}

// Has reports whether there is a member of a name. The error is Known's, where a server that has just been started can't tell.
func (h *Hub) Has(name string) (bool, error) {
	if h == nil || name == "" {
		return false, nil
	}
	if h.Members.ByName(name) != nil {
		return true, nil
	}
	if err := h.Known(); err != nil {
		return false, err
	}
	return h.Members.ByName(name) != nil, nil // it may have been read just before the rest was
}

// Binds reports whether bindings of a member name a user, existing or not.
func (h *Hub) Binds(user string) bool { return h != nil && h.Members.Bind(user) }

// NamesInMembers returns functions that report whether bindings of members name a user, in a whole member, and a group; nil where this
// server is no hub.
func (h *Hub) NamesInMembers() (users, groups func(name string) bool) {
	if h == nil {
		return nil, nil
	}
	return h.Members.BindInCluster, h.Members.BindGroup
}

// Named returns a function that reports the users whom native reports, and those whom bindings name that hold in the whole of a member.
func (h *Hub) Named(native func(context.Context, string) (bool, error)) func(context.Context, string) (bool, error) {
	return func(ctx context.Context, user string) (bool, error) {
		if h.Members.BindInCluster(user) {
			return true, nil
		}
		return native(ctx, user)
	}
}

// Known returns nil once this server has read which clusters there are, and who holds what: before that nobody is refused a cluster, and
// none is said not to exist. The error is a Status.
func (h *Hub) Known() error {
	if h.known() == nil {
		return nil
	}
	e := apierrors.NewServiceUnavailable("this server has just been started, and has not read its member clusters yet: try again")
	e.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: 1}
	return e
}

// Joins returns the handler for clusters that have not proved who they are yet.
func (h *Hub) Joins(drain context.Context) http.Handler { return hub.NewHandler(drain, h.Hub) }

// Owns reports whether a path is served by the handler that Joins returns.
func (h *Hub) Owns(path string) bool { return h != nil && hub.Owns(path) }

// clusterUID returns the identity of a cluster: the UID of kube-system.
func clusterUID(ctx context.Context, client kubernetes.Interface) (string, error) {
	ns, err := client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("read the identity of this cluster: %w", err)
	}
	return string(ns.UID), nil
}
