// Package hub lets member clusters into the fleet, and records which of them are linked.
package hub

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
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

// Token returns a join token for a Cluster, and when it ends. The caller has the right to change the Cluster.
func (h *Hub) Token(c *clusterv1alpha1.Cluster) (string, time.Time, error) {
	return h.tokens.Issue(string(c.UID))
}

// proof is the way in which a member proves which Cluster it is.
type proof int

const (
	byToken proof = iota
	byCertificate
	byInvitation
)

// Join lets a member in, or gives it its next certificate. Its errors are Statuses.
func (h *Hub) Join(ctx context.Context, r *join.Request) (*join.Answer, error) {
	uid, how, err := h.cluster(r)
	if err != nil {
		return nil, err
	}
	member := h.Members.ByUID(uid)
	if member == nil {
		return nil, h.deleted(ctx, uid)
	}
	return h.let(ctx, member, r, how)
}

// Invited lets a direct member in, which has answered its invitation.
func (h *Hub) Invited(ctx context.Context, m *cluster.Member, r *join.Request) (*join.Answer, error) {
	return h.let(ctx, m, r, byInvitation)
}

// let checks the request of a member, and signs its certificate.
func (h *Hub) let(ctx context.Context, member *cluster.Member, r *join.Request, how proof) (*join.Answer, error) {
	key, err := keyOf(r.CSR)
	if err != nil {
		return nil, err
	}
	if err := h.admit(ctx, member, r, how); err != nil {
		return nil, err
	}
	signed, err := h.Authority.Sign(key, link.MemberName(member.UID), certificateLife)
	if err != nil {
		return nil, err
	}
	return &join.Answer{Cluster: member.Name, UID: member.UID, Certificate: string(signed), Authorities: string(h.Authority.Bundle())}, nil
}

// keyOf returns the key of a certificate request.
func keyOf(text string) (*ecdsa.PublicKey, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return nil, status.BadRequestf("csr has no certificate request in PEM")
	}
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil || csr.CheckSignature() != nil {
		return nil, status.BadRequestf("csr can't be read, or is not signed by its key")
	}
	key, ok := csr.PublicKey.(*ecdsa.PublicKey)
	if !ok || key.Curve != elliptic.P256() {
		return nil, status.BadRequestf("the key of csr is not one on the curve P-256")
	}
	return key, nil
}

// cluster returns the UID of the Cluster that a request claims to be, and how it proves it.
func (h *Hub) cluster(r *join.Request) (uid string, how proof, err error) {
	if r.Token != "" {
		uid, err := h.tokens.Verify(r.Token)
		if errors.Is(err, join.ErrInvalid) {
			err = status.Forbiddenf("%v", err)
		}
		return uid, byToken, err
	}
	block, _ := pem.Decode([]byte(r.Certificate))
	if block == nil {
		return "", byCertificate, status.Forbiddenf("a member joins by a token, or renews by the certificate that it has")
	}
	refused := status.Forbiddenf("the certificate is not one of this fleet, or the request is not signed by its key: join with a new token")
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil || len(c.DNSNames) != 1 {
		return "", byCertificate, refused
	}
	key, ok := c.PublicKey.(*ecdsa.PublicKey)
	signature, err := base64.StdEncoding.DecodeString(r.Signature)
	sum := sha256.Sum256([]byte(r.CSR))
	if !ok || err != nil || !ecdsa.VerifyASN1(key, sum[:], signature) {
		return "", byCertificate, refused
	}
	rules := x509.VerifyOptions{Roots: h.Authority.Pool(), CurrentTime: h.Now(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	if _, err := c.Verify(rules); err != nil {
		return "", byCertificate, refused
	}
	uid, _, _ = strings.Cut(c.DNSNames[0], ".")
	if c.DNSNames[0] != link.MemberName(uid) {
		return "", byCertificate, refused
	}
	return uid, byCertificate, nil
}

// admit checks that a member may be the Cluster, and records that it has joined.
func (h *Hub) admit(ctx context.Context, m *cluster.Member, r *join.Request, how proof) error {
	if r.UID == "" || len(r.UID) > 64 {
		return status.BadRequestf("uid is not that of a namespace kube-system")
	}
	if r.UID == h.UID {
		return status.BadRequestf("this is the hub itself, which is no member: join from another cluster")
	}
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		all, err := h.list(ctx)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(all, func(c clusterv1alpha1.Cluster) bool { return string(c.UID) == m.UID })
		if i < 0 || !all[i].DeletionTimestamp.IsZero() {
			return status.Errorf(http.StatusGone, "the Cluster %q has been deleted", m.Name)
		}
		c := &all[i]
		if err := h.may(c, all, r, how); err != nil || how == byCertificate {
			return err
		}
		if how == byToken {
			used := append(strings.Fields(c.Annotations[annotationUsed]), join.Used(r.Token))
			metav1.SetMetaDataAnnotation(&c.ObjectMeta, annotationUsed, strings.Join(used[max(0, len(used)-tokensAtMost):], " "))
		}
		c.Status.UID = types.UID(r.UID)
		c.Status.KubernetesVersion, c.Status.KubeSphereVersion = clip(r.KubernetesVersion), clip(r.Version)
		h.set(c, clusterv1alpha1.ClusterInitialized, corev1.ConditionTrue, "Joined", "The cluster has joined the fleet.")
		return h.write(ctx, c)
	})
}

// may returns nil if a member may be a Cluster, and otherwise why not.
func (h *Hub) may(c *clusterv1alpha1.Cluster, all []clusterv1alpha1.Cluster, r *join.Request, how proof) error {
	if how != byInvitation && c.Spec.Connection.Type != clusterv1alpha1.ConnectionProxy {
		return status.Errorf(http.StatusConflict, "the Cluster %q has the connection type %q: only those of type proxy join"+
			" by a token", c.Name, c.Spec.Connection.Type)
	}
	if c.Status.UID != "" && string(c.Status.UID) != r.UID {
		err := status.Errorf(http.StatusConflict, "the Cluster %q is another one, with the UID %s: delete it, or create one"+
			" of another name", c.Name, c.Status.UID)
		if how == byInvitation { // the hub has dialled it
			return fmt.Errorf("%w: %w", link.ErrIdentity, err)
		}
		return err
	}
	for i := range all {
		if all[i].UID != c.UID && string(all[i].Status.UID) == r.UID {
			return status.Errorf(http.StatusConflict, "this cluster is in the fleet already, as %q", all[i].Name)
		}
	}
	if how == byToken && slices.Contains(strings.Fields(c.Annotations[annotationUsed]), join.Used(r.Token)) {
		return status.Forbiddenf("the join token has been used: it counts once; ask for a new one")
	}
	return nil
}

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
