package member

import (
	"net/http"
	"strings"
	"testing"
)

func FuzzReadMembers(f *testing.F) {
	f.Add(`[{"username":"x","roleRef":"y"}]`)
	f.Add(`[null]`)
	f.Add(`{"username":[]}`)
	f.Fuzz(func(t *testing.T, body string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if members, err := readMembers(r); err == nil && (len(members) == 0 || len(members) > maxMembers) {
			t.Errorf("%d members", len(members))
		}
	})
}

// F15: a user of the fleet may be named before they are known in a member, and nobody else may; in a cluster that is no member nobody is.
func TestUsersOfTheFleetMayBeNamedBeforeTheyAreKnown(t *testing.T) {
	for name, want := range map[string]bool{"ann": true, "ann.b-c": true, "": false, "system:admin": false, "kapis:hub": false, "a b": false, "Ann": false,
		"ann\n": false, "*": false, "../ann": false, strings.Repeat("a", 254): false} {
		if got := (&Handler{Fleet: true}).isOfFleet(name); got != want {
			t.Errorf("%q: %v", name, got)
		}
		if (&Handler{}).isOfFleet(name) {
			t.Errorf("%q is one of a fleet that is not there", name)
		}
	}
}
