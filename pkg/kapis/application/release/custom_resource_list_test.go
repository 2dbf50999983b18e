package release_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/kapis/application/scopetest"
)

// things answers lists of so many objects, each of a size, as kube-apiserver does: in the order of their names, at most limit of them, with
// where the next ones begin.
func things(many, size int) func(url.Values) any {
	return func(q url.Values) any {
		limit, _ := strconv.Atoi(q.Get("limit"))
		from, _ := strconv.Atoi(strings.TrimPrefix(q.Get("continue"), "from-"))
		items, to := []any{}, min(many, from+limit)
		for i := from; i < to; i++ {
			items = append(items, map[string]any{"metadata": map[string]any{"name": fmt.Sprintf("t%05d", i), "managedFields": []any{"x"}},
				"spec": strings.Repeat("x", size)})
		}
		meta := map[string]any{"resourceVersion": "7"}
		if to < many {
			meta["continue"] = fmt.Sprintf("from-%d", to)
		}
		return map[string]any{"metadata": meta, "items": items}
	}
}

// listed is what a list of custom resources is answered with.
type listed struct {
	names    []string
	Total    int    `json:"totalItems"`
	Continue string `json:"continue"`
}

func (c *cluster) listed(query string) (out listed) {
	c.t.Helper()
	c.asked = nil
	text := c.Expect(http.StatusOK, "ann", http.MethodGet, "/workspaces/shop/applications/mine/cr"+kind+query, "")
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		c.t.Fatal(err)
	}
	if out.names = scopetest.Names(c.t, text); strings.Contains(text, "managedFields") {
		c.t.Error("it shows who manages fields")
	}
	return out
}

// X35: a list of custom resources has all of them, or the page that is asked for; where it has not, it says so, and how to go on.
func TestX35AListOfCustomResourcesIsWholeOrSaysThatItIsNot(t *testing.T) {
	c := newCluster(t)
	c.list = things(1234, 10)
	if got := c.listed(""); len(got.names) != 1234 || got.Total != 1234 || got.Continue != "" || len(slices.Compact(got.names)) != 1234 || len(c.asked) != 3 {
		t.Errorf("%d of %d, %q, by %d requests", len(got.names), got.Total, got.Continue, len(c.asked))
	}
	if got := c.listed("&limit=10&page=60"); got.Total != 1234 || len(got.names) != 10 || got.names[0] != "t00590" || got.Continue != "" {
		t.Errorf("%+v", got)
	}
	if got := c.listed("&limit=10&page=124"); len(got.names) != 4 || got.Total != 1234 {
		t.Errorf("the last page: %+v", got)
	}
	for _, query := range []string{"&limit=10&page=125", "&limit=0", "&limit=10&page=0"} {
		if got := c.listed(query); len(got.names) != 0 || got.Total != 1234 {
			t.Errorf("%s: %+v", query, got)
		}
	}
	c.Expect(http.StatusBadRequest, "ann", http.MethodGet, "/workspaces/shop/applications/mine/cr"+kind+"&limit=ten", "")
	c.list = things(5001, 10)
	first := c.listed("")
	if len(first.names) != 5000 || first.Total != 5000 || first.Continue != "from-5000" {
		t.Errorf("%d of %d, %q", len(first.names), first.Total, first.Continue)
	}
	if got := c.listed("&continue=" + first.Continue); !slices.Equal(got.names, []string{"t05000"}) || got.Total != 1 || got.Continue != "" {
		t.Errorf("after that: %+v", got)
	}
	c.list = things(5000, 10)
	if got := c.listed(""); len(got.names) != 5000 || got.Continue != "" {
		t.Errorf("as many as are read: %d, %q", len(got.names), got.Continue)
	}
}

// X35: large custom resources are read as well, fewer at once, and no more of them than the bound of an answer.
func TestX35LargeCustomResourcesAreListedWithinBounds(t *testing.T) {
	c := newCluster(t)
	c.list = things(12, 1<<20)
	var all []string
	for from := ""; len(all) < 12; {
		got := c.listed("&continue=" + from)
		all = append(all, got.names...)
		if n := len(got.names); n == 0 || n == 12 || n != got.Total {
			t.Fatalf("%d of %d", n, got.Total)
		}
		if from = got.Continue; from == "" {
			break
		}
	}
	if len(all) != 12 || len(slices.Compact(all)) != 12 {
		t.Errorf("%q", all)
	}
	c.list = func(url.Values) any { // which no kube-apiserver does
		return map[string]any{"metadata": map[string]any{"continue": "more"}, "items": []any{}}
	}
	if got := c.listed(""); len(got.names) != 0 || got.Continue != "more" || len(c.asked) > 100 {
		t.Errorf("%+v after %d requests", got, len(c.asked))
	}
}
