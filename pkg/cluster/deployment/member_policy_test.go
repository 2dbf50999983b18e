package deployment_test

import (
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/yaml"

	manifests "kapis.dev/ks-apiserver/config"
)

// policyOf returns a policy that members have.
func policyOf(t *testing.T, name string) *admissionv1.ValidatingAdmissionPolicy {
	t.Helper()
	raw, err := manifests.Files.ReadFile("fleet/member/policy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for doc := range strings.SplitSeq(string(raw), "\n---\n") {
		p := &admissionv1.ValidatingAdmissionPolicy{}
		if err := yaml.Unmarshal([]byte(doc), p); err != nil {
			t.Fatal(err)
		}
		if p.Kind == "ValidatingAdmissionPolicy" && p.Name == name {
			return p
		}
	}
	t.Fatalf("there is no policy %s", name)
	return nil
}

// F17, F26: nobody but the hub says whom it keeps here, or which of its users somebody is; an object that a hub kept before keeps what it says.
func TestWhatSaysWhoseAnObjectIsIsTheHubs(t *testing.T) {
	env, err := cel.NewEnv(cel.OptionalTypes(), cel.Variable("object", cel.DynType), cel.Variable("oldObject", cel.DynType),
		cel.Variable("request", cel.DynType), cel.Variable("variables", cel.DynType))
	if err != nil {
		t.Fatal(err)
	}
	evaluate := func(expression string, in map[string]any) any {
		t.Helper()
		ast, iss := env.Compile(expression)
		if iss.Err() != nil {
			t.Fatal(iss.Err())
		}
		program, err := env.Program(ast)
		if err != nil {
			t.Fatal(err)
		}
		got, _, err := program.Eval(in)
		if err != nil {
			t.Fatalf("%s: %v", expression, err)
		}
		return got.Value()
	}
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
	p := policyOf(t, "objects.fleet.kapis.dev")
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
		variables := map[string]any{}
		for _, v := range p.Spec.Variables {
			in["variables"] = variables
			variables[v.Name] = evaluate(v.Expression, in)
		}
		in["variables"] = variables
		is := true
		for _, v := range p.Spec.Validations {
			is = is && evaluate(v.Expression, in) == true
		}
		if is != c.want {
			t.Errorf("%s: it is let through: %v", name, is)
		}
	}
}
