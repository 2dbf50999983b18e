package fleetsync

import (
	"fmt"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/cluster"
	"kapis.dev/ks-apiserver/pkg/store"
)

// F45: who made a Cluster is a user who was there before it: a user who has got the name of one who is gone is another one.
func TestWhoMadeACluster(t *testing.T) {
	made := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := NewSource(nil)
	for name, created := range map[string]time.Time{"before": made.Add(-time.Hour), "just": made, "after": made.Add(time.Second), "gone": made.Add(-time.Hour)} {
		set(t, s, "users", name, fmt.Sprintf(meta, name, name, `,"creationTimestamp":"`+created.Format(time.RFC3339)+`"`, ""))
	}
	drop(s, "users", "gone")
	for name, want := range map[string]string{"before": "before", "just": "just", "after": "", "gone": "", "nobody": "", "": ""} {
		members := &cluster.Members{Host: "host", Now: time.Now}
		members.Set(&store.Object{Name: "m1", Raw: fmt.Appendf(nil, `{"metadata":{"name":"m1","uid":"u-1","creationTimestamp":%q,`+
			`"annotations":{"kubesphere.io/creator":%q}}}`, made.Format(time.RFC3339), name)})
		if got := s.creator(members.ByName("m1")); got != want {
			t.Errorf("%q made it: %q, want %q", name, got, want)
		}
	}
	set(t, s, "users", "gone", fmt.Sprintf(meta, "gone", "gone2", `,"creationTimestamp":"`+made.Add(time.Hour).Format(time.RFC3339)+`"`, ""))
	members := &cluster.Members{Host: "host", Now: time.Now}
	members.Set(&store.Object{Name: "m1", Raw: []byte(`{"metadata":{"name":"m1","uid":"u-1","creationTimestamp":"2026-01-02T03:04:05Z",` +
		`"annotations":{"kubesphere.io/creator":"gone"}}}`)})
	if got := s.creator(members.ByName("m1")); got != "" {
		t.Errorf("%q, who has got the name, is not who made it", got)
	}
}
