package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/cluster/link"
	"kapis.dev/ks-apiserver/pkg/store"
)

const (
	// linksAtMost bounds the links that one member has to this replica.
	linksAtMost = 4
	// requestsAtMost and streamsAtMost bound the requests and the streams of one member that run at once, so that one that hangs leaves room
	// for the others.
	requestsAtMost, streamsAtMost = 256, 1000
	// finishTimeout is how long what runs on a link may take after nothing more is sent on it.
	finishTimeout = 20 * time.Second
)

var (
	// ErrUnknown says that there is no member of the name or the UID.
	ErrUnknown = errors.New("no such member cluster")
	// ErrUnlinked says that there is no link to a member.
	ErrUnlinked = errors.New("the member cluster has no link to this server")
	// ErrSpared says that so many requests to a member failed on their way that it is asked nothing for a while.
	ErrSpared = errors.New("requests to the member cluster fail on their way")
	// ErrBusy says that as many requests as one member may have run already.
	ErrBusy = errors.New("too many requests to the member cluster run already")
	// ErrLinks says that a member has as many links as it may have.
	ErrLinks = errors.New("the member cluster has enough links to this server")
)

// Members are the clusters of the fleet besides this one. It is a store.Sink of clusters.
type Members struct {
	// Identity is that of this hub on links.
	Identity link.Identity
	// Host is the name of this server's own cluster.
	Host string
	// Follow runs while a member is linked, until ctx ends; nil for nothing.
	Follow func(ctx context.Context, m *Member)
	// Found is called, without a lock, for a Cluster that is not initialized; nil for nothing.
	Found func(*Member)
	// Changed is called, without a lock, when the first link of a member is open and when the last one has ended; nil for nothing.
	Changed func(*Member)
	// Told is called, without a lock, when what a member has been told, or has said of itself, has changed; nil for nothing.
	Told func(*Member)
	Now  func() time.Time

	mu     sync.RWMutex
	byName map[string]*Member
	byUID  map[string]*Member
	// elsewhere is what is linked to the other replicas of this hub, by replica. It is replaced, never changed.
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
	// KeepKubeconfig says that the credential of a direct member is not to be replaced.
	KeepKubeconfig bool

	connection clusterv1alpha1.Connection
	state      *links
}

// Direct reports whether this server dials the member.
func (m *Member) Direct() bool {
	return m.connection.Type == clusterv1alpha1.ConnectionDirect && !m.Leaving
}

// Kubeconfig returns the credential for the kube-apiserver of a direct member.
func (m *Member) Kubeconfig() []byte { return m.connection.KubeConfig }

// Endpoint returns the address at which a direct member is dialled, "" for the way through its kube-apiserver.
func (m *Member) Endpoint() string { return m.connection.KubeSphereAPIEndpoint }

// SetForeign records whether another cluster was met where a direct member is dialled, until there is a link.
func (m *Member) SetForeign(is bool) {
	m.state.mu.Lock()
	defer m.state.mu.Unlock()
	m.state.foreign = is
}

// Foreign reports whether another cluster was met where the member was dialled last.
func (m *Member) Foreign() bool {
	m.state.mu.Lock()
	defer m.state.mu.Unlock()
	return m.state.foreign
}

// links are those of one member, also after its Cluster has changed.
type links struct {
	mu    sync.Mutex
	all   []*link.Link
	next  int
	since time.Time // of the last change between some and none, of this replica or all others
	// requests and streams are those that run.
	requests, streams int
	// foreign says that another cluster was met where this one is dialled.
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
	initialized := slices.ContainsFunc(c.Status.Conditions, func(c clusterv1alpha1.ClusterCondition) bool {
		return c.Type == clusterv1alpha1.ClusterInitialized && c.Status == corev1.ConditionTrue
	})
	next := &Member{Name: c.Name, UID: string(c.UID), Trouble: trouble(c), Labels: c.Labels, Leaving: !c.DeletionTimestamp.IsZero(),
		Initialized: initialized, Action: clusterv1alpha1.CoreAction(c.Annotations[clusterv1alpha1.AnnotationCoreAction]),
		Lite:           c.Annotations[clusterv1alpha1.AnnotationLite] == "true",
		KeepKubeconfig: c.Annotations[clusterv1alpha1.AnnotationKeepKubeconfig] == "true", connection: c.Spec.Connection}
	m.replace(next)
	if !initialized && m.Found != nil {
		m.Found(next)
	}
}

