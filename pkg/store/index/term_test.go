package index

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/store/storetest"

	"k8s.io/utils/clock"
)

// lines stores the values of a label, which are joined by dots, one a line.
var lines = &Schema{Fields: 1, Members: []int{0}, Extract: func(json string, v []string) {
	v[0] = strings.ReplaceAll(rawjson.GetText(json, "metadata", "labels", "l"), ".", "\n")
}}

// After any changes, a term of a line holds for the objects of its namespace that have the line now, and for no others.
func TestMembersFollowAModel(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 1))
	c := NewCollection(lines, clock.RealClock{})
	model := map[string]string{} // namespace/name -> .values.
	object := func(ns, name, values string, version int) *Incoming {
		return decodeText(t, lines, strings.ReplaceAll(storetest.Pod(ns, name, fmt.Sprintf(`"l":%q`, values)), "%RV%", fmt.Sprint(version)))
	}
	for step := range 1200 {
		ns, name := fmt.Sprintf("n%d", r.IntN(3)), fmt.Sprintf("p%d", r.IntN(6))
		values := []string{"", "a", "b", "a.b", "a.a", "b.c.", "aa"}[r.IntN(7)]
		switch r.IntN(10) {
		case 0:
			c.Delete(ns, name, "1")
			delete(model, ns+"/"+name)
		case 1:
			c.Replace([]*Incoming{object(ns, name, values, step)}, "1")
			model = map[string]string{ns + "/" + name: "." + values + "."}
		default:
			c.Set(object(ns, name, values, step))
			model[ns+"/"+name] = "." + values + "."
		}
		c.Flush()
		snap := c.current.Load()
		for _, in := range []string{"n0", "n1", "n2", ""} {
			for _, line := range []string{"a", "b", "c", "aa", "n0", ""} {
				want := 0
				for key, values := range model {
					if strings.HasPrefix(key, in+"/") && line != "" && strings.Contains(values, "."+line+".") {
						want++
					}
				}
				term := HasMember(0, in, line)
				if got := snap.ByCreated(term).Len(); got != want || snap.Any(term) != (want > 0) {
					t.Fatalf("step %d: %d objects of %q have %q, %v; want %d", step, got, in, line, snap.Any(term), want)
				}
			}
		}
	}
}
