package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"k8s.io/klog/v2"

	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/cluster/link"
	"kapis.dev/ks-apiserver/pkg/store"
)

const (
	// linksAtMost bounds the links that one member has to this replica.
	linksAtMost = 4
	// finishTimeout is how long open requests of a link may take once no new ones are sent on it.
	finishTimeout = 20 * time.Second
)

var (
	// ErrUnknown says that there is no member of the name or the UID.
	ErrUnknown = errors.New("no such member cluster")
	// ErrUnlinked says that there is no link to a member.
	ErrUnlinked = errors.New("the member cluster has no link to this server")
	// ErrSpared says that the circuit breaker of a member is open: too many requests failed, and none is sent for a while.
	ErrSpared = errors.New("requests to the member cluster fail on their way")
	// ErrBusy says that the limit of concurrent requests to a member is reached.
	ErrBusy = errors.New("too many requests to the member cluster run already")
	// ErrLinks says that the limit of links of a member is reached.
	ErrLinks = errors.New("the member cluster has enough links to this server")
)

// Members are the clusters of the fleet besides this one. It is a store.Sink of clusters.
type Members struct {
	// Identity is that of this hub on links.
	Identity link.Identity
	// Host is the name of this server's own cluster.
	Host string
	// SharedSecrets are the names of the direct members that know their callers by a secret alone.
	SharedSecrets []string
	// Follow runs while a member is linked, until ctx ends; nil for nothing. The member takes no requests until it says SetSyncedWhile.
	Follow func(ctx context.Context, m *Member)
	// Found is called, without a lock, for a Cluster that is not initialized; nil for nothing.
	Found func(*Member)
	// Changed is called, without a lock, when the first link of a member is open and when the last one has ended; nil for nothing.
	Changed func(*Member)
	// Told is called, without a lock, when the state of the synchronization with a member, or what it reports of itself, has changed; nil for
	// nothing.
	Told func(*Member)
	Now  func() time.Time

	mu     sync.RWMutex
	byName map[string]*Member
	byUID  map[string]*Member
	// elsewhere are the members that are linked to other replicas of this hub, by replica. It is replaced as a whole, never changed.
	elsewhere map[string]*Elsewhere
	changes   changeNotifier
	counts    counts
}

// Member is one member cluster. Its fields do not change.
type Member struct {
	Name, UID string
	// Trouble says why no request is to be sent there, "" for none.
	Trouble string
	// Labels are those of the Cluster, Leaving says that it is being deleted, and Initialized that its condition of that name is true.
	Labels               map[string]string
	Leaving, Initialized bool
	// Action is what is to be done with our programs in a direct member, "" for nothing.
	Action clusterv1alpha1.CoreAction
	// Lite says that no program of ours runs in the member: this server serves it by its kube-apiserver.
	Lite bool
	// SharedSecret says that an older release runs in the member, which knows its callers by a secret that it shares with this server.
	SharedSecret bool
	// Creator is the user who created the Cluster, by its annotation, and Created the time.
	Creator string
	Created time.Time
	// KeepKubeconfig says that the credential of a direct member is not to be replaced.
	KeepKubeconfig bool

	connection clusterv1alpha1.Connection
	state      *links
}

// Direct reports whether this server dials the member.
func (m *Member) Direct() bool {
	return m.connection.Type == clusterv1alpha1.ConnectionDirect && !m.Leaving
}

// Dials reports whether the member dials this server.
func (m *Member) Dials() bool {
	return m.connection.Type == clusterv1alpha1.ConnectionProxy && !m.Leaving
}

// Kubeconfig returns the kubeconfig of the Cluster: the credential for the kube-apiserver of a direct member, or, of a member that dials
// this server, one by which programs reach the member through this server.
func (m *Member) Kubeconfig() []byte { return m.connection.KubeConfig }

