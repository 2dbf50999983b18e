package resource

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"net/url"
	"slices"
	"strconv"
	"testing"

	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/resource/page"
	"kapis.dev/ks-apiserver/pkg/resource/plan"
)

// F34: whatever the order, keys compare as the objects are ordered, cursors partition a list, and a key says how many objects are before it.
func TestKeysCompareAndCursorsPartition(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var objects []string
	for i := range 300 {
		p := randomPod(r, i)
		if i%7 == 0 {
			p.Annotations["odd"] = []string{"a", "a\x00", "a\x00b", "", "-0", "0", "1Ki", "2", "2026-01-01T00:00:00Z"}[r.IntN(9)]
		}
		raw, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		objects = append(objects, string(raw))
	}
	w := newWorld(t, map[string][]string{"/api/v1/pods": objects}, Options{})
	pods := w.resolve(t, "", "pods")
	list := func(values url.Values) *page.Page {
		t.Helper()
		q, err := query.Parse(values)
		if err != nil {
			t.Fatalf("%v: %v", values, err)
		}
		p, err := w.List(context.Background(), pods, plan.Scope{}, q)
		if err != nil {
			t.Fatalf("%v: %v", values, err)
		}
		return p
	}
	for _, sortBy := range []string{"", "name", "namespace", "startTime", ".spec.priority", ".metadata.annotations.odd,name", ".status.phase,.spec.nodeName"} {
		for _, filter := range []string{"", "app=x", "app in (x,y)"} {
			for _, ascending := range []bool{true, false} {
				v := url.Values{"sortBy": {sortBy}, "ascending": {strconv.FormatBool(ascending)}, "labelSelector": {filter}}
				all := list(v)
				keys := with(v, "view", "keys", "limit", "500")
				rows := list(keys)
				if rows.Total != all.Total || len(rows.Keys) != all.Len() {
					t.Fatalf("%v: %d keys of %d objects", v, len(rows.Keys), all.Len())
				}
				at := func(i int, after bool) *query.Cursor {
					return &query.Cursor{After: after, Key: rows.Keys[i], Namespace: rows.Records[i].Namespace, Name: rows.Records[i].Name}
				}
				for i := 1; i < all.Len(); i++ {
					if c := at(i-1, false).Compare(rows.Keys[i], rows.Records[i].Namespace, rows.Records[i].Name); c == 0 || c < 0 != ascending {
						t.Fatalf("%v: the keys %d and %d compare as %d", v, i-1, i, c)
					}
				}
				var got []string
				for next := ""; ; {
					p := list(with(v, "limit", "37", "cursor", next))
					if p.Start != len(got) {
						t.Fatalf("%v: a page after %d objects says that %d are before it", v, len(got), p.Start)
					}
					for _, r := range p.Records {
						got = append(got, r.UID)
					}
					if p.Remaining == 0 {
						break
					}
					next = at(len(got)-1, true).String()
				}
				var want []string
				for _, r := range all.Records {
					want = append(want, r.UID)
				}
				if !slices.Equal(got, want) {
					t.Fatalf("%v: cursors do not partition the list", v)
				}
				if some := list(with(keys, "limit", "5", "every", "0")); some.Start != 0 || len(some.Keys) > 5 || some.Keys[len(some.Keys)-1] !=
					rows.Keys[(all.Total+4)/5*(len(some.Keys)-1)] {
					t.Fatalf("%v: five keys are not spread over the list", v)
				}
				if from := list(with(v, "limit", "2", "cursor", at(3, false).String())); from.Records[0].UID != want[3] {
					t.Fatalf("%v: a page that begins with an object begins with another", v)
				}
				if from := list(with(v, "limit", "2", "offset", "9")); from.Records[0].UID != want[9] {
					t.Fatalf("%v: an offset is another one", v)
				}
			}
		}
	}
}

// with returns parameters with others.
func with(v url.Values, more ...string) url.Values {
	out := url.Values{}
	for k, values := range v {
		out[k] = values
	}
	for i := 0; i < len(more); i += 2 {
		out.Set(more[i], more[i+1])
	}
	return out
}

// A cursor that nobody made, and numbers that no page has, are refused by name.
func TestBadCursorsAreRefused(t *testing.T) {
	for _, v := range []url.Values{{"cursor": {"!"}}, {"cursor": {"AgAAAA"}}, {"cursor": {"AAD_____Dw"}}, {"cursor": {"AAAAAAA"}}, {"offset": {"-1"}},
		{"view": {"keys"}}, {"view": {"keys"}, "limit": {"501"}}, {"view": {"keys"}, "limit": {"1"}, "every": {"-1"}},
		{"offset": {"1"}, "cursor": {(&query.Cursor{}).String()}}} {
		if _, err := query.Parse(v); err == nil {
			t.Errorf("%v is accepted", v)
		}
	}
	for _, c := range []*query.Cursor{{}, {After: true, Key: "\x00\xff", Namespace: "n", Name: "a/b"}} {
		if got, err := query.ParseCursor(c.String()); err != nil || *got != *c {
			t.Errorf("%+v became %+v, %v", c, got, err)
		}
	}
}
