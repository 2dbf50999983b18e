package hub

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilversion "k8s.io/apimachinery/pkg/util/version"

	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/cluster"
	"kapis.dev/ks-apiserver/pkg/cluster/direct"
	"kapis.dev/ks-apiserver/pkg/version"
)

// setLinked says whether a member is linked, and takes requests: not where it can't be told what users have lost. Where it is degraded it
// takes them, and is not Ready all the same: who administers it has to see that.
func (h *Hub) setLinked(c *clusterv1alpha1.Cluster, m *cluster.Member, linked bool, since time.Time, untold string) (changed bool) {
	to, reason, message := corev1.ConditionTrue, "Linked", "The cluster is linked to this server."
	if !linked {
		to, reason = corev1.ConditionFalse, "NoLink"
		message = noLinkSince + since.UTC().Format(time.RFC3339) +
			": see the log of its ks-apiserver, and whether it reaches this server."
		// Replicas of this server lose it, or are started, at different times: what was said first stays, and they write no more.
		if old := c.Status.Condition(clusterv1alpha1.ClusterReady); old != nil && old.Status == to && old.Reason == reason &&
			strings.HasPrefix(old.Message, noLinkSince) {
			message = old.Message
		}
		if m.Direct() {
			message = "The cluster is not linked: " + h.failure(m.UID)
		}
	}
	degraded := m.Degraded()
	for _, of := range []clusterv1alpha1.ClusterConditionType{clusterv1alpha1.ClusterAgentAvailable, clusterv1alpha1.ClusterKSCoreReady,
		clusterv1alpha1.ClusterReady} {
		switch {
		case linked && untold != "" && of != clusterv1alpha1.ClusterAgentAvailable:
			to, reason = corev1.ConditionFalse, reasonNotTold
			message = clipped("The cluster is linked, and takes no requests before it has been told what users have lost meanwhile. That fails: " +
				untold + ". See whether its kube-apiserver answers, and the log of its ks-apiserver.")
		case linked && degraded != "" && of == clusterv1alpha1.ClusterReady: // what is linked, and runs, is said by the others
			to, reason = corev1.ConditionFalse, cluster.ReasonDegraded
			message = clipped("The cluster is linked, and does not serve all: " + degraded + ".")
		}
		changed = h.set(c, of, to, reason, message) || changed
	}
	return changed
}

// noLinkSince begins what is said of a member that dials, and has no link; a time follows.
const noLinkSince = "The cluster has had no link to this server since "

// reasonNotTold is that of a member which is linked, and can't be told what it is to have.
const reasonNotTold = "NotTold"

// soon is how long before its end a credential is said to end.
const soon = 7 * 24 * time.Hour

// setExpiry says when the credential for the kube-apiserver of a direct member ends. Pages read the message as a date.
func (h *Hub) setExpiry(c *clusterv1alpha1.Cluster, m *cluster.Member) bool {
	of := clusterv1alpha1.ClusterKubeConfigCertExpiresInSevenDays
	ends := time.Time{}
	if m.Direct() {
		ends = direct.Expires(c.Spec.Connection.KubeConfig)
	}
	if ends.IsZero() {
		return drop(c, of)
	}
	to, reason := corev1.ConditionFalse, "Valid"
	switch left := ends.Sub(h.Now()); {
	case left <= 0:
		to, reason = corev1.ConditionTrue, "Expired"
	case left <= soon:
		to, reason = corev1.ConditionTrue, "NotRenewed"
	}
	return h.set(c, of, to, reason, ends.UTC().Format(time.RFC3339))
}

// drop removes a condition, and reports whether there was one.
func drop(c *clusterv1alpha1.Cluster, of clusterv1alpha1.ClusterConditionType) bool {
	before := len(c.Status.Conditions)
	c.Status.Conditions = slices.DeleteFunc(c.Status.Conditions, func(c clusterv1alpha1.ClusterCondition) bool { return c.Type == of })
	return len(c.Status.Conditions) != before
}

// setSharedSecret says that requests go to a member with tokens of a shared secret, as long as the configuration says so.
func (h *Hub) setSharedSecret(c *clusterv1alpha1.Cluster, m *cluster.Member) bool {
	if !m.SharedSecret {
		return drop(c, clusterv1alpha1.ClusterSharedSecret)
	}
	return h.set(c, clusterv1alpha1.ClusterSharedSecret, corev1.ConditionTrue, "Listed", "Requests go there with tokens that are signed by a"+
		" secret which the cluster shares with this server: who has it can be any user there. Install ks-apiserver of this release in the"+
		" cluster, and take the name out of fleet.sharedSecretMembers.")
}

