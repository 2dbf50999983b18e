package hub

import (
	"slices"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/cluster"
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
