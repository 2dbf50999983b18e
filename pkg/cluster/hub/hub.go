// Package hub lets member clusters into the fleet, and records which of them are linked.
package hub

import (
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"

	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/certificate"
	"kapis.dev/ks-apiserver/pkg/cluster"
	"kapis.dev/ks-apiserver/pkg/cluster/join"
	"kapis.dev/ks-apiserver/pkg/cluster/link"
	"kapis.dev/ks-apiserver/pkg/cluster/peer"
	"kapis.dev/ks-apiserver/pkg/status"
)

const (
	// annotationUsed has the hashes of the tokens by which a cluster has joined, as many as may count at a time.
	annotationUsed = "kapis.dev/join-token-used"
	tokensAtMost   = 3
	// certificateLife is how long the certificate of a member counts. It is renewed when a third is left.
	certificateLife = 30 * 24 * time.Hour
	// missed is how long a member may be without a link before its condition says so: its programs dial every five seconds at most. It
	// takes ten seconds more until a silent link is noticed. recordEvery is how often all conditions are checked, and lookEvery how often
	// for overdue members alone, which needs no request.
	missed, recordEvery, lookEvery = 8 * time.Second, 15 * time.Second, time.Second
	// untoldAfter is how long a member that is linked may not be told anything before its conditions say so: three attempts.
	untoldAfter = 15 * time.Second
)

// Options are what a Hub works with.
type Options struct {
	// Clusters reads and writes Cluster objects as this server.
	Clusters dynamic.ResourceInterface
	// Authority is the fleet's. Its certificate has the name link.HubName.
	Authority *certificate.Keeper
	// UID is that of this cluster's kube-system.
	UID string
	// Host is the name of this cluster.
	Host string
	// Leases stores the Lease with the addresses of this hub's replicas. Drain is done when this replica stops.
	Leases peer.Leases
	Drain  context.Context
	Now    func() time.Time
	// Reached returns the https address at which programs reach this hub, and the authorities of its certificate in PEM, nil for those of
	// their system. Nil where Clusters get no kubeconfig.
	Reached func() (server string, authority []byte, err error)
	// Complete returns why there may be Clusters that Members was not told of, or that have changed, and nil while there are none; nil itself
	// for never.
	Complete func() error
}

// Hub lets members in.
type Hub struct {
	Options
	// Members are those of the fleet.
	Members *cluster.Members
	// Peers are the other replicas.
	Peers    *peer.Peers
	tokens   join.Tokens
	changes  chan string
	existing existing

	mu sync.Mutex
	// failures say why direct members are not linked, by the UID of their Cluster.
	failures map[string]string
}

// New returns a Hub.
func New(o Options) *Hub {
	h := &Hub{Options: o, changes: make(chan string, 1024), failures: map[string]string{}}
	h.tokens = join.Tokens{Key: func() ([]byte, error) { return o.Authority.Derive("join tokens") }, Now: o.Now}
	h.Members = &cluster.Members{Host: o.Host, Now: o.Now, Changed: h.changed, Found: h.changed, Told: h.changed, Identity: link.Identity{
		Certificate: func() (*tls.Certificate, error) { return o.Authority.Certificate(nil) }, Authorities: o.Authority.Pool,
	}}
	h.Peers = peer.New(peer.Options{Leases: o.Leases, Identity: h.Members.Identity, Members: h.Members, Drain: o.Drain, Now: o.Now})
	return h
}

// AuthorityOptions are those of the fleet's authority, in a Secret of this server's namespace.
func AuthorityOptions(secrets certificate.Secrets, now func() time.Time) certificate.Options {
	return certificate.Options{Secrets: secrets, Name: "ks-fleet-authority", Hosts: []string{link.HubName()}, Client: true, Now: now}
}

const (
	byToken proof = iota
	byCertificate
	byInvitation
)

// clip bounds a text that a member sends.
func clip(s string) string { return status.Clip(s, 64) }

func (h *Hub) list(ctx context.Context) ([]clusterv1alpha1.Cluster, error) {
	list, err := h.Clusters.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("read the clusters: %w", err)
	}
	out := make([]clusterv1alpha1.Cluster, len(list.Items))
	for i := range list.Items {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, &out[i]); err != nil {
			return nil, fmt.Errorf("read the cluster %q: %w", list.Items[i].GetName(), err)
		}
	}
	return out, nil
}

func (h *Hub) write(ctx context.Context, c *clusterv1alpha1.Cluster) error {
	c.APIVersion, c.Kind = clusterv1alpha1.SchemeGroupVersion.String(), "Cluster"
	raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(c)
	if err != nil {
		return fmt.Errorf("write the cluster %q: %w", c.Name, err)
	}
	_, err = h.Clusters.Update(ctx, &unstructured.Unstructured{Object: raw}, metav1.UpdateOptions{})
	return err
}

