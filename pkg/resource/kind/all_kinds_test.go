package kind

import (
	"net/url"
	"testing"

	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/resource/plan"
)

// Queries without a filter are planned without the kind's function, so that it must add nothing to them.
func TestPlansOfKindsDependOnFiltersAlone(t *testing.T) {
	q, err := query.Parse(url.Values{"limit": {"10"}, "sortBy": {"name"}})
	if err != nil {
		t.Fatal(err)
	}
	planned := 0
	for gr, k := range All() {
		if k.Plan == nil {
			continue
		}
		planned++
		b := &plan.Builder{Own: k, Query: q}
		if err := k.Plan(b); err != nil || len(b.Conditions) > 0 || b.Never || len(b.Depends) > 0 || len(b.Owners) > 0 {
			t.Errorf("%s: %v, %+v", gr, err, b.Plan)
		}
	}
	if planned == 0 {
		t.Error("no kind has a function of its own")
	}
}
