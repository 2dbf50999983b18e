package cluster_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/cluster"
)

// F21, F29: a member that is not Ready because its kube-apiserver is down is asked all the same: its lists come from memory. One that is disabled is not.
func TestADegradedMemberTakesRequests(t *testing.T) {
	m := &cluster.Members{Host: "host", Now: time.Now}
	for _, c := range []struct {
		reason string
		enable bool
		taken  bool
	}{{cluster.ReasonDegraded, true, true}, {cluster.ReasonDegraded, false, false}, {"NoLink", true, false}} {
		m.Set(object(t, "m1", uid, func(o *clusterv1alpha1.Cluster) {
			o.Spec.Enable = c.enable
			o.Status.Conditions[0].Status, o.Status.Conditions[0].Reason = corev1.ConditionFalse, c.reason
		}))
		if why := m.ByName("m1").Trouble; (why == "") != c.taken {
			t.Errorf("%+v: %q", c, why)
		}
	}
}

// F4, F29: all replicas say the same of a member, whichever of them is linked to it: else each would write its own condition again and again.
func TestReplicasSayTheSameOfAMember(t *testing.T) {
	since := time.Unix(1_800_000_000, 0)
	m := &cluster.Members{Host: "host", Now: time.Now}
	m.Set(object(t, "m1", uid, nil))
	one := m.ByName("m1")
	if why := one.Degraded(); why != "" {
		t.Errorf("without a link it is degraded: %q", why)
	}
	m.SetElsewhere("a", &cluster.Elsewhere{Members: map[string]cluster.State{uid: {UID: uid, Synced: true}}})
	m.SetElsewhere("b", &cluster.Elsewhere{Members: map[string]cluster.State{uid: {UID: uid, Synced: true, Degraded: "z"}}})
	m.SetElsewhere("c", &cluster.Elsewhere{Members: map[string]cluster.State{uid: {UID: uid, Synced: true, Degraded: "y"}}})
	if why := one.Degraded(); why != "y" {
		t.Errorf("it is degraded: %q", why)
	}
	for _, replica := range []string{"a", "b", "c"} {
		m.SetElsewhere(replica, nil)
	}
	m.SetElsewhere("d", &cluster.Elsewhere{Members: map[string]cluster.State{uid: {UID: uid, Synced: true, Untold: "x", UntoldSince: since}}})
	if why, at := one.Untold(); why != "x" || !at.Equal(since) || one.Degraded() != "" {
		t.Errorf("it can't be told %q since %v, degraded %q", why, at, one.Degraded())
	}
}
