package scope

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// What a result is cached by tells apart whatever gives another result.
func FuzzSubsetsOfOneNameAreOne(f *testing.F) {
	f.Add("a", "", "b,c", "draft", "k", "v", "a", "", "b", "c", "k", "v")
	f.Add(`a" "b`, "", "", "", "", "", "a", "b", "", "", "", "")
	f.Fuzz(func(t *testing.T, w1, n1, in1, states1, key1, value1, w2, n2, in2, states2, key2, value2 string) {
		list := func(text string) []string {
			if text == "" {
				return nil
			}
			return strings.Split(text, ",")
		}
		labels := func(key, value string) map[string]string {
			if key == "" {
				return nil
			}
			return map[string]string{key: value}
		}
		a, b := &sight{workspace: w1, namespace: n1, workspaces: list(in1)}, &sight{workspace: w2, namespace: n2, workspaces: list(in2)}
		x, y := Apps.subset(a, labels(key1, value1), list(states1)), Apps.subset(b, labels(key2, value2), list(states2))
		same := w1 == w2 && n1 == n2 && slices.Equal(a.workspaces, b.workspaces) && slices.Equal(list(states1), list(states2)) &&
			(states1 == "") == (states2 == "") && maps.Equal(labels(key1, value1), labels(key2, value2))
		if (x.Name == y.Name) != same {
			t.Errorf("%q and %q", x.Name, y.Name)
		}
	})
}