// set sets a condition, and reports whether that changed anything.
func (h *Hub) set(c *clusterv1alpha1.Cluster, of clusterv1alpha1.ClusterConditionType, to corev1.ConditionStatus,
	reason, message string) bool {
	now := metav1.Time{Time: h.Now().UTC().Truncate(time.Second)}
	next := clusterv1alpha1.ClusterCondition{Type: of, Status: to, LastUpdateTime: now, LastTransitionTime: now,
		Reason: reason, Message: message}
	old := c.Status.Condition(of)
	if old == nil {
		c.Status.Conditions = append(c.Status.Conditions, next)
		return true
	}
	if old.Status == to && old.Reason == reason && old.Message == message {
		return false
	}
	if old.Status == to {
		next.LastTransitionTime = old.LastTransitionTime
	}
	*old = next
	return true
}

// Failed records why a direct member is not linked.
func (h *Hub) Failed(_ context.Context, m *cluster.Member, err error) {
	h.mu.Lock()
	h.failures[m.UID] = clipped(err.Error())
	h.mu.Unlock()
	h.changed(m)
}

func (h *Hub) failure(uid string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if text, ok := h.failures[uid]; ok {
		return text
	}
	return "it is being dialled, which takes 10 s at most"
}

// forget forgets why a member was not linked, since it is: what failed once does not say why its link ends another time.
func (h *Hub) forget(uid string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.failures, uid)
}

// forgetGone forgets why members were not linked that there are no more.
func (h *Hub) forgetGone() {
	h.mu.Lock()
	defer h.mu.Unlock()
	maps.DeleteFunc(h.failures, func(uid, _ string) bool { return h.Members.ByUID(uid) == nil })
}

// clipped bounds the text of a condition.
func clipped(s string) string { return status.Clip(s, 1000) }

func (h *Hub) changed(m *cluster.Member) {
	select {
	case h.changes <- m.UID:
	default: // the next change, or the next minute, records it
	}
}

// Run records which members are linked, until ctx ends.
func (h *Hub) Run(ctx context.Context) {
	tick, look := time.NewTicker(recordEvery), time.NewTicker(lookEvery)
	defer tick.Stop()
	defer look.Stop()
	for {
		var uids []string
		select {
		case <-ctx.Done():
			return
		case uid := <-h.changes:
			uids = []string{uid}
		case <-tick.C:
			uids = h.Members.UIDs()
			h.forgetGone()
		case <-look.C:
			uids = h.overdue()
		}
		for _, uid := range uids {
			if err := h.record(ctx, uid); err != nil && ctx.Err() == nil {
				klog.ErrorS(err, "The conditions of a Cluster are not recorded; this is tried again", "uid", uid)
			}
		}
	}
}

// overdue returns the members whose condition is Ready although they have had no link for too long.
func (h *Hub) overdue() (uids []string) {
	now := h.Now()
	for _, m := range h.Members.All() {
		if linked, since := m.Linked(); !linked && m.Trouble == "" && now.Sub(since) >= missed {
			uids = append(uids, m.UID)
		}
	}
	return uids
}

// record writes the conditions of a member, if they have changed.
func (h *Hub) record(ctx context.Context, uid string) error {
	m := h.Members.ByUID(uid)
	if m == nil {
		return nil
	}
	linked, since := m.Linked()
	synced, pending := m.Synced()
	if linked {
		h.forget(uid)
	}
	untold, failing := m.Untold()
	if h.Now().Sub(failing) < untoldAfter {
		untold = "" // it may be told yet
	}
	// Without a link it may be back soon, or be linked to a replica that this one has not asked yet; with one it is told first what users lost
	// meanwhile.
	settled := linked && (synced || untold != "") || !linked && h.Now().Sub(since) >= missed && h.Peers.Known()
	if !settled && m.Initialized {
		return nil
	}
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		raw, err := h.Clusters.Get(ctx, m.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the cluster %q: %w", m.Name, err)
		}
		c := &clusterv1alpha1.Cluster{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw.Object, c); err != nil {
			return fmt.Errorf("read the cluster %q: %w", m.Name, err)
		}
		if string(c.UID) != uid {
			return nil
		}
		changed := h.initialize(c)
		if settled && (c.Status.UID != "" || m.Direct()) { // one that dials has not joined yet, which its page says
			changed = h.setLinked(c, m, linked, since, unless(synced, untold)) || changed
		}
		changed = h.setExpiry(c, m) || changed
		changed = h.setSharedSecret(c, m) || changed
		if linked && synced {
			changed = h.setSynced(c, pending, untold) || changed
			changed = h.setKubeconfig(c, m) || changed
		}
		if about := m.About(); linked && !about.Equal(&cluster.About{}) {
			changed = h.setVersion(c, m, &about) || changed
			changed = place(&c.Status, &about) || changed
			changed = setConfigz(&c.Status, &about) || changed
		}
		if !changed {
			return nil
		}
		return h.write(ctx, c)
	})
}

// unless returns a text unless something is so.
func unless(so bool, text string) string {
	if so {
		return ""
	}
	return text
}

// initialize says that a cluster can join: pages show then how.
func (h *Hub) initialize(c *clusterv1alpha1.Cluster) bool {
	if c.Status.IsTrue(clusterv1alpha1.ClusterInitialized) {
		return false
	}
	return h.set(c, clusterv1alpha1.ClusterInitialized, corev1.ConditionTrue, "Known",
		"The cluster can join: by what its agent/deployment answers where it dials this server, else this server invites it.")
}