// setSynced says whether the member has all that the hub keeps there, but for what is pending, and whether it can be told more.
func (h *Hub) setSynced(c *clusterv1alpha1.Cluster, pending []cluster.Pending, untold string) bool {
	if untold != "" {
		return h.set(c, clusterv1alpha1.ClusterSynced, corev1.ConditionFalse, reasonNotTold, clipped("The cluster can't be told what has changed"+
			" on this server: "+untold+". See whether its kube-apiserver answers, and the log of its ks-apiserver."))
	}
	if len(pending) == 0 {
		return h.set(c, clusterv1alpha1.ClusterSynced, corev1.ConditionTrue, "Synced", "The cluster has all that this server keeps there.")
	}
	// The same one each time: members say them in any order, and replicas of this server write in turn.
	first := slices.MinFunc(pending, func(a, b cluster.Pending) int {
		return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name))
	})
	return h.set(c, clusterv1alpha1.ClusterSynced, corev1.ConditionFalse, "Pending", clipped(fmt.Sprintf("%d objects wait, which the"+
		" cluster's sync names, such as %s/%s: %s", len(pending), first.Kind, first.Name, first.Reason)))
}

// How many minor releases a member may be older and newer than its hub: the hub is upgraded first.
const olderAtMost, newerAtMost = 2, 1

// setVersion says what runs in the member, and whether this server works with it.
// A member with a shared secret runs another software, with releases of its own.
func (h *Hub) setVersion(c *clusterv1alpha1.Cluster, m *cluster.Member, about *cluster.About) bool {
	kubernetes, kubesphere := clip(about.KubernetesVersion), clip(about.Version)
	changed := c.Status.KubernetesVersion != kubernetes || c.Status.KubeSphereVersion != kubesphere
	c.Status.KubernetesVersion, c.Status.KubeSphereVersion = kubernetes, kubesphere
	if m.SharedSecret {
		return drop(c, clusterv1alpha1.ClusterVersionSupported) || changed
	}
	own := version.Get().GitVersion
	to, reason, message := corev1.ConditionTrue, "Supported", "This server works with the cluster's release."
	if why := skew(own, about.Version); why != "" {
		to, reason = corev1.ConditionFalse, "Skew"
		message = clipped(fmt.Sprintf("The cluster runs %s, and this server %s: %s", kubesphere, own, why))
	}
	return h.set(c, clusterv1alpha1.ClusterVersionSupported, to, reason, message) || changed
}

// skew returns why a hub of one release does not work with a member of another, and what to do, "" where it does. A release that can't be
// read is one of a developer.
func skew(hub, member string) string {
	h, err := utilversion.ParseGeneric(hub)
	if err != nil {
		return ""
	}
	m, err := utilversion.ParseGeneric(member)
	switch {
	case err != nil:
		return ""
	case m.Major() < h.Major(), m.Major() == h.Major() && m.Minor()+olderAtMost < h.Minor():
		return fmt.Sprintf("members are up to %d minor releases older; upgrade the cluster's ks-apiserver and ks-controller-manager", olderAtMost)
	case m.Major() > h.Major(), m.Minor() > h.Minor()+newerAtMost:
		return fmt.Sprintf("members are up to %d minor release newer; upgrade this server first", newerAtMost)
	}
	return ""
}

// place says how many nodes the member has, and where they are.
func place(s *clusterv1alpha1.ClusterStatus, about *cluster.About) bool {
	zones := make([]string, 0, len(about.Zones))
	for _, z := range about.Zones[:min(len(about.Zones), mostZones)] {
		zones = append(zones, clip(z))
	}
	return s.Place(max(about.Nodes, 0), clip(about.Region), zones)
}

// mostZones bounds what is taken over from a member, which is not trusted.
const mostZones = 100

// setConfigz says which optional parts of a member are on, where it says that.
func setConfigz(s *clusterv1alpha1.ClusterStatus, about *cluster.About) bool {
	if len(about.Configz) == 0 {
		return false
	}
	parts := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(about.Configz))[:min(len(about.Configz), mostParts)] {
		parts[clip(name)] = about.Configz[name]
	}
	return s.SetConfigz(parts)
}

// mostParts bounds the parts that are taken over from a member, which is not trusted.
const mostParts = 64

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
