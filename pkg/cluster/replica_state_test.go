package cluster_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/cluster"
	"kapis.dev/ks-apiserver/pkg/cluster/linktest"
)

// F4, F17: however much members say, one replica tells another no more at once than that reads; the rest is told next, and nobody is left out.
func TestWhatReplicasTellEachOtherHasABound(t *testing.T) {
	const members, most = 6, 64 << 20
	a := linktest.NewAuthority(t)
	m := &cluster.Members{Identity: a.Hub(t), Host: "host", Now: time.Now}
	users := make([]string, 8_000)
	for i := range users {
		users[i] = fmt.Sprint(strings.Repeat("x", 500), i)
	}
	for i := range members {
		id := fmt.Sprintf("0f8fad5b-d9cb-469f-a165-70867728950%d", i)
		m.Set(object(t, fmt.Sprint("m", i), id, nil))
		a.Link(t, m, id, http.NotFoundHandler())
		m.ByUID(id).SetBound(users)
		pending := make([]cluster.Pending, 1000)
		for j := range pending {
			pending[j] = cluster.Pending{Kind: "users", Name: fmt.Sprint(j), Reason: strings.Repeat("y", 500)}
		}
		m.ByUID(id).SetSynced(true, pending)
	}
	known, version, rounds := map[string]uint64{}, uint64(0), 0
	for whole := false; !whole; rounds++ {
		var said []cluster.State
		version, said = m.States(t.Context(), version, known)
		raw, err := json.Marshal(said)
		if err != nil || len(raw) > most || len(said) != members {
			t.Fatalf("%d bytes of %d members, %v", len(raw), len(said), err)
		}
		whole = version != 0
		for _, s := range said {
			if s.Bound != nil && (len(s.Bound) != len(users) || s.Version == 0) {
				t.Errorf("%d users of %s, version %d", len(s.Bound), s.UID, s.Version)
			}
			known[s.UID] = s.Version
		}
	}
	if rounds < 2 || len(known) != members {
		t.Errorf("%d members are known after %d answers", len(known), rounds)
	}
	for uid, v := range known {
		if v == 0 {
			t.Errorf("the users of %s are not known", uid)
		}
	}
	m.ByUID("0f8fad5b-d9cb-469f-a165-708677289500").SetBound([]string{"ann", strings.Repeat("z", 1000)})
	if one := m.ByUID("0f8fad5b-d9cb-469f-a165-708677289500"); !one.Binds("ann") || one.Binds(strings.Repeat("z", 1000)) {
		t.Error("a name that is no user's is kept, or another one is not")
	}
}
