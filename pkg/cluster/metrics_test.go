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
	resp, err := m.ByName("m1").RoundTrip(request(t))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	r := prometheus.NewRegistry()
	r.MustRegister(m)
	want := `# HELP ks_member_in_flight The requests and streams that run at a member cluster.
# TYPE ks_member_in_flight gauge
ks_member_in_flight{cluster="m1"} 1
ks_member_in_flight{cluster="m2"} 0
# HELP ks_member_links The links that a member cluster has to this server; 0 for none.
# TYPE ks_member_links gauge
ks_member_links{cluster="m1"} 1
ks_member_links{cluster="m2"} 0
# HELP ks_member_sync_pending The objects that a member cluster still has to get, or to lose.
# TYPE ks_member_sync_pending gauge
ks_member_sync_pending{cluster="m1"} 1
ks_member_sync_pending{cluster="m2"} 0
# HELP ks_member_synced 1 where a member cluster has been told everything since it was linked.
# TYPE ks_member_synced gauge
ks_member_synced{cluster="m1"} 1
ks_member_synced{cluster="m2"} 0
`
	if err := testutil.GatherAndCompare(r, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}
