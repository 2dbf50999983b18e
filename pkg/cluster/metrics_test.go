package cluster_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"kapis.dev/ks-apiserver/pkg/cluster"
	"kapis.dev/ks-apiserver/pkg/cluster/linktest"
)

// F39: what runs at each member, and what waits for it, is a metric.
func TestEachMemberHasItsMetrics(t *testing.T) {
	a := linktest.NewAuthority(t)
	linked := make(chan struct{}, 4)
	m := &cluster.Members{Identity: a.Hub(t), Host: "host", Now: time.Now, Changed: func(*cluster.Member) { linked <- struct{}{} }}
	m.Set(object(t, "m1", uid, nil))
	m.Set(object(t, "m2", "u-2", nil))
	join(t, m, a, uid, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	<-linked
	m.ByName("m1").SetSynced(true, []cluster.Pending{{Kind: "users", Name: "ann"}})
	m.ByName("m1").SetDegradedWhile(t.Context(), "its kube-apiserver does not answer")
	resp, err := m.ByName("m1").RoundTrip(request(t))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := m.ByName("m2").RoundTrip(request(t)); err == nil { //nolint:bodyclose // there is none
		t.Error("a member without a link answers")
	}
	r := prometheus.NewRegistry()
	r.MustRegister(m)
	want := `# HELP ks_fleet_replicas The other replicas of this hub that this one is connected to.
# TYPE ks_fleet_replicas gauge
ks_fleet_replicas 0
# HELP ks_member_breaker 1 where a member cluster is spared, since requests failed on their way.
# TYPE ks_member_breaker gauge
ks_member_breaker{cluster="m1"} 0
ks_member_breaker{cluster="m2"} 0
# HELP ks_member_degraded 1 where a member cluster is linked, and does not serve all, since its kube-apiserver is down.
# TYPE ks_member_degraded gauge
ks_member_degraded{cluster="m1"} 1
ks_member_degraded{cluster="m2"} 0
# HELP ks_member_in_flight The requests and streams that run at a member cluster.
# TYPE ks_member_in_flight gauge
ks_member_in_flight{cluster="m1"} 1
ks_member_in_flight{cluster="m2"} 0
# HELP ks_member_links The links that a member cluster has to this server; 0 for none.
# TYPE ks_member_links gauge
ks_member_links{cluster="m1"} 1
ks_member_links{cluster="m2"} 0
# HELP ks_member_requests_total The requests to a member cluster: answered, failed on their way, or refused, since it has no link or is busy.
# TYPE ks_member_requests_total counter
ks_member_requests_total{cluster="m1",result="answered"} 1
ks_member_requests_total{cluster="m2",result="refused"} 1
# HELP ks_member_sync_pending The objects that a member cluster still has to get, or to lose.
# TYPE ks_member_sync_pending gauge
ks_member_sync_pending{cluster="m1"} 1
ks_member_sync_pending{cluster="m2"} 0
# HELP ks_member_synced 1 where a member cluster has been told everything since it was linked.
# TYPE ks_member_synced gauge
ks_member_synced{cluster="m1"} 1
ks_member_synced{cluster="m2"} 0
# HELP ks_member_up 1 where a member cluster is linked, to this replica or another one, and takes requests.
# TYPE ks_member_up gauge
ks_member_up{cluster="m1"} 1
ks_member_up{cluster="m2"} 0
# HELP ks_peer_forwarded_total The requests to member clusters that went by another replica of this hub.
# TYPE ks_peer_forwarded_total counter
ks_peer_forwarded_total 0
`
	names := []string{"ks_fleet_replicas", "ks_member_breaker", "ks_member_degraded", "ks_member_in_flight", "ks_member_links",
		"ks_member_requests_total", "ks_member_sync_pending", "ks_member_synced", "ks_member_up", "ks_peer_forwarded_total"}
	if err := testutil.GatherAndCompare(r, strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
	if n, err := testutil.GatherAndCount(r, "ks_member_request_seconds"); n != 1 || err != nil {
		t.Errorf("the times of %d members are known, %v", n, err)
	}
	m.Delete("", "m1")
	if n, err := testutil.GatherAndCount(r, "ks_member_request_seconds"); n != 0 || err != nil {
		t.Errorf("the times of %d members are known after it has left, %v", n, err)
	}
}
