package peer

import (
	"fmt"
	"maps"
	"testing"
	"time"
)

// F4, F39: a replica counts as long as what it writes changes, by the reader's own clock, and one that is gone is removed; what is no address
// is not dialled, and neither is any number of them.
func TestAReplicaCountsWhileItRenews(t *testing.T) {
	now := time.Unix(0, 0)
	r := &registry{id: "own", now: func() time.Time { return now }}
	in := map[string]string{"other": "annotation", prefix + "own": "10.0.0.1:9090 7", prefix + "one": "10.0.0.2:9090 3", prefix + "six": "[fd00::1]:9090 1",
		prefix + "name": "example.com:443 1", prefix + "path": "10.0.0.3:80/x 1", prefix + "none": ""}
	check := func(when string, want map[string]string) {
		t.Helper()
		if got := r.look(in); !maps.Equal(got, want) {
			t.Errorf("%s the others are %v, want %v", when, got, want)
		}
	}
	check("first", map[string]string{"one": "10.0.0.2:9090", "six": "[fd00::1]:9090"})
	now = now.Add(15 * time.Second)
	in[prefix+"one"] = "10.0.0.2:9090 4"
	check("when one renews", map[string]string{"one": "10.0.0.2:9090", "six": "[fd00::1]:9090"})
	now = now.Add(15 * time.Second)
	check("when the other has stopped", map[string]string{"one": "10.0.0.2:9090"})
	now = now.Add(time.Hour)
	check("when both have stopped", map[string]string{})
	if len(in) != 2 || in["other"] == "" || in[prefix+"own"] == "" {
		t.Errorf("what is gone stays: %v", in)
	}
	for i := range 10 * replicasAtMost {
		in[fmt.Sprint(prefix, "r", i)] = "10.0.0.2:9090 1"
	}
	if got := r.look(in); len(got) != replicasAtMost {
		t.Errorf("%d replicas are connected to", len(got))
	}
}
