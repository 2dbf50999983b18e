package hub

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"
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

// F17, F29: which parts of a member are on is as it says, within bounds; what it does not say any more stays.
func TestThePartsOfAMemberAreSaid(t *testing.T) {
	s := &clusterv1alpha1.ClusterStatus{}
	if !setConfigz(s, &cluster.About{Configz: map[string]bool{"auditing": true}}) || string(s.Configz.Raw) != `{"auditing":true}` {
		t.Errorf("%s", s.Configz.Raw)
	}
	if setConfigz(s, &cluster.About{Configz: map[string]bool{"auditing": true}}) || setConfigz(s, &cluster.About{}) ||
		string(s.Configz.Raw) != `{"auditing":true}` {
		t.Errorf("nothing new changes it: %s", s.Configz.Raw)
	}
	lies := map[string]bool{}
	for i := range 1000 {
		lies[strings.Repeat("z", 1000+i)+"\xff"] = true
		lies[strconv.Itoa(i)] = false
	}
	var got map[string]bool
	if !setConfigz(s, &cluster.About{Configz: lies}) || json.Unmarshal(s.Configz.Raw, &got) != nil || len(got) > 64 || len(s.Configz.Raw) > 64*80 {
		t.Errorf("a member that lies: %d bytes", len(s.Configz.Raw))
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
	pending := func() []cluster.Pending { _, all := m.Synced(); return all }
	m.SetSynced(true, nil)
	if !h.setSynced(c, pending(), "") || get().Status != corev1.ConditionTrue {
		t.Errorf("%+v", get())
	}
	m.SetSynced(true, []cluster.Pending{{Kind: "users", Name: "ann", Reason: strings.Repeat("é", 10_000)}, {Kind: "users", Name: "bob"}})
	now = now.Add(time.Hour)
	if !h.setSynced(c, pending(), "") || get().Status != corev1.ConditionFalse ||
		!strings.Contains(get().Message, "2 objects wait, which the cluster's sync names, such as users/ann") ||
		len(get().Message) > 1000 || !get().LastTransitionTime.Time.Equal(now) {
		t.Errorf("%+v", get())
	}
	now = now.Add(time.Hour)
	if h.setSynced(c, pending(), "") || get().LastTransitionTime.Time.Equal(now) {
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

// F12: that requests go to a member with tokens of a shared secret is a condition, as long as it is listed; its release is not one of this software.
func TestASharedSecretIsACondition(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	h := &Hub{Options: Options{Now: func() time.Time { return now }}}
	of := func(listed ...string) *cluster.Member {
		members := &cluster.Members{Now: h.Now, SharedSecrets: listed}
		members.Set(&store.Object{Name: "m1", Raw: []byte(`{"metadata":{"name":"m1","uid":"u","annotations":{"kapis.dev/lite":"true"}},` +
			`"spec":{"connection":{"type":"direct"}}}`)})
		members.Set(&store.Object{Name: "dials", Raw: []byte(`{"metadata":{"name":"dials","uid":"d"},"spec":{"connection":{"type":"proxy"}}}`)})
		if members.ByName("dials").SharedSecret {
			t.Error("a member that dials the hub has a shared secret")
		}
		return members.ByName("m1")
	}
	c := &clusterv1alpha1.Cluster{}
	types := func() (out []string) {
		for _, o := range c.Status.Conditions {
			out = append(out, string(o.Type)+"="+string(o.Status))
		}
		return out
	}
	listed, other, about := of("dials", "m1"), of("m", "m11", "M1"), &cluster.About{Version: "v4.1.3", KubernetesVersion: "v1.30.0"}
	if !listed.SharedSecret || listed.Lite || other.SharedSecret || !other.Lite {
		t.Fatalf("%+v, %+v", listed, other)
	}
	h.setVersion(c, other, about)
	if h.setSharedSecret(c, other) {
		t.Errorf("one that is not listed: %v", types())
	}
	if !h.setSharedSecret(c, listed) || !h.setVersion(c, listed, about) || !slices.Equal(types(), []string{"SharedSecret=True"}) ||
		c.Status.KubeSphereVersion != "v4.1.3" {
		t.Errorf("%v, %+v", types(), c.Status)
	}
	if h.setSharedSecret(c, listed) || h.setVersion(c, listed, about) {
		t.Error("nothing new changes it")
	}
	if !h.setSharedSecret(c, other) || len(types()) != 0 {
		t.Errorf("one that is not listed any more: %v", types())
	}
}

// F29: why a member is not linked is said as long as that is so: what failed before its last link says nothing of the end of that.
func TestWhyAMemberIsNotLinkedIsOfNow(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	h := &Hub{Options: Options{Now: func() time.Time { return now }}, failures: map[string]string{}}
	h.Members = &cluster.Members{Now: h.Now}
	h.Members.Set(&store.Object{Name: "m1", Raw: []byte(`{"metadata":{"name":"m1","uid":"u"},"spec":{"connection":{"type":"direct"}}}`)})
	m, c := h.Members.ByName("m1"), &clusterv1alpha1.Cluster{}
	says := func(want string) {
		t.Helper()
		h.setLinked(c, m, false, now, "")
		if got := c.Status.Conditions[0].Message; !strings.Contains(got, want) {
			t.Errorf("it says %q, want %q", got, want)
		}
	}
	says("it is being dialled")
	h.Failed(t.Context(), m, errors.New("nobody answers"))
	says("nobody answers")
	h.forget("u")
	says("it is being dialled")
	h.Failed(t.Context(), m, errors.New("nobody answers"))
	if h.forgetGone(); len(h.failures) != 1 {
		t.Error("why a member is not linked is forgotten")
	}
	h.Members.Delete("", "m1")
	if h.forgetGone(); len(h.failures) != 0 {
		t.Errorf("of a Cluster that is gone there is %v", h.failures)
	}
}

// F25, F29: a member that is linked, and can't be told what users have lost, is not ready, and says why and what to look at; one that has been told before
// takes requests, and is not in step.
func TestAMemberThatCanNotBeToldSaysWhy(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	h := &Hub{Options: Options{Now: func() time.Time { return now }}}
	members := &cluster.Members{Now: h.Now}
	members.Set(&store.Object{Name: "m1", Raw: []byte(`{"metadata":{"name":"m1","uid":"u"},"spec":{"connection":{"type":"proxy"}}}`)})
	m, c := members.ByName("m1"), &clusterv1alpha1.Cluster{}
	m.SetUntold("its kube-apiserver is stopped")
	now = now.Add(time.Minute)
	m.SetUntold("its kube-apiserver is stopped")
	why, since := m.Untold()
	if why == "" || now.Sub(since) != time.Minute {
		t.Errorf("it has been %q since %v", why, since)
	}
	h.setLinked(c, m, true, now, why)
	h.setSynced(c, nil, why)
	for _, o := range c.Status.Conditions {
		told := o.Type == clusterv1alpha1.ClusterAgentAvailable
		if told != (o.Status == corev1.ConditionTrue) || !told && (o.Reason != "NotTold" || !strings.Contains(o.Message, "is stopped. See whether its")) {
			t.Errorf("%+v", o)
		}
	}
	m.SetUntold("")
	if why, _ = m.Untold(); why != "" {
		t.Errorf("it can be told, and is %q", why)
	}
	h.setLinked(c, m, true, now, why)
	h.setSynced(c, nil, why)
	for _, o := range c.Status.Conditions {
		if o.Status != corev1.ConditionTrue {
			t.Errorf("%+v", o)
		}
	}
}

// F29: a member whose kube-apiserver is down is not Ready, and says what to look at; it is linked, and its programs run. Once it is well it is Ready.
func TestADegradedMemberIsNotReady(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	h := &Hub{Options: Options{Now: func() time.Time { return now }}}
	members := &cluster.Members{Now: h.Now}
	members.Set(&store.Object{Name: "m1", Raw: []byte(`{"metadata":{"name":"m1","uid":"u"},"spec":{"connection":{"type":"proxy"}}}`)})
	m, c := members.ByName("m1"), &clusterv1alpha1.Cluster{}
	for _, why := range []string{"", "its kube-apiserver does not answer. See it", ""} {
		members.SetElsewhere("other", &cluster.Elsewhere{Members: map[string]cluster.State{"u": {UID: "u", Synced: true, Degraded: why}}})
		if !h.setLinked(c, m, true, now, "") || h.setLinked(c, m, true, now, "") {
			t.Errorf("%q: it does not change once", why)
		}
		for _, o := range c.Status.Conditions {
			bad := why != "" && o.Type == clusterv1alpha1.ClusterReady
			if bad != (o.Status == corev1.ConditionFalse) || bad && (o.Reason != cluster.ReasonDegraded || !strings.Contains(o.Message, why)) {
				t.Errorf("%q: %+v", why, o)
			}
		}
	}
}

// F29: what replicas of the hub know at different times, or in another order, is said once: they don't write a condition in turn.
func TestReplicasDoNotWriteConditionsInTurn(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	h := &Hub{Options: Options{Now: func() time.Time { return now }}, failures: map[string]string{}}
	members := &cluster.Members{Now: h.Now}
	members.Set(&store.Object{Name: "m1", Raw: []byte(`{"metadata":{"name":"m1","uid":"u"},"spec":{"connection":{"type":"proxy"}}}`)})
	m, c := members.ByName("m1"), &clusterv1alpha1.Cluster{}
	if !h.setLinked(c, m, false, now, "") || h.setLinked(c, m, false, now.Add(time.Minute), "") || h.setLinked(c, m, false, now.Add(-time.Minute), "") {
		t.Errorf("since when it is not linked is said again and again: %+v", c.Status.Conditions)
	}
	if h.setLinked(c, m, true, now, ""); !h.setLinked(c, m, false, now.Add(time.Hour), "") {
		t.Errorf("the next end of its link is not said: %+v", c.Status.Conditions)
	}
	one, other := cluster.Pending{Kind: "users", Name: "ann", Reason: "x"}, cluster.Pending{Kind: "users", Name: "bob", Reason: "y"}
	if !h.setSynced(c, []cluster.Pending{one, other}, "") || h.setSynced(c, []cluster.Pending{other, one}, "") {
		t.Errorf("what is pending is said again in another order: %+v", c.Status.Conditions)
	}
}