// Endpoint returns the address at which a direct member is dialled, "" for the way through its kube-apiserver.
func (m *Member) Endpoint() string { return m.connection.KubeSphereAPIEndpoint }

// SetForeign records whether another cluster answers at the address of a direct member. The next link clears it.
func (m *Member) SetForeign(is bool) {
	m.state.mu.Lock()
	defer m.state.mu.Unlock()
	m.state.foreign = is
}

// Foreign reports whether another cluster answered when the member was dialled last.
func (m *Member) Foreign() bool {
	m.state.mu.Lock()
	defer m.state.mu.Unlock()
	return m.state.foreign
}

// links are the links of one member. They stay when its Cluster changes.
type links struct {
	mu       sync.Mutex
	all      []*link.Link
	next     int
	since    time.Time // when the first link opened or the last one ended, at any replica
	inFlight inFlight
	// foreign says that another cluster answered when this one was dialled.
	foreign bool
	breaker breaker
	members *Members
	// unfollow ends what follows the member while it is linked.
	unfollow context.CancelFunc

	sync syncState
}

var _ store.Sink = (*Members)(nil)

// Set implements store.Sink.
func (m *Members) Set(o *store.Object) {
	c := &clusterv1alpha1.Cluster{}
	if err := json.Unmarshal(o.Raw, c); err != nil {
		klog.ErrorS(err, "A Cluster is left out", "cluster", o.Name)
		return
	}
	_, own := c.Labels[clusterv1alpha1.LabelHostCluster]
	if own || c.Name == m.Host {
		m.Delete("", c.Name)
		return
	}
	next := &Member{Name: c.Name, UID: string(c.UID), Trouble: trouble(c), Labels: c.Labels, Leaving: !c.DeletionTimestamp.IsZero(),
		Initialized: c.Status.IsTrue(clusterv1alpha1.ClusterInitialized),
		Action:      clusterv1alpha1.CoreAction(c.Annotations[clusterv1alpha1.AnnotationCoreAction]),
		Lite:        c.Annotations[clusterv1alpha1.AnnotationLite] == "true",
		Creator:     c.Annotations[clusterv1alpha1.AnnotationCreator], Created: c.CreationTimestamp.Time,
		KeepKubeconfig: c.Annotations[clusterv1alpha1.AnnotationKeepKubeconfig] == "true", connection: c.Spec.Connection}
	if c.Spec.Connection.Type == clusterv1alpha1.ConnectionDirect && slices.Contains(m.SharedSecrets, c.Name) {
		next.SharedSecret, next.Lite = true, false
	}
	m.replace(next)
	if !next.Initialized && m.Found != nil {
		m.Found(next)
	}
}

// replace replaces the member of a Cluster that has changed.
func (m *Members) replace(next *Member) {
	m.mu.Lock()
	defer m.mu.Unlock()
	old := m.byName[next.Name]
	switch {
	case old != nil && old.UID == next.UID:
		next.state = old.state
	case old != nil:
		go old.close() // another Cluster of the name
		delete(m.byUID, old.UID)
	}
	if next.state == nil {
		next.state = &links{since: m.Now(), members: m, inFlight: newInFlight()}
	}
	if m.byName == nil {
		m.byName, m.byUID = map[string]*Member{}, map[string]*Member{}
	}
	m.byName[next.Name], m.byUID[next.UID] = next, next
}

// Delete implements store.Sink: nothing is sent to a cluster that has left, and what runs there ends.
func (m *Members) Delete(_, name string) {
	m.mu.Lock()
	old := m.byName[name]
	if old != nil {
		delete(m.byName, name)
		delete(m.byUID, old.UID)
	}
	m.mu.Unlock()
	if old != nil {
		go old.close()
		m.counts.forget(name)
	}
}

// ByName returns a member, nil for none.
func (m *Members) ByName(name string) *Member {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.byName[name]
}

// ByUID returns the member whose Cluster has a UID, nil for none.
func (m *Members) ByUID(uid string) *Member {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.byUID[uid]
}

