package resource

import (
	"testing"

	"kapis.dev/ks-apiserver/pkg/resource/plan"
)

func TestAWatchOfANameIsOfThatNameOnly(t *testing.T) {
	c := newLiveCluster(t)
	c.pod("a", "p1", "x")
	c.pod("a", "p2", "x")
	for raw, want := range map[string][]string{"": {"ADDED p1"}, "fieldSelector=metadata.name%3Dp2": nil, "names=p1,p2": {"ADDED p1"}} {
		src, err := c.Streams.Open(t.Context(), nil, c.kind("pods"), plan.Scope{}, parsed(t, raw+"&allowWatchBookmarks=true"), true, "p1")
		if err != nil {
			t.Fatal(err)
		}
		w := get(t, serveSource(t, src).URL)
		w.expect(want...)
		w.quiet(c.current())
	}
}
