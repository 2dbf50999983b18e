package deployment_test

import (
	"testing"

	"kapis.dev/ks-apiserver/config/policytest"
)

// F17, F26: nobody but the hub says whom it keeps here, or which of its users somebody is; an object that a hub kept before keeps what it says.
func TestWhatSaysWhoseAnObjectIsIsTheHubs(t *testing.T) {
	user := func(labels, annotations map[string]any) any {
		metadata := map[string]any{"name": "root"}
		if labels != nil {
			metadata["labels"] = labels
		}
		if annotations != nil {
			metadata["annotations"] = annotations
		}
		return map[string]any{"metadata": metadata}
	}
	kept, uid, other := map[string]any{"kapis.dev/fleet": "u"}, map[string]any{"kapis.dev/fleet-uid": "h"}, map[string]any{"kapis.dev/fleet-uid": "x"}
	p := policytest.Read(t, "fleet/member/policy.yaml", "objects.fleet.kapis.dev")
	for name, c := range map[string]struct {
		before, after any
		want          bool
	}{
		"Created":           {nil, user(nil, nil), true},
		"CreatedWithUID":    {nil, user(nil, uid), false},
		"CreatedWithLabel":  {nil, user(kept, nil), false},
		"Updated":           {user(nil, nil), user(nil, map[string]any{"a": "b"}), true},
		"UIDWritten":        {user(nil, nil), user(nil, uid), false},
		"UIDChanged":        {user(nil, uid), user(nil, other), false},
		"KeptBefore":        {user(nil, uid), user(nil, uid), true},
		"UIDTakenOff":       {user(nil, uid), user(nil, nil), true},
		"OfTheHub":          {user(kept, uid), user(kept, uid), false},
		"LabelTakenOff":     {user(kept, uid), user(nil, uid), false},
		"Deleted":           {user(nil, uid), nil, true},
		"OfTheHubIsDeleted": {user(kept, uid), nil, false},
	} {
		in := map[string]any{"object": c.after, "oldObject": c.before, "request": map[string]any{"operation": "UPDATE"}}
		if is := p.Allows(in); is != c.want {
			t.Errorf("%s: it is let through: %v", name, is)
		}
	}
}
