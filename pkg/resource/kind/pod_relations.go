package kind

import (
	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/resource/plan"
	"kapis.dev/ks-apiserver/pkg/store/index"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// paramServiceName selects the pods that a Service selects.
const paramServiceName = "serviceName"

var (
	replicaSets = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "replicasets"}
	services    = schema.GroupVersionResource{Version: "v1", Resource: "services"}
)

// planPods follows owners through ReplicaSets, so that a Deployment owns its pods, and selects by
// the selector of a Service.
func planPods(b *plan.Builder) error {
	if owner := b.Query.Owner; owner.Set && owner.Value != "" {
		sets, err := b.Snapshot(replicaSets)
		if err != nil {
			return err
		}
		sets.ByCreated(index.OwnedBy(owner.Value)).Walk(0, false, func(ref *index.Ref) bool {
			b.Owners = append(b.Owners, sets.Record(ref).UID)
			return true
		})
	}
	service, ok := b.Query.Param(paramServiceName)
	if !ok {
		return nil
	}
	all, err := b.Snapshot(services)
	if err != nil {
		return err
	}
	servedBy(b, all, service)
	return nil
}

// maxServices is how many Services of one name are looked up by index.
const maxServices = 64

// servedBy restricts the plan to the pods that a Service of that name selects, each in its own namespace.
func servedBy(b *plan.Builder, all *index.Snapshot, name string) {
	selectors := map[string][]query.Requirement{} // namespace -> what its Service selects
	var terms []index.Term
	all.Named(b.Namespace, name, func(ref *index.Ref) {
		text := rawjson.Get(all.Record(ref).JSON.String(), "spec", "selector")
		var selector []query.Requirement
		index.Pairs(text).All(func(key, value string) bool {
			selector = append(selector, query.Requirement{Key: key, Op: query.In, Values: []string{value}})
			return true
		})
		if len(selector) == 0 {
			return // such a Service selects nothing
		}
		selectors[ref.Namespace] = selector
		terms = append(terms, index.InNamespace(ref.Namespace))
		b.Vary(ref.Namespace)
		b.Vary(text)
	})
	switch {
	case len(selectors) == 0:
		b.Never = true
		return
	case b.Namespace != "":
		for _, req := range selectors[b.Namespace] {
			b.Label(req)
		}
		return
	case len(terms) > maxServices:
		terms = nil
	}
	b.Narrowed(func(r *index.Record) bool {
		selector, ok := selectors[r.Namespace]
		for i := range selector {
			ok = ok && selector[i].Match(r.Labels.Get(selector[i].Key))
		}
		return ok
	}, terms...)
}
