package hub

import (
	"context"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"

	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/cluster"
	"kapis.dev/ks-apiserver/pkg/status"
)

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

// clip bounds a text that a member sends.
func clip(s string) string { return status.Clip(s, 64) }