// replace puts a member in the place of what its Cluster was.
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
		next.state = &links{since: m.Now(), members: m}
	}
	if m.byName == nil {
		m.byName, m.byUID = map[string]*Member{}, map[string]*Member{}
	}
	m.byName[next.Name], m.byUID[next.UID] = next, next
}

// trouble returns why no request is to be sent to a cluster.
func trouble(c *clusterv1alpha1.Cluster) string {
	switch {
	case !c.DeletionTimestamp.IsZero():
		return "it is leaving the fleet"
	case !c.Spec.Enable:
		return "it is disabled (spec.enable)"
	}
	i := slices.IndexFunc(c.Status.Conditions, func(c clusterv1alpha1.ClusterCondition) bool {
		return c.Type == clusterv1alpha1.ClusterReady
	})
	switch {
	case i < 0:
		return "it has not joined yet"
	case c.Status.Conditions[i].Status != corev1.ConditionTrue:
		return c.Status.Conditions[i].Message
	}
	return ""
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
	s.all, s.foreign = append(s.all, l), false
	first := len(s.all) == 1
	elsewhere, _ := m.other(member.UID)
	if first {
		if elsewhere == nil {
			s.since = m.Now()
		}
		s.breaker.succeeded()
		if m.Follow != nil && !member.Lite {
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

// way sends a request to a member.
type way func(*http.Request) (*http.Response, error)

// way returns how a request is sent. The lock is held.
func (s *links) way(uid string, r *http.Request, elsewhere *Elsewhere) way {
	if elsewhere != nil {
		return func(r *http.Request) (*http.Response, error) {
			s.members.counts.forwarded.Add(1)
			return elsewhere.Send(uid, r)
		}
	}
	if len(s.all) == 0 {
		return nil
	}
	s.next++
	l := s.all[s.next%len(s.all)]
	if r.Header.Get("Upgrade") != "" {
		return l.Upgrading().RoundTrip
	}
	return l.RoundTrip
}

// enter returns the way of a request, and what is to be called when that is over. Its errors are ErrUnlinked, ErrSpared and ErrBusy.
func (m *Member) enter(r *http.Request, elsewhere *Elsewhere) (send way, leave func(), err error) {
	s, running, most := m.state, &m.state.requests, requestsAtMost
	if IsStream(r.Context()) {
		running, most = &s.streams, streamsAtMost
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch send = s.way(m.UID, r, elsewhere); {
	case send == nil:
		return nil, nil, ErrUnlinked
	case *running >= most:
		return nil, nil, ErrBusy
	case !s.breaker.enter(s.members.Now()):
		return nil, nil, ErrSpared
	}
	*running++
	return send, sync.OnceFunc(func() {
		s.mu.Lock()
		*running--
		s.mu.Unlock()
	}), nil
}

// RoundTrip sends a request to the member: over a link to this replica, or by another replica (see byOther). What the answer's body reads
// counts as running until it is closed.
func (m *Member) RoundTrip(r *http.Request) (*http.Response, error) {
	elsewhere, _ := m.byOther()
	return m.roundTrip(r, elsewhere)
}

// RoundTripHere is RoundTrip by links to this replica alone.
func (m *Member) RoundTripHere(r *http.Request) (*http.Response, error) { return m.roundTrip(r, nil) }

func (m *Member) roundTrip(r *http.Request, elsewhere *Elsewhere) (*http.Response, error) {
	s := m.state
	send, leave, err := m.enter(r, elsewhere)
	if err != nil {
		s.members.counts.refused(m.Name)
		return nil, err
	}
	begun := time.Now()
	resp, err := send(r)
	s.count(r, err)
	s.members.counts.count(m.Name, begun, err)
	if err != nil {
		leave()
		return nil, err
	}
	resp.Body = leaving(resp.Body, leave)
	return resp, nil
}

// count tells the breaker how a request has ended. A failure says nothing where the caller may be its reason: who gave it up, or whose body
// could not be read.
func (s *links) count(r *http.Request, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil:
		s.breaker.succeeded()
	case r.Context().Err() == nil && (r.Body == nil || r.Body == http.NoBody):
		s.breaker.failed(s.members.Now())
	}
}

type streamKey struct{}

// AsStream returns a context whose request counts as a stream, which may last, and not as a request.
func AsStream(ctx context.Context) context.Context { return context.WithValue(ctx, streamKey{}, true) }

// IsStream reports whether the request of a context counts as a stream.
func IsStream(ctx context.Context) bool { return ctx.Value(streamKey{}) != nil }

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
