package resource

import (
	"slices"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/resource/httpcache"
	"kapis.dev/ks-apiserver/pkg/resource/projection"
	"kapis.dev/ks-apiserver/pkg/store/index"
)

// Equal entity tags, digests and keys of projections have equal parts.
func FuzzPartsOfATagAreToldApart(f *testing.F) {
	f.Add("a\x00b", "a|b")
	f.Add("1:a", "a")
	f.Add("|", "")
	f.Add("a|1:b", "a1:b")
	f.Fuzz(func(t *testing.T, one, other string) {
		a, b := strings.Split(one, "|"), strings.Split(other, "|")
		if slices.Equal(a, b) {
			return
		}
		if httpcache.Tag(a...) == httpcache.Tag(b...) {
			t.Errorf("%q and %q have one tag", a, b)
		}
		records := func(parts []string) (out []*index.Record) {
			for i := 0; i+1 < len(parts); i += 2 {
				out = append(out, &index.Record{UID: parts[i], ResourceVersion: parts[i+1], JSON: shownText(t, "{}")})
			}
			return out
		}
		those, others := records(a), records(b)
		same := slices.EqualFunc(those, others, func(x, y *index.Record) bool { return x.UID == y.UID && x.ResourceVersion == y.ResourceVersion })
		x, _ := httpcache.DigestOf(those)
		if y, _ := httpcache.DigestOf(others); x == y && !same {
			t.Errorf("%q and %q have one digest", a, b)
		}
		if p, q := projection.New([]query.Path{a}), projection.New([]query.Path{b}); p.Key == q.Key {
			t.Errorf("the paths %q and %q have one key", a, b)
		}
	})
}
