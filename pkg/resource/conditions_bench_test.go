package resource

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/resource/lru"
	"kapis.dev/ks-apiserver/pkg/resource/page"
	"kapis.dev/ks-apiserver/pkg/resource/plan"
)

// BenchmarkFilters is the first evaluation of filters that test objects, for 10 000 pods in 100 namespaces of 10 workspaces.
func BenchmarkFilters(b *testing.B) {
	objects := map[string][]string{}
	pad := strings.Repeat("x", 2000)
	for i := range 100 {
		objects["/api/v1/namespaces"] = append(
			objects["/api/v1/namespaces"],
			obj(fmt.Sprintf("ns-%d", i), labelled(plan.WorkspaceLabel, fmt.Sprintf("w%d", i%10)), ""),
		)
	}
	for i := range 10_000 {
		objects["/api/v1/pods"] = append(objects["/api/v1/pods"], obj(fmt.Sprintf("ns-%d/web-%d", i%100, i),
			labelled("app", fmt.Sprintf("web-%d", i), "tier", fmt.Sprintf("t%d", i%4))+`,"annotations":{"note":"some text with \"escapes\" in it","creator":"admin"}`,
			fmt.Sprintf(`"spec":{"nodeName":"node-%d","pad":%q,"containers":[{"name":"c","image":"nginx:1.%d"}]},"status":{"phase":"Running"}`, i%50, pad, i%9)))
	}
	w := newCluster(b, objects, Options{})
	kind := w.resolve(b, "", "pods")
	part := &authz.PartialList{Key: "k"}
	for i := range 50 {
		part.Namespaces = append(part.Namespaces, fmt.Sprintf("ns-%02d", i))
	}
	for _, c := range []struct {
		name, raw string
		scope     plan.Scope
		kept      bool
	}{
		{name: "q", raw: "q=web-77"}, {name: "qInAnnotations", raw: "q=absent"},
		{name: "celField", raw: "cel=" + url.QueryEscape("object.spec.nodeName == 'node-7'")},
		{name: "celStatus", raw: "cel=" + url.QueryEscape("object.status.phase == 'Pending'")},
		{name: "celExists", raw: "cel=" + url.QueryEscape("object.spec.containers.exists(c, c.image == 'nginx:1.3')")},
		{name: "fieldByIndex", raw: "fieldSelector=spec.nodeName=node-7&name=web"}, {name: "fieldByScan", raw: "fieldSelector=spec.pad!=x"},
		{name: "workspace", scope: plan.Scope{Workspace: "w1"}}, {name: "workspaceKept", scope: plan.Scope{Workspace: "w1"}, kept: true},
		{name: "part", scope: plan.Scope{PartialList: part}}, {name: "partKept", scope: plan.Scope{PartialList: part}, kept: true},
	} {
		b.Run(c.name, func(b *testing.B) {
			q := parsed(b, "limit=10&"+c.raw)
			b.ReportAllocs()
			for b.Loop() {
				if !c.kept {
					w.results, w.pages = lru.New[*result](resultBounds), page.NewCache(DefaultMaxInFlight, DefaultMaxBytes)
				}
				if _, err := w.List(context.Background(), kind, c.scope, q); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
