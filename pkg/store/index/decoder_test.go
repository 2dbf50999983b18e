package index

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/store/storetest"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
)

// randomObject is an object of random members, among them those that are cut.
func randomObject(r *rand.Rand) map[string]any {
	var value func(depth int) any
	text := func() string {
		alphabet := []string{"a", "b", `"`, `\`, "é", "\n", "{", "}", ",", ":", " ", "/", "\u2028", "<"}
		var b strings.Builder
		for range r.IntN(12) {
			b.WriteString(alphabet[r.IntN(len(alphabet))])
		}
		return b.String()
	}
	object := func(depth int, names ...string) map[string]any {
		out := map[string]any{}
		for range r.IntN(5) {
			out[text()] = value(depth + 1)
		}
		for _, n := range names {
			if r.IntN(2) == 0 {
				out[n] = value(depth + 1)
			}
		}
		return out
	}
	value = func(depth int) any {
		switch n := r.IntN(8); {
		case n < 2 && depth < 5:
			return object(depth, "data", "spec")
		case n == 2 && depth < 5:
			return []any{value(depth + 1), value(depth + 1)}
		case n == 3:
			return r.IntN(2) == 0
		case n == 4:
			return nil
		case n == 5:
			return float64(r.IntN(1000)) / 8
		}
		return text()
	}
	out := object(0, "spec", "data", "stringData", "status")
	annotations := object(1, lastApplied)
	out["kind"], out["apiVersion"] = "Thing", "v1"
	out["metadata"] = map[string]any{
		"name": "n" + text(), "resourceVersion": "7", "managedFields": []any{object(1)}, "annotations": annotations, "labels": map[string]any{text(): text()},
	}
	return out
}

// U13: what is stored of an object is complete when it is read again, for every kind of cut, and only what is cut is
// missing.
func TestCuttingTwiceIsCuttingOnce(t *testing.T) {
	for name, cut := range map[string]rawjson.Cut{
		"Nothing": nil, "Data": rawjson.Cuts([]string{"data"}, []string{"stringData"}), "Deep": rawjson.Cuts([]string{"spec", "data"}, []string{"status"}),
	} {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			d := NewDecoder(noKind, &Schema{Cut: cut}, func() bool { return false })
			for range 3000 {
				o := randomObject(r)
				text, err := json.Marshal(o)
				if err != nil {
					t.Fatal(err)
				}
				once, err := d.Decode(string(text), "")
				if err != nil {
					t.Fatalf("%s: %v", text, err)
				}
				twice, err := d.Decode(once.Record.JSON.String(), "")
				if err != nil || !reflect.DeepEqual(once, twice) {
					t.Fatalf("%s\nonce  %s\ntwice %s, %v", text, once.Record.JSON, twice.Record.JSON, err)
				}
				without(o, rawjson.Cuts([]string{"metadata", "managedFields"}, []string{"metadata", "annotations", lastApplied}))
				without(o, cut)
				var kept map[string]any
				if err := json.Unmarshal([]byte(once.Record.JSON.String()), &kept); err != nil || !reflect.DeepEqual(kept, o) {
					t.Fatalf("%s\nkept %s, %v", text, once.Record.JSON, err)
				}
			}
		})
	}
}

// without is the naive implementation of a cut.
func without(o map[string]any, cut rawjson.Cut) {
	for name, below := range cut {
		if below == nil {
			delete(o, name)
		} else if inner, ok := o[name].(map[string]any); ok {
			without(inner, below)
		}
	}
}

// U12, U13: fields that are never read are cut, and cutting again changes nothing.
func TestDecodingIsIdempotent(t *testing.T) {
	s := &Schema{Cut: rawjson.Cuts([]string{"data"}, []string{"spec", "connection", "token"})}
	for _, text := range []string{
		storetest.Pod("a", "b"),
		`{"kind":"Secret","apiVersion":"v1","metadata":{"name":"x","managedFields":[]},"data":{"a":"b"}}`,
		`{"apiVersion":"v1","metadata":{"name":"x"},"spec":{"connection":{"token":"t","type":"direct"}},"kind":"Cluster"}`,
	} {
		once := decodeText(t, s, text).Record.JSON.String()
		if twice := decodeText(t, s, once).Record.JSON.String(); once != twice {
			t.Errorf("%s\n%s", once, twice)
		}
		for _, cut := range []string{"managedFields", `"data"`, "last-applied", `"token"`} {
			if strings.Contains(once, cut) {
				t.Errorf("%s is left in %s", cut, once)
			}
		}
	}
}

func TestItemsOfAListCarryTheirKind(t *testing.T) {
	d := NewDecoder(noKind, &Schema{}, func() bool { return false })
	l, err := d.List(rawjson.NewReader(strings.NewReader(`{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7","continue":"c",`+
		`"remainingItemCount":3},"items":[{"metadata":{"name":"a"}},{"kind":"Own","apiVersion":"x/v1","metadata":{"name":"b"}}]}`), 1<<20))
	if err != nil || l.ResourceVersion != "7" || l.Continue != "c" || *l.RemainingItemCount != 3 || len(l.Items) != 2 {
		t.Fatalf("%+v, %v", l, err)
	}
	for i, want := range []string{`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"}}`, `{"kind":"Own","apiVersion":"x/v1","metadata":{"name":"b"}}`} {
		if got := l.Items[i].(*Decoded).Record.JSON.String(); got != want {
			t.Errorf("got %s", got)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(storetest.Pod("a", "b"))
	f.Add(`{"metadata":{"name":"x","labels":{"a":null},"ownerReferences":[{"uid":7}],"creationTimestamp":"no"}}`)
	f.Add(`{"kind":"PodList","items":[{"metadata":{"name":"a"}}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		_, _ = NewDecoder(noKind, phase, func() bool { return true }).List(rawjson.NewReader(strings.NewReader(text), 1<<16))
		d, err := NewDecoder(noKind, phase, func() bool { return true }).Decode(text, `"kind":"A","apiVersion":"v1"`)
		if err != nil {
			return
		}
		if d.Ref.Name == "" || !rawjson.Valid(d.Record.JSON.String(), 10_000) {
			t.Fatalf("%q was taken as %q", text, d.Record.JSON)
		}
		c := NewCollection(phase, clock.RealClock{})
		c.Set(d.Incoming)
		c.Set(decodeText(t, phase, d.Record.JSON.String()))
		c.Delete(d.Ref.Namespace, d.Ref.Name, "")
		if c.count != 0 || c.bytes != 0 || c.created.Len() != 0 || c.names.Len() != 0 || c.times[0].Len() != 0 {
			t.Fatalf("%q leaves %d objects, %d bytes, %d entries", text, c.count, c.bytes, c.created.Len())
		}
	})
}

// lastApplied is the annotation of kubectl apply, which is cut from every kind.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// noKind is a kind without hidden fields.
var noKind schema.GroupResource
