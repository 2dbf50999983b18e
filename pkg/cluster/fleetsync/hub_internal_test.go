package fleetsync

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/cluster"
	"kapis.dev/ks-apiserver/pkg/cluster/linktest"
	"kapis.dev/ks-apiserver/pkg/store"
)

// F17, F39: what a member says of each batch is not kept beyond the bound of all.
func TestWhatAMemberSaysOfBatchesHasABound(t *testing.T) {
	const uid = "0f8fad5b-d9cb-469f-a165-70867728950e"
	by := linktest.NewAuthority(t)
	members := &cluster.Members{Identity: by.Hub(t), Host: "host", Now: time.Now}
	members.Set(&store.Object{Name: "m1", Raw: []byte(`{"metadata":{"name":"m1","uid":"` + uid + `"},"spec":{"enable":true}}`)})
	var batches atomic.Int64
	by.Link(t, members, uid, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		batches.Add(1)
		out := Outcome{Pending: make([]cluster.Pending, 900)}
		for i := range out.Pending {
			out.Pending[i].Reason = strings.Repeat("x", 10_000)
		}
		_ = json.NewEncoder(w).Encode(&out)
	}))
	var refs []Ref
	for i := range 3 * batch {
		refs = append(refs, Ref{"users", strconv.Itoa(i)})
	}
	r := &round{Syncer: &Syncer{Source: NewSource(nil), Hub: "u-hub"}}
	pending, err := r.send(t.Context(), members.ByName("m1"), refs, map[Ref]bool{})
	if err != nil || batches.Load() != 3 || len(pending) != 1000 || len(pending[0].Reason) > 512 {
		t.Errorf("%d are pending after %d batches, %v", len(pending), batches.Load(), err)
	}
}

// F17: a member that asks for one object again and again is sent it once, and nothing that it is not to have.
func TestAMemberGetsEachObjectOnce(t *testing.T) {
	want := []Ref{{"users", "ann"}, {"users", "ann"}, {"users", "admin"}, {"secrets", "ann"}, {"users", "bob"}, {"users", "ann"}}
	refs, there := lacked(want, map[string]map[string]string{"users": {"ann": "1", "bob": "2"}})
	if !slices.Equal(refs, []Ref{{"users", "ann"}, {"users", "bob"}}) || len(there) != 2 {
		t.Errorf("%v, %v", refs, there)
	}
}
