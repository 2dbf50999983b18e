package hub

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/cluster"
	"kapis.dev/ks-apiserver/pkg/cluster/link"
	"kapis.dev/ks-apiserver/pkg/cluster/linktest"
	"kapis.dev/ks-apiserver/pkg/store"
)

// F29: a member without a link is said not to be ready within 20 seconds, of which ten may pass until a silent link is known to be dead; one that is
// said to be so already is not looked at again and again.
func TestAMemberWithoutALinkIsOverdue(t *testing.T) {
	now := time.Unix(1000, 0)
	clock := func() time.Time { return now }
	h := &Hub{Options: Options{Now: clock}, Members: &cluster.Members{Host: "host", Now: clock}}
	for name, c := range map[string]string{
		"ready":    `"spec":{"enable":true},"status":{"conditions":[{"type":"Ready","status":"True"}]}`,
		"said":     `"spec":{"enable":true},"status":{"conditions":[{"type":"Ready","status":"False","message":"no link"}]}`,
		"disabled": `"spec":{"enable":false},"status":{"conditions":[{"type":"Ready","status":"True"}]}`,
		"joining":  `"spec":{"enable":true}`,
	} {
		h.Members.Set(&store.Object{Name: name, Raw: []byte(`{"metadata":{"name":"` + name + `","uid":"` + name + `"},` + c + `}`)})
	}
	if got := h.overdue(); len(got) > 0 {
		t.Errorf("at once: %v", got)
	}
	now = now.Add(missed)
	if got := h.overdue(); !slices.Equal(got, []string{"ready"}) {
		t.Errorf("after %v: %v", missed, got)
	}
	if noticed := 10 * time.Second; noticed+missed+lookEvery > 20*time.Second {
		t.Errorf("a silent member is said to be gone after %v", noticed+missed+lookEvery)
	}
}

// F29: a member that refuses this hub is not linked, and is overdue as well, however often it dials again.
func TestAMemberThatRefusesTheHubIsOverdue(t *testing.T) {
	const uid = "0f8fad5b-d9cb-469f-a165-70867728950e"
	fleet, former := linktest.NewAuthority(t), linktest.NewAuthority(t)
	now := time.Unix(1000, 0)
	clock := func() time.Time { return now }
	h := &Hub{Options: Options{Now: clock}, Members: &cluster.Members{Host: "host", Now: clock, Identity: fleet.Hub(t)}}
	h.Members.Set(&store.Object{Name: "m1", Raw: []byte(`{"metadata":{"name":"m1","uid":"` + uid + `"},"spec":{"enable":true},` +
		`"status":{"conditions":[{"type":"Ready","status":"True"}]}}`)})
	member := &link.Handler{Handler: http.NotFoundHandler(), Identity: link.Identity{
		Certificate: fleet.Member(t, uid).Certificate, Authorities: former.Member(t, uid).Authorities}}
	for range 3 {
		one, other := linktest.Pair(t)
		go func() { _ = member.Serve(t.Context(), other, 0) }()
		if err := h.Members.Serve(t.Context(), one, uid, func() { t.Error("it is linked") }); err == nil {
			t.Error("its link was opened")
		}
		now = now.Add(missed / 2)
	}
	if got := h.overdue(); !slices.Equal(got, []string{uid}) {
		t.Errorf("overdue: %v", got)
	}
}