// Serve makes a link of a connection that a member has dialled, calls opened, and returns when the link has ended. It owns the connection.
func (m *Members) Serve(ctx context.Context, conn net.Conn, uid string, opened func()) error {
	member := m.ByUID(uid)
	if member == nil {
		_ = conn.Close()
		return fmt.Errorf("%w: %.100q", ErrUnknown, uid)
	}
	l, err := link.Open(ctx, conn, uid, m.Identity)
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }()
	if err := m.add(member, l); err != nil {
		return err
	}
	opened()
	klog.InfoS("A member cluster is linked", "cluster", member.Name, "address", conn.RemoteAddr())
	select {
	case <-l.Ended():
	case <-ctx.Done():
	}
	m.remove(member, l)
	finish, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTimeout)
	defer cancel()
	l.Finish(finish)
	klog.InfoS("A link to a member cluster has ended", "cluster", member.Name)
	return nil
}

func (m *Members) add(member *Member, l *link.Link) error {
	s := member.state
	s.mu.Lock()
	if len(s.all) >= linksAtMost {
		s.mu.Unlock()
		return fmt.Errorf("%w: %s", ErrLinks, member.Name)
	}
	first, isFollowed := len(s.all) == 0, m.Follow != nil && !member.Lite && !member.SharedSecret
	if first && isFollowed {
		s.sync.forget() // what was told over the last link: users may have lost rights since
	}
	s.all, s.foreign = append(s.all, l), false
	elsewhere, _ := m.other(member.UID)
	if first {
		if elsewhere == nil {
			s.since = m.Now()
		}
		s.breaker.succeeded()
		if isFollowed {
			var ctx context.Context
			ctx, s.unfollow = context.WithCancel(context.Background())
			go m.Follow(ctx, member)
		}
	}
	s.mu.Unlock()
	if m.ByUID(member.UID) == nil { // it was deleted meanwhile
		m.remove(member, l)
		return fmt.Errorf("%w: %s", ErrUnknown, member.Name)
	}
	if first {
		m.changed(member.UID)
	}
	return nil
}

func (m *Members) remove(member *Member, l *link.Link) {
	s := member.state
	s.mu.Lock()
	s.all = slices.DeleteFunc(s.all, func(o *link.Link) bool { return o == l })
	last := len(s.all) == 0
	if elsewhere, _ := m.other(member.UID); last {
		if elsewhere == nil {
			s.since = m.Now()
		}
		if s.unfollow != nil {
			s.unfollow()
		}
	}
	s.mu.Unlock()
	if last {
		m.changed(member.UID)
	}
}

func (m *Members) syncChanged(uid string) {
	m.changes.change()
	if now := m.ByUID(uid); now != nil && m.Told != nil {
		m.Told(now)
	}
}

func (m *Members) changed(uid string) {
	m.changes.change()
	if now := m.ByUID(uid); now != nil && m.Changed != nil {
		m.Changed(now)
	}
}

func (m *Member) close() {
	m.state.mu.Lock()
	all := slices.Clone(m.state.all)
	m.state.mu.Unlock()
	for _, l := range all {
		_ = l.Close()
	}
}

// All returns all members.
func (m *Members) All() []*Member {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return slices.Collect(maps.Values(m.byName))
}

// UIDs returns the UIDs of all members.
func (m *Members) UIDs() []string {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return slices.Sorted(maps.Keys(m.byUID))
}

// trouble returns why no request is to be sent to a cluster, "" for none. A degraded one serves what it can: its lists come from memory.
func trouble(c *clusterv1alpha1.Cluster) string {
	ready := c.Status.Condition(clusterv1alpha1.ClusterReady)
	if ready != nil && ready.Reason == ReasonDegraded && c.Spec.Enable && c.DeletionTimestamp.IsZero() {
		return ""
	}
	return c.WhyNotReady()
}
