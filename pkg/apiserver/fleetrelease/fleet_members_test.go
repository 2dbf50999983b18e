package fleetrelease_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/apiserver/fleet"
	"kapis.dev/ks-apiserver/pkg/apiserver/fleetrelease"
	"kapis.dev/ks-apiserver/pkg/cluster"
	"kapis.dev/ks-apiserver/pkg/cluster/hub"
	"kapis.dev/ks-apiserver/pkg/store"
)

// S67: users are removed from a workspace in each member that has it: not in the hub itself, in a name without a cluster, or where the hub keeps nothing.
// Before the members are known it is not said that there are none.
func TestS67UsersAreRemovedInTheMembersThatHaveTheWorkspace(t *testing.T) {
	members := &cluster.Members{Host: "host", Now: time.Now, SharedSecrets: []string{"older"}}
	for name, rest := range map[string]string{"m1": `}`, "m2": `},"spec":{"enable":false}`, "lite": `,"annotations":{"kapis.dev/lite":"true"}}`,
		"older": `},"spec":{"connection":{"type":"direct"}}`, "other": `}`} {
		members.Set(&store.Object{Name: name, Raw: []byte(`{"metadata":{"name":"` + name + `","uid":"u-` + name + `"` + rest + `}`)})
	}
	h := &fleet.Hub{Hub: &hub.Hub{Members: members}}
	broken := errors.New("it can't be read")
	placed := func(_ context.Context, template string) ([]string, error) {
		if template == "" {
			return nil, broken
		}
		return strings.Split(template, " "), nil
	}
	f := fleetrelease.Removal(h, nil, nil, placed)
	if _, err := f.Placed(t.Context(), "m1"); err == nil {
		t.Error("a server that has not read its members says that there are none")
	}
	h.Fed(nil, nil)
	if got, err := f.Placed(t.Context(), "m2 host nowhere m1 lite older m2"); err != nil || !slices.Equal(got, []string{"m1", "m2"}) {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := f.Placed(t.Context(), ""); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
	if fleetrelease.Removal(nil, nil, nil, placed) != nil {
		t.Error("a server that is no hub has members")
	}
}
