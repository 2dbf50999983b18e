package resource

import (
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/resource/plan"
)

func TestAWatchOfANameIsOfThatNameOnly(t *testing.T) {
	c := newLiveCluster(t)
	c.pod("a", "p1", "x")
	c.pod("a", "p2", "x")
	for raw, want := range map[string][]string{"": {"ADDED p1"}, "fieldSelector=metadata.name%3Dp2": nil, "names=p1,p2": {"ADDED p1"}} {
		src, err := c.Streamed(t.Context(), nil, c.kind("pods"), plan.Scope{}, parsed(t, raw+"&allowWatchBookmarks=true"), true, "p1")
		if err != nil {
			t.Fatal(err)
		}
		w := get(t, serveSource(t, src).URL)
		w.expect(want...)
		w.quiet(c.current())
	}
}

func TestVersionsThatAreNoNumbersAreLeftAsTheyAre(t *testing.T) {
	for _, c := range []struct {
		version string
		last    bool
		want    string
	}{{"10", true, "10"}, {"10", false, "9"}, {"0", false, "0"}, {"x", false, "x"}, {"", true, ""}} {
		if got := seenVersion(c.version, c.last); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
	const object = `{"kind":"X","metadata":{"labels":{"resourceVersion":"1"},"resourceVersion":"1"}}`
	if got := atVersion(shownText(t, object), "22").String(); got != `{"kind":"X","metadata":{"labels":{"resourceVersion":"1"},"resourceVersion":"22"}}` {
		t.Error(got)
	}
	for _, version := range []string{"x", "", `1","a":"`} {
		if got := atVersion(shownText(t, object), version).String(); got != object {
			t.Errorf("%q: %s", version, got)
		}
	}
	if got := atVersion(shownText(t, `{"metadata":{}}`), "1").String(); got != `{"metadata":{}}` {
		t.Error(got)
	}
}

func TestLifetimes(t *testing.T) {
	for range 100 {
		d, err := lifetimeOf(parsed(t, ""))
		if err != nil || d < minLifetime || d >= 2*minLifetime {
			t.Fatalf("%v %v", d, err)
		}
	}
	if d, err := lifetimeOf(parsed(t, "timeoutSeconds=7")); err != nil || d != 7*time.Second {
		t.Errorf("%v %v", d, err)
	}
	if _, err := lifetimeOf(parsed(t, "timeoutSeconds=99999999999999")); err == nil {
		t.Error("no error")
	}
}
