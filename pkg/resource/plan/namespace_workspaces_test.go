package plan

import (
	"fmt"
	"net/url"
	"testing"

	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/store/index"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
)

func TestEqualTenanciesHaveEqualDigests(t *testing.T) {
	c := index.NewCollection(&index.Schema{}, clock.RealClock{})
	var objects []*index.Incoming
	for name, workspace := range map[string]string{"a": "w1", "b": "w2", "free": ""} {
		objects = append(objects, incoming(t, &index.Schema{}, fmt.Sprintf(
			`{"kind":"Namespace","apiVersion":"v1","metadata":{"name":%q,"uid":%q,"resourceVersion":"1","labels":{%q:%q}}}`, name, name, WorkspaceLabel, workspace)))
	}
	c.Replace(objects, "1")
	first := namespaceOwnersOf(c.Snapshot())
	if first.of["a"] != "w1" || first.of["free"] != "" || len(first.terms["w2"]) != 2 {
		t.Errorf("%+v", first)
	}
	if other := namespaceOwnersOf(c.Snapshot()); other.digest != first.digest {
		t.Error("equal tenancies have different digests")
	}
}

// incoming is an object as a collection takes it.
func incoming(t testing.TB, s *index.Schema, text string) *index.Incoming {
	t.Helper()
	d, err := index.NewDecoder(schema.GroupResource{}, s, func() bool { return false }).Decode(text, "")
	if err != nil {
		t.Fatal(err)
	}
	return d.Incoming
}

func parsedQuery(t testing.TB, raw string) *query.Query {
	t.Helper()
	v, err := url.ParseQuery(raw)
	if err != nil {
		t.Fatal(err)
	}
	q, err := query.Parse(v)
	if err != nil {
		t.Fatal(err)
	}
	return q
}
