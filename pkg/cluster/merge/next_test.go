package merge_test

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/query"
)

// F17, F34: a page goes on after a row with the longest sort values and names that one may have: also where a cluster writes them to end the pages of all.
func TestAPageGoesOnAfterTheLongestRow(t *testing.T) {
	long := &member{name: "b"}
	for i := range 3 {
		long.objects = append(long.objects, object{namespace: strings.Repeat("<", 512), name: strings.Repeat("<", 510) + fmt.Sprint(i),
			phase: strings.Repeat("z", query.MaxKey-3), version: 1, uid: fmt.Sprint("u", i)})
	}
	members := []*member{{name: "a", objects: []object{{namespace: "n", name: "one", phase: "a", uid: "u", version: 1}}}, long}
	v := url.Values{"sortBy": {".status.phase"}, "ascending": {"true"}, "limit": {"1"}}
	var got []string
	for next := ""; len(got) < 10; {
		a := must(t, sources(members), with(v, "next", next))
		if got = append(got, a.ids()...); a.Next == "" {
			break
		}
		next = a.Next
	}
	if want := []string{"a u", "b u0", "b u1", "b u2"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
