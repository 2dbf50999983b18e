// Package policytest evaluates the admission policies of config in tests, as kube-apiserver does.
package policytest

import (
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/yaml"

	manifests "kapis.dev/ks-apiserver/config"
)

// Policy is a ValidatingAdmissionPolicy.
type Policy struct {
	t    *testing.T
	env  *cel.Env
	spec admissionv1.ValidatingAdmissionPolicySpec
}

// Read reads a policy from a file below config. Its expressions have object, oldObject, request, authorizer and variables, and what
// options declare besides.
func Read(t *testing.T, file, name string, options ...cel.EnvOption) *Policy {
	t.Helper()
	raw, err := manifests.Files.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	options = append(options, cel.OptionalTypes())
	for _, variable := range []string{"object", "oldObject", "request", "authorizer", "variables"} {
		options = append(options, cel.Variable(variable, cel.DynType))
	}
	env, err := cel.NewEnv(options...)
	if err != nil {
		t.Fatal(err)
	}
	for document := range strings.SplitSeq(string(raw), "\n---\n") {
		p := &admissionv1.ValidatingAdmissionPolicy{}
		if err := yaml.Unmarshal([]byte(document), p); err != nil {
			t.Fatal(err)
		}
		if p.Kind == "ValidatingAdmissionPolicy" && p.Name == name {
			return &Policy{t, env, p.Spec}
		}
	}
	t.Fatalf("config/%s has no policy %s", file, name)
	return nil
}

// Matches reports whether a request meets all match conditions.
func (p *Policy) Matches(in map[string]any) bool {
	p.t.Helper()
	matches := true
	for _, c := range p.spec.MatchConditions {
		matches = matches && p.evaluate(c.Expression, in) == true
	}
	return matches
}

// Allows reports whether a request passes all validations.
func (p *Policy) Allows(in map[string]any) bool {
	p.t.Helper()
	variables := map[string]any{}
	in["variables"] = variables
	for _, v := range p.spec.Variables {
		variables[v.Name] = p.evaluate(v.Expression, in)
	}
	allows := true
	for _, v := range p.spec.Validations {
		allows = allows && p.evaluate(v.Expression, in) == true
	}
	return allows
}

func (p *Policy) evaluate(expression string, in map[string]any) any {
	p.t.Helper()
	ast, issues := p.env.Compile(expression)
	if issues.Err() != nil {
		p.t.Fatal(issues.Err())
	}
	program, err := p.env.Program(ast)
	if err != nil {
		p.t.Fatal(err)
	}
	got, _, err := program.Eval(in)
	if err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
	return got.Value()
}
