package hub

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/cluster"
	"kapis.dev/ks-apiserver/pkg/store"
)

// F33: members up to two minor releases older and one newer work; of others is said what to upgrade.
func TestReleasesOfMembersHaveABound(t *testing.T) {
	for name, x := range map[string]struct{ hub, member, want string }{
		"Same":         {"v4.3.1", "v4.3.9", ""},
		"TwoOlder":     {"v4.3.1", "v4.1.0", ""},
		"ThreeOlder":   {"v4.3.1", "v4.0.9", "upgrade the cluster's"},
		"OneNewer":     {"v4.3.1", "v4.4.0-rc.1", ""},
		"TwoNewer":     {"v4.3.1", "v4.5.0", "upgrade this server"},
		"OlderMajor":   {"v4.3.1", "v3.9.0", "upgrade the cluster's"},
		"NewerMajor":   {"v4.3.1", "v5.0.0", "upgrade this server"},
		"ADevelopers":  {"v4.3.1", "devel", ""},
		"Nothing":      {"v4.3.1", "", ""},
		"HubsIsUnread": {"devel", "v1.0.0", ""},
	} {
		if got := skew(x.hub, x.member); !strings.Contains(got, x.want) || (got == "") != (x.want == "") {
			t.Errorf("%s: %q, want %q", name, got, x.want)
		}
	}
}

// F17, F29: how many nodes a member has, and where, is as it says, within bounds; what it does not say any more stays.
func TestNodesOfAMemberAreCounted(t *testing.T) {
	s := &clusterv1alpha1.ClusterStatus{Region: "typed"}
	if !place(s, &cluster.About{Nodes: 3, Zones: []string{"a", "b"}}) || s.NodeCount != 3 || s.Region != "typed" || strings.Join(s.Zones, " ") != "a b" {
		t.Errorf("%+v", s)
	}
	if place(s, &cluster.About{Nodes: 3}) || len(s.Zones) != 2 {
		t.Errorf("nothing new changes it: %+v", s)
	}
	long := strings.Repeat("z", 1000)
	if !place(s, &cluster.About{Nodes: -1, Region: long, Zones: slices.Repeat([]string{long}, 1000)}) || s.NodeCount != 0 || len(s.Region) > 64 ||
		len(s.Zones) > 100 || len(s.Zones[0]) > 64 {
		t.Errorf("a member that lies: %d nodes, %d zones, a region of %d bytes", s.NodeCount, len(s.Zones), len(s.Region))
	}
}

// F24, F29: what a member still lacks is a condition, which names an object, why, and where all are; what a member says is bounded there.
func TestWhatAMemberLacksIsACondition(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	h := &Hub{Options: Options{Now: func() time.Time { return now }}}
	members := &cluster.Members{Now: h.Now}
	members.Set(&store.Object{Name: "m1", Raw: []byte(`{"metadata":{"name":"m1","uid":"u"}}`)})
	m, c := members.ByName("m1"), &clusterv1alpha1.Cluster{}
	get := func() clusterv1alpha1.ClusterCondition {
		t.Helper()
		if len(c.Status.Conditions) != 1 {
			t.Fatalf("the conditions are %v", c.Status.Conditions)
		}
		return c.Status.Conditions[0]
	}
	m.SetSynced(true, nil)
	if !h.setSynced(c, m) || get().Status != corev1.ConditionTrue {
		t.Errorf("%+v", get())
	}
	m.SetSynced(true, []cluster.Pending{{Kind: "users", Name: "ann", Reason: strings.Repeat("é", 10_000)}, {Kind: "users", Name: "bob"}})
	now = now.Add(time.Hour)
	if !h.setSynced(c, m) || get().Status != corev1.ConditionFalse ||
		!strings.Contains(get().Message, "2 objects wait, which the cluster's sync names, such as users/ann") ||
		len(get().Message) > 1000 || !get().LastTransitionTime.Time.Equal(now) {
		t.Errorf("%+v", get())
	}
	now = now.Add(time.Hour)
	if h.setSynced(c, m) || get().LastTransitionTime.Time.Equal(now) {
		t.Errorf("nothing has changed, and it is written again: %+v", get())
	}
}

// F29: when the credential of a direct member ends is a condition, whose message pages read as a date; one that dials has none.
func TestTheEndOfACredentialIsACondition(t *testing.T) {
	end := time.Unix(1_800_000_000, 0)
	now := end
	h := &Hub{Options: Options{Now: func() time.Time { return now }}}
	// {"sub":"x","exp":1800000000}
	kubeconfig := `{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{"name":"c","context":{"cluster":"c","user":"c"}}],` +
		`"clusters":[{"name":"c",` +
		`"cluster":{"server":"https://192.0.2.1"}}],"users":[{"name":"c","user":{"token":"e30.eyJzdWIiOiJ4IiwiZXhwIjoxODAwMDAwMDAwfQ.c2ln"}}]}`
	c := &clusterv1alpha1.Cluster{Spec: clusterv1alpha1.ClusterSpec{Connection: clusterv1alpha1.Connection{KubeConfig: []byte(kubeconfig)}}}
	members := &cluster.Members{Now: h.Now}
	member := func(kind string) *cluster.Member {
		members.Set(&store.Object{Name: "m1", Raw: []byte(`{"metadata":{"name":"m1","uid":"u"},"spec":{"connection":{"type":"` + kind + `"}}}`)})
		return members.ByName("m1")
	}
	for _, x := range []struct {
		left   time.Duration
		status corev1.ConditionStatus
		reason string
	}{{8 * 24 * time.Hour, corev1.ConditionFalse, "Valid"}, {6 * 24 * time.Hour, corev1.ConditionTrue, "NotRenewed"},
		{-time.Hour, corev1.ConditionTrue, "Expired"}} {
		now = end.Add(-x.left)
		h.setExpiry(c, member("direct"))
		got := c.Status.Conditions[0]
		if got.Type != "KubeConfigCertExpiresInSevenDays" || got.Status != x.status || got.Reason != x.reason || got.Message != end.UTC().Format(time.RFC3339) {
			t.Errorf("%v before its end: %+v", x.left, got)
		}
	}
	if !h.setExpiry(c, member("proxy")) || len(c.Status.Conditions) != 0 {
		t.Errorf("one that dials has %v", c.Status.Conditions)
	}
}
