package admission

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The webhook is registered for these resources: one that is missing here is not checked at all.
func TestResourcesThatAreChecked(t *testing.T) {
	for group, want := range map[string][]string{
		"iam.kubesphere.io": {
			"builtinroles", "clusterrolebindings", "clusterroles", "globalrolebindings", "globalroles", "groupbindings", "groups", "rolebindings",
			"roles", "roletemplates", "users", "workspacerolebindings", "workspaceroles",
		},
		"tenant.kubesphere.io": {"workspaces", "workspacetemplates"},
		"":                     {"serviceaccounts"},
		"apps":                 nil,
	} {
		got := Resources(group)
		if !slices.Equal(got, want) {
			t.Errorf("group %q: got %v, want %v", group, got, want)
		}
		for _, resource := range got {
			if k := kindOf(schema.GroupResource{Group: group, Resource: resource}); k == nil || k.write == nil {
				t.Errorf("%s in group %q has no rule", resource, group)
			}
		}
	}
}
