package merge_test

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/cluster/merge"
)

// F17, F35, F38: a cluster that counts what nobody has asked for is named, and the facets are those of the others.
func TestFacetsThatNobodyAskedForSpoilNothing(t *testing.T) {
	honest := &member{name: "b", objects: []object{{namespace: "n", name: "one", uid: "u1", version: 1, phase: "Running"}}}
	many := make([]string, 1001)
	for i := range many {
		many[i] = fmt.Sprintf(`"v%d":1`, i)
	}
	for what, facets := range map[string]string{
		"other names":     `".a":{"x":1},".b":{"x":1},".c":{"x":1},".d":{"x":1},".e":{"x":1},".f":{"x":1},".g":{"x":1},".h":{"x":1}`,
		"too many values": `".status.phase":{` + strings.Join(many, ",") + `}`,
	} {
		liar := &member{name: "a", answer: func(_ url.Values, w http.ResponseWriter) bool {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"totalItems":0,"start":0,"metadata":{"resourceVersion":"7"},"rows":[],"facets":{`+facets+`}}`)
			return true
		}}
		a := must(t, sources([]*member{liar, honest}), url.Values{"facets": {"status.phase"}, "limit": {"1"}})
		if a.Facets[".status.phase"]["Running"] != 1 || len(a.Facets) != 1 || len(a.Clusters.Missing) != 1 || a.Clusters.Missing[0].Reason != merge.Faulty {
			t.Errorf("%s: %v, %+v", what, a.Facets, a.Clusters)
		}
		if a := must(t, sources([]*member{liar, honest}), url.Values{"limit": {"1"}}); len(a.Facets) != 0 {
			t.Errorf("%s, and none was asked for: %v", what, a.Facets)
		}
	}
}
