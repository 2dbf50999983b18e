package member

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/kapis/iam/binding"
	"kapis.dev/ks-apiserver/tools/hostile"
)

// A member of a list is the user whom the list names, by the whole name, and bindings of two members have two names, whatever is in theirs.
func TestMembersAreWhoTheListSays(t *testing.T) {
	type pair struct{ user, role string }
	named := map[string]pair{}
	for seed := range uint64(1500) {
		g := hostile.New(seed)
		want := []Member{{Username: g.Mixed("ann"), RoleRef: g.Mixed("viewer")}, {Username: g.Word(), RoleRef: g.Word()}}
		raw, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(string(raw)))
		if err != nil {
			t.Fatal(err)
		}
		got, err := readMembers(r)
		if err != nil || len(got) != len(want) {
			t.Fatalf("%d members of %q: %v", len(got), raw, err)
		}
		for i, m := range got {
			if m.Username != strings.ToValidUTF8(want[i].Username, "\ufffd") && !strings.Contains(m.Username, "\ufffd") {
				t.Errorf("%q became %q", want[i].Username, m.Username)
			}
			one, name := pair{m.Username, m.RoleRef}, binding.DistinctName(m.Username, m.RoleRef)
			if other, ok := named[name]; ok && other != one {
				t.Errorf("%q and %q share the name %q", one, other, name)
			}
			named[name] = one
		}
	}
	if binding.DistinctName("a\x00b", "c") == binding.DistinctName("a", "b\x00c") {
		t.Error("two have one name")
	}
}
