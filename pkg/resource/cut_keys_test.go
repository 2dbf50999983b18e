package resource

import (
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/resource/plan"
)

const secretsAt = "/api/v1/secrets"

func TestListsOfTheClusterShowTheKeysOfDataToWhoMayListAll(t *testing.T) { // D13
	many := strings.Repeat(`"`+strings.Repeat("k", 60)+`":"canary",`, 100)
	w := newCluster(t, map[string][]string{secretsAt: {
		obj("a/two", "", `"data":{"\u0061":"canary","b\"c":"canary"},"type":"Opaque"`), obj("b/none", "", `"type":"Opaque"`), obj("b/void", "", `"data":{}`),
		obj("b/many", "", `"data":{`+strings.TrimSuffix(many, ",")+`}`),
	}}, Options{})
	k := w.resolve(t, "", "secrets")
	for _, c := range []struct {
		scope plan.Scope
		query string
		want  string // of a/two
	}{
		{plan.Scope{CutKeys: true}, "names=two", `"type":"Opaque","data":{"a":"","b\"c":""}}`},
		{plan.Scope{CutKeys: true}, "names=two&fields=.data.a", `"apiVersion":"v1","data":{"a":""}}`},
		{plan.Scope{}, "names=two", `"type":"Opaque"}`},
		{plan.Scope{}, "names=two&fields=.data.a", `"apiVersion":"v1"}`},
	} {
		p, err := w.list(t, k, c.scope, c.query)
		if err != nil || p.Len() != 1 {
			t.Fatalf("%s: %v", c.query, err)
		}
		body := respond(p.Items(), "GET").Body.String()
		if !strings.Contains(body, c.want+"]}") || strings.Contains(body, "canary") {
			t.Errorf("%s: %s, want %s", c.query, body, c.want)
		}
	}
	for _, filter := range []string{"fieldSelector=data.a!=", "cel=has(object.data)", "q=data"} {
		if got := w.keys(t, k, plan.Scope{CutKeys: true}, filter); got != "" {
			t.Errorf("%s finds %s by what is not in the cache", filter, got)
		}
	}
	with, without := w.tag(t, plan.Scope{CutKeys: true}), w.tag(t, plan.Scope{})
	if with == without || with != w.tag(t, plan.Scope{CutKeys: true}) {
		t.Errorf("tags %s with the keys and %s without them", with, without)
	}
	p, err := w.list(t, k, plan.Scope{CutKeys: true}, "names=none,void,many")
	if err != nil || p.Len() != 3 {
		t.Fatal(err, p.Len())
	}
	if body := respond(p.Items(), "GET").Body.String(); strings.Contains(body, `"data"`) {
		t.Errorf("of no keys, and of more than are kept: %s", body)
	}
}

// tag returns the entity tag of the list of Secrets.
func (w *world) tag(t *testing.T, scope plan.Scope) string {
	t.Helper()
	p, err := w.list(t, w.resolve(t, "", "secrets"), scope, "")
	if err != nil {
		t.Fatal(err)
	}
	return respond(p.List(), "GET").Header().Get("Etag")
}

func TestManagedFieldsKeepTheKeysOfData(t *testing.T) {
	stored := obj("a/one", "", `"data":{"a":"canary"}`)
	w := newCluster(t, map[string][]string{secretsAt: {stored}}, Options{})
	k, scope := w.resolve(t, "", "secrets"), plan.Scope{CutKeys: true}
	p, err := w.List(t.Context(), k, scope, parsed(t, "limit=10&managedFields=true"))
	if err == nil {
		p, err = w.Complete(t.Context(), p, scope, readerFunc(func(string) ([]byte, error) {
			return []byte(strings.Replace(stored, `"metadata":{`, `"metadata":{"managedFields":[],`, 1)), nil
		}))
	}
	if err != nil {
		t.Fatal(err)
	}
	if got := itemOf(p, 0); !strings.HasSuffix(got, `,"data":{"a":""}}`) || strings.Contains(got, "canary") || !strings.Contains(got, "managedFields") {
		t.Error(got)
	}
}
