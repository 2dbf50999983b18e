package fleetsync

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"kapis.dev/ks-apiserver/pkg/store/index"
)

// inTurn are caches of one kind, which are read as they were at one time after another.
type inTurn struct{ all []*index.Snapshot }

func (c *inTurn) Snapshot(context.Context, schema.GroupVersionResource) (*index.Snapshot, error) {
	now := c.all[0]
	if len(c.all) > 1 {
		c.all = c.all[1:]
	}
	return now, nil
}

// F24, F26: a change that the caches do not show yet is sent as it is, and not as it was before, which would count until everything is compared.
func TestAChangeIsSentAsItWasTold(t *testing.T) {
	kept := index.NewCollection(&index.Schema{}, clock.RealClock{})
	decoder := index.NewDecoder(schema.GroupResource{}, &index.Schema{}, func() bool { return false })
	as := func(version string, texts ...string) *index.Snapshot {
		t.Helper()
		var objects []*index.Incoming
		for _, text := range texts {
			d, err := decoder.Decode(text, "")
			if err != nil {
				t.Fatal(err)
			}
			objects = append(objects, d.Incoming)
		}
		kept.Replace(objects, version)
		return kept.Snapshot()
	}
	role := func(name, version, rules string) string {
		return fmt.Sprintf(meta, name, name, `,"resourceVersion":"`+version+`"`, `,"rules":[`+rules+`]`)
	}
	wide, narrow, created, gone := role("r", "1", `{"verbs":["*"]}`), role("r", "2", ""), role("new", "3", ""), role("gone", "1", "")
	caches := &inTurn{all: []*index.Snapshot{as("1", wide, gone), as("2", narrow, gone), as("3", narrow, created)}}
	s := NewSource(caches)
	set(t, s, "globalroles", "r", narrow)
	set(t, s, "globalroles", "new", created)
	refs, there := []Ref{{"globalroles", "r"}, {"globalroles", "new"}, {"globalroles", "gone"}}, map[Ref]bool{}
	for _, r := range refs {
		there[r] = true
	}
	out, err := s.changes(t.Context(), refs, there)
	if err != nil || len(out) != 2 {
		t.Fatalf("%+v, %v", out, err)
	}
	for _, c := range out {
		if c.Hash != s.objects["globalroles"][c.Name].hash || strings.Contains(string(c.Object), "*") {
			t.Errorf("it is sent as it was: %s", c.Object)
		}
	}
}
