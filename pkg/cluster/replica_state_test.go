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
		m.ByUID(id).SetBoundNames(&cluster.BoundNames{Groups: users[:4_000]})
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
			if s.Bound != nil && (len(s.Bound) != len(users) || s.Names == nil || len(s.Names.Groups) != 4_000 || s.Version == 0) {
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

// F17: the names that bindings of any member have are known by every replica, also while neither the member nor the replica that it was linked to is there.
// What a member does not say is not free for the taking: all of its users count as bound in the whole cluster then.
func TestNamesInMembersAreRemembered(t *testing.T) {
	const id = "0f8fad5b-d9cb-469f-a165-708677289500"
	a := linktest.NewAuthority(t)
	m := &cluster.Members{Identity: a.Hub(t), Host: "host", Now: time.Now}
	expect := func(when string, user, inCluster, group bool) {
		t.Helper()
		if m.Bind("bob") != user || m.BindInCluster("bob") != inCluster || m.BindGroup("sre") != group {
			t.Errorf("%s: bob is bound: %v, in the cluster: %v; the group is: %v", when, m.Bind("bob"), m.BindInCluster("bob"), m.BindGroup("sre"))
		}
		if m.Bind("bo") || m.BindInCluster("bobb") || m.BindGroup("bob") {
			t.Errorf("%s: another name is bound", when)
		}
	}
	m.Set(object(t, "m0", "0f8fad5b-d9cb-469f-a165-708677289501", nil))
	m.Set(object(t, "m1", id, nil))
	expect("nothing is said", false, false, false)
	elsewhere := func(s cluster.State) {
		s.UID = id
		m.SetElsewhere("b", &cluster.Elsewhere{Members: map[string]cluster.State{id: s}})
	}
	names := func(users ...string) *cluster.BoundNames {
		return &cluster.BoundNames{ClusterUsers: users, Groups: []string{"sre"}}
	}
	elsewhere(cluster.State{Bound: []string{"bob"}, Version: 1})
	expect("another replica says whom it binds", true, true, false)
	elsewhere(cluster.State{Bound: []string{"bob"}, Names: names(), Version: 2})
	expect("another replica says more", true, false, true)
	elsewhere(cluster.State{Bound: []string{"bob"}, Names: names("bob"), Version: 3})
	expect("bob is bound in the cluster", true, true, true)
	m.SetElsewhere("b", nil)
	expect("that replica is gone", true, true, true)
	elsewhere(cluster.State{}) // it has started again
	m.SetElsewhere("b", nil)
	expect("that replica has nothing to say", true, true, true)
	a.Link(t, m, id, http.NotFoundHandler())
	expect("the member is linked here", true, true, true)
	elsewhere(cluster.State{Bound: []string{"eve"}, Names: names("eve"), Version: 9})
	m.ByUID(id).SetSynced(true, nil)
	expect("it is linked to both", true, true, true)
	_, said := m.States(t.Context(), 0, nil)
	if len(said) != 1 || said[0].Names == nil || len(said[0].Names.Groups) != 1 || said[0].Version == 0 {
		t.Errorf("other replicas are told %+v", said)
	}
	m.ByUID(id).SetBoundNames(&cluster.BoundNames{ClusterUsers: []string{strings.Repeat("z", 1000)}})
	if expect("the member says something else", true, false, false); m.BindInCluster(strings.Repeat("z", 1000)) {
		t.Error("a name that is too long is kept")
	}
	m.ByUID(id).SetBound(nil)
	expect("it binds nobody any more", false, false, false)
}
