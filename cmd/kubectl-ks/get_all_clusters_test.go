package main

import (
	"strings"
	"testing"
)

// F34, F35: --clusters lists over all clusters, page by page, and tells which are missing.
func TestClustersAreListedTogether(t *testing.T) {
	a := newAPI(t)
	a.kapis = true
	const cluster = `"columnDefinitions":[{"name":"Cluster","type":"string","priority":0},{"name":"Name","type":"string","priority":0}],"totalItems":2`
	rows := func(cluster, name string) string {
		return `"rows":[{"cells":["` + cluster + `","` + name + `"],"object":{"metadata":{"name":"` + name + `","namespace":"a","uid":"u"}}}]`
	}
	a.answers["/fleet/kapi/v1/widgets"] = `{"kind":"Table",` + cluster + `,"next":"more",` +
		`"clusters":{"missing":[{"name":"dead","reason":"Timeout"}],"refused":["shut"]},` +
		rows("m1", "one") + "}"
	a.second = func() {
		a.answers["/fleet/kapi/v1/widgets"] = `{"kind":"Table",` + cluster + `,"clusters":{"missing":[{"name":"dead","reason":"Timeout"},` +
			`{"name":"late","reason":"Unreachable"}],"refused":["shut","closed"]},` + rows("m2", "two") + "}"
	}
	out := a.must("widgets", "-A", "--clusters", "*")
	if strings.Join(strings.Fields(out), " ") != "NAMESPACE CLUSTER NAME a m1 one a m2 two" {
		t.Errorf("it prints %s", out)
	}
	if told := a.told.String(); !strings.HasPrefix(told, "Cluster dead is missing: Timeout\nCluster late is missing: Unreachable\n"+
		"You may not list these objects in: closed, shut\n") {
		t.Errorf("it tells %q", told)
	}
	if len(a.asked) != 2 || a.asked[0].Query().Get("clusters") != "*" || a.asked[1].Query().Get("next") != "more" {
		t.Errorf("asked was %v", a.asked)
	}
	a.second = nil
	a.answers["/fleet/kapi/v1/namespaces/a/widgets"] = `{"items":[],"totalItems":0}`
	a.must("widgets", "w1", "--clusters", "m1,m2", "-o", "json", "--through", "kapis")
	if q := a.asked[0].Query(); q.Get("names") != "w1" || q.Get("clusters") != "m1,m2" {
		t.Errorf("asked was %v", a.asked)
	}
	a.kapis, a.aggregated = false, true
	if _, err := a.run(t.Context(), "widgets", "--clusters", "*"); err == nil || !strings.Contains(err.Error(), "ks-apiserver") {
		t.Errorf("at kube-apiserver: %v", err)
	}
}
