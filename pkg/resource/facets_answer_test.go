package resource

import (
	"testing"

	"kapis.dev/ks-apiserver/pkg/resource/plan"
)

func TestFacetsOfNoMatchesAreThere(t *testing.T) {
	w := newWorld(t, map[string][]string{podsPath: manyPods(2)}, Options{})
	k := w.resolve(t, "", "pods")
	for _, raw := range []string{"name=absent", "label=v%3Dabsent", "serviceName=absent"} {
		p, err := w.list(t, k, plan.Scope{Namespace: "a"}, raw+"&facets=.status.phase")
		if err != nil || p.Total != 0 || p.Facets != `,"facets":{".status.phase":{}}` {
			t.Errorf("%s: %+v, %v", raw, p, err)
		}
	}
}
