package resource

import (
	"bufio"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/resource/plan"
	"kapis.dev/ks-apiserver/pkg/web"
)

// A client that writes an item back, as the console does, must not empty what the list left out: so JSON has no keys of it.
func TestListsOfTheClusterHaveNoKeysOfDataAndTablesCountThem(t *testing.T) { // D13
	const table = "application/json;as=Table;v=v1;g=meta.k8s.io"
	w := newCluster(t, map[string][]string{
		"/api/v1/secrets":    {obj("a/two", "", `"data":{"\u0061":"canary","b\"c":"canary"},"type":"Opaque"`), obj("b/void", "", `"data":{},"type":"Opaque"`)},
		"/api/v1/configmaps": {obj("a/three", "", `"data":{"a":"canary"},"binaryData":{"b":"canary","c":"canary"}`), obj("b/none", "", "")},
	}, Options{})
	answer := func(kind string, counted bool, raw, accept string) string {
		t.Helper()
		r := httptest.NewRequest(http.MethodGet, "/?"+raw, nil)
		r.Header.Set("Accept", accept)
		v, err := w.Answer(r, &Listing{Kind: w.resolve(t, "", kind), Query: parsed(t, raw), Form: Items, BeforePage: func(l *Listing) error {
			l.Scope = plan.Scope{KeyCount: counted}
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		rec := httptest.NewRecorder()
		web.Write(rec, r, v, nil)
		body := rec.Body.String()
		if strings.Contains(body, "canary") || strings.Contains(body, `"data"`) || strings.Contains(body, `"binaryData"`) || strings.Contains(body, `b\"c`) {
			t.Errorf("%s?%s as %s: %s", kind, raw, accept, body)
		}
		return body
	}
	for _, counted := range []bool{true, false} {
		for kind, cells := range map[string][2]string{
			"secrets":    {`"cells":["two","Opaque",2,`, `"cells":["void","Opaque",0,`},
			"configmaps": {`"cells":["three",3,`, `"cells":["none",0,`},
		} {
			for _, raw := range []string{"", "fields=.metadata.name,.data,.binaryData", "view=keys&limit=2&objects=2&sortBy=name"} {
				answer(kind, counted, raw, "application/json")
			}
			for _, raw := range []string{"", "includeObject=Object", "includeObject=Object&fields=.metadata.name,.data"} {
				body := answer(kind, counted, raw, table)
				for _, want := range cells {
					if strings.Contains(body, want) != counted {
						t.Errorf("a Table of %s?%s, counted %t: %s", kind, raw, counted, body)
					}
				}
				if strings.Contains(body, `"<hidden>"`) == counted {
					t.Errorf("a Table of %s?%s, counted %t, hides or does not: %s", kind, raw, counted, body)
				}
			}
		}
	}
	for _, filter := range []string{"fieldSelector=data.a!=", "cel=has(object.data)", "q=data"} {
		if got := w.keys(t, w.resolve(t, "", "secrets"), plan.Scope{KeyCount: true}, filter); got != "" {
			t.Errorf("%s finds %s by what is not in the cache", filter, got)
		}
	}
}

// A live page is a list, too.
func TestLivePagesHaveNoKeysOfDataAndCountThemInRows(t *testing.T) { // D13
	w := newCluster(t, map[string][]string{"/api/v1/secrets": {obj("a/two", "", `"data":{"a":"canary","b":"canary"},"type":"Opaque"`)}}, Options{})
	for accept, want := range map[string]string{"": `"type":"Opaque"}`, "application/json;as=Table;v=v1;g=meta.k8s.io": `"cells":["two","Opaque",2,`} {
		h := http.Header{"Accept": {accept}}
		src, err := w.Streams.Open(t.Context(), h, w.resolve(t, "", "secrets"), plan.Scope{KeyCount: true}, parsed(t, "view=live&limit=5"), false, "")
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.Get(serveSource(t, src).URL)
		if err != nil {
			t.Fatal(err)
		}
		got, err := bufio.NewReader(resp.Body).ReadString('\n')
		_ = resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(got, want) || strings.Contains(got, `"data"`) || strings.Contains(got, "canary") {
			t.Errorf("a live page as %q: %s", accept, got)
		}
	}
}
