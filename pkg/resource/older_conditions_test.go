package resource

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/kapis/resources/conditions"
	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/resource/plan"
)

// The conditions of older lists select what they say, in the order that they say.
func TestConditionsOfOlderListsSelectObjects(t *testing.T) { // O28
	const v1 = "/api/v1/"
	owned := func(kind, name string) string {
		return `,"ownerReferences":[{"kind":"` + kind + `","name":"` + name + `","uid":"u-` + name + `"}]`
	}
	w := newCluster(t, map[string][]string{
		v1 + "pods": {
			obj("a/web-7f-1", at(3)+","+labelled("app", "web", "pod-template-hash", "7f")+owned("ReplicaSet", "web-7f"),
				`"spec":{"nodeName":"n1"},"status":{"phase":"Running","startTime":"2026-01-03T00:00:00Z"}`),
			obj("a/web-x-7f-1", at(2)+","+labelled("app", "web-x", "pod-template-hash", "7f")+owned("ReplicaSet", "web-x-7f"),
				`"spec":{"nodeName":"n2"},"status":{"startTime":"2026-01-09T00:00:00Z"}`),
			obj("a/db-0", at(1)+`,"annotations":{"kubesphere.io/alias-name":"The Store"}`+owned("StatefulSet", "db"), `"spec":{"nodeName":"n1"}`),
			obj("b/web", at(4)+","+labelled("app.kubernetes.io/name", "web"), ""),
		},
		"/apis/apps/v1/replicasets": {},
		"/apis/batch/v1/jobs":       {obj("a/once", at(1), ""), obj("a/nightly-1", at(2)+owned("CronJob", "nightly"), "")},
		"/apis/batch/v1/cronjobs": {
			obj("a/late", at(1), `"status":{"lastScheduleTime":"2026-01-09T00:00:00Z"}`),
			obj("a/early", at(2), `"status":{"lastScheduleTime":"2026-01-01T00:00:00Z"}`),
		},
		v1 + "nodes": {
			obj("one", at(1)+","+labelled("node-role.kubernetes.io/control-plane", ""), ""),
			obj("two", at(2), ""), obj("three", at(3)+","+labelled("node-role.kubernetes.io/worker", ""), ""),
		},
		"/apis/rbac.authorization.k8s.io/v1/roles": {
			obj("a/made", at(1)+`,"annotations":{"kubesphere.io/creator":"ann"}`, ""), obj("a/found", at(2), ""),
		},
	}, Options{})
	for _, c := range []struct{ kind, query, want string }{
		{"pods", "", "db-0 web-x-7f-1 web-7f-1 web"},
		{"pods", "reverse=true&limit=2&page=2", "web-x-7f-1 db-0"},
		{"pods", "paging=limit%3D3%2Cpage%3D2", "web"},
		{"pods", "limit=0", ""},
		{"pods", "orderBy=name", "db-0 web web-7f-1 web-x-7f-1"},
		{"pods", "orderBy=startTime&conditions=ownerKind=ReplicaSet,ownerName=web-7f", "web-7f-1"},
		{"pods", "conditions=ownerKind=Deployment,ownerName=web", "web-7f-1"},
		{"pods", "conditions=ownerKind=StatefulSet,ownerName=db", "db-0"},
		{"pods", "conditions=ownerKind=StatefulSet,ownerName=web-7f", ""},
		{"pods", "conditions=name~store", "db-0"},
		{"pods", "conditions=name=web|db-0", "db-0 web"},
		{"pods", "conditions=nodeName=n1", "db-0 web-7f-1"},
		{"pods", "conditions=app=web", "web-7f-1"},
		{"pods", "conditions=app~eb", "web-x-7f-1 web-7f-1 web"},
		{"pods", "conditions=label~eb-", "web-x-7f-1"},
		{"pods", "conditions=annotation~Store", "db-0"},
		{"pods", "conditions=pod-template-hash~7,name~x", "web-x-7f-1"},
		{"pods", "conditions=keyword=web-x", "web-x-7f-1"},
		{"pods", "conditions=owner=u-db", "db-0"},
		{"pods", `conditions=label~"%29%20||%20true%20||%20%28"`, ""},
		{"jobs", "conditions=includeCronJob=false", "once"},
		{"jobs", "conditions=includeCronJob=true", "once nightly-1"},
		{"cronjobs", "orderBy=lastScheduleTime", "early late"},
		{"nodes", "conditions=role=master", "one"},
		{"nodes", "conditions=role=worker", "two three"},
		{"roles", "conditions=userfacing=true", "made"},
	} {
		values, err := url.ParseQuery(c.query)
		if err != nil {
			t.Fatal(err)
		}
		q, err := conditions.Parse(c.kind, "", values)
		if err != nil {
			t.Fatalf("%s: %v", c.query, err)
		}
		kind, err := w.Catalog().ByName(t.Context(), c.kind)
		if err != nil {
			t.Fatal(err)
		}
		page, err := w.List(t.Context(), kind, plan.Scope{}, q)
		if err != nil {
			t.Errorf("%s: %v", c.query, err)
			continue
		}
		var got []string
		for i := range page.Len() {
			got = append(got, rawjson.GetText(itemOf(page, i), "metadata", "name"))
		}
		if !slices.Equal(got, strings.Fields(c.want)) {
			t.Errorf("%s %s: %v, want %s", c.kind, c.query, got, c.want)
		}
	}
}
