package plan

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/redaction"
	"kapis.dev/ks-apiserver/pkg/store/index"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The property: a word is found in pairs if it is in one of their texts, of any content.
func TestWordsAreFoundLikeInDecodedPairs(t *testing.T) {
	const alphabet = `aAbB:,{}"\<>&.- éÉ0n` + "\n\t\u2028\x01"
	letters := []rune(alphabet)
	for seed := range uint64(4000) {
		r := rand.New(rand.NewPCG(seed, 3))
		text := func(n int) string {
			var out []rune
			for range r.IntN(n) {
				out = append(out, letters[r.IntN(len(letters))])
			}
			return string(out)
		}
		pairs := map[string]string{}
		for range r.IntN(3) {
			pairs[text(6)] = text(9)
		}
		raw, err := json.Marshal(pairs)
		if err != nil {
			t.Fatal(err)
		}
		for range 6 {
			word := strings.ToLower(text(4))
			if strings.TrimSpace(word) == "" {
				continue
			}
			want := false
			for k, v := range pairs {
				want = want || strings.Contains(strings.ToLower(k), word) || strings.Contains(strings.ToLower(v), word)
			}
			if w := wordOf(word); w.inPairs(index.Pairs(raw)) != want {
				t.Fatalf("%q in %s: not %v", word, raw, want)
			}
		}
	}
}

func TestLookingForAWordAllocatesNothing(t *testing.T) {
	r := &index.Record{
		Ref:         &index.Ref{Name: "web-1"},
		Labels:      `{"app":"Web","tier":"x"}`,
		Annotations: index.Pairs(`{"a":"text with \"escapes\"","b":"` + strings.Repeat("x", 300) + `"}`),
	}
	w := wordOf("absent")
	if n := testing.AllocsPerRun(100, func() { w.inRecord(r) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
	for _, o := range []string{`{"metadata":{"ownerReferences":[{"kind":"K","name":"n","uid":"u"}]}}`} {
		r := &index.Record{JSON: textOf(t, o)}
		if n := testing.AllocsPerRun(100, func() { r.AnyOwner(func(o index.Owner) bool { return o.UID == "x" }) }); n > 0 {
			t.Errorf("owners: %v allocations", n)
		}
	}
}

// textOf is the text of an object of a kind without hidden fields.
func textOf(t testing.TB, text string) redaction.Shown {
	t.Helper()
	shown, err := redaction.Received(text).Shown(schema.GroupResource{Resource: "pods"})
	if err != nil {
		t.Fatal(err)
	}
	return shown
}
