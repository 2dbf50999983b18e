package v1beta1_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types/ref"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/yaml"

	tenant "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
)

// births returns the policy of new namespaces, as it is installed.
func births(t *testing.T) *admissionv1.ValidatingAdmissionPolicy {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "config", "install", "admission.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		p := &admissionv1.ValidatingAdmissionPolicy{}
		if err := yaml.Unmarshal([]byte(document), p); err != nil {
			t.Fatal(err)
		}
		if p.Kind == "ValidatingAdmissionPolicy" && p.Name == "birth.namespaces.kapis.dev" {
			return p
		}
	}
	t.Fatal("there is no such policy")
	return nil
}

// The route and kube-apiserver keep the same names from members of workspaces: where the platform installs, and where names of Services are
// looked for first.
func TestTheSameNamesAreReservedEverywhere(t *testing.T) {
	env, err := cel.NewEnv(cel.OptionalTypes(), cel.Variable("object", cel.DynType), cel.Variable("request", cel.DynType),
		cel.Variable("variables", cel.DynType), cel.Variable("authorizer", cel.DynType),
		step("group"), step("resource"), step("check"), answer("allowed"))
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
	policy := births(t)
	for name, reserved := range map[string]bool{
		"default": true, "kubesphere": true, "kube-x": true, "kubesphere-x": true, "extension-shop": true, "svc": true,
		"shop": false, "kubes": false, "extension": false, "extensions-shop": false, "svc-shop": false, "defaults": false,
	} {
		if tenant.IsReservedNamespace(name) != reserved {
			t.Errorf("%s: %v", name, !reserved)
		}
		for _, all := range []bool{false, true} { // whether the caller may update all namespaces
			in := map[string]any{
				"object":  map[string]any{"metadata": map[string]any{"name": name, "labels": map[string]any{"kubesphere.io/workspace": "a"}}},
				"request": map[string]any{"userInfo": map[string]any{"groups": []string{"kapis:workspace:a:self-provisioner"}}}, "authorizer": all,
			}
			for _, c := range policy.Spec.MatchConditions {
				if evaluate(c.Expression, in) != true {
					t.Errorf("%s: %s is not met", name, c.Name)
				}
			}
			variables := map[string]any{}
			for _, v := range policy.Spec.Variables {
				variables[v.Name] = evaluate(v.Expression, in)
			}
			in["variables"] = variables
			allowed := true
			for _, v := range policy.Spec.Validations {
				allowed = allowed && evaluate(v.Expression, in) == true
			}
			if allowed != (all || !reserved) {
				t.Errorf("%s, where the caller may update all namespaces: %v: allowed %v", name, all, allowed)
			}
		}
	}
}

// step declares a step of kube-apiserver's authorizer, which answers all questions with its own value here.
func step(name string) cel.EnvOption {
	return cel.Function(name, cel.MemberOverload("authorizer_"+name, []*cel.Type{cel.DynType, cel.StringType}, cel.DynType,
		cel.BinaryBinding(func(of, _ ref.Val) ref.Val { return of })))
}

// answer declares the last one.
func answer(name string) cel.EnvOption {
	return cel.Function(name, cel.MemberOverload("authorizer_"+name, []*cel.Type{cel.DynType}, cel.DynType,
		cel.UnaryBinding(func(of ref.Val) ref.Val { return of })))
}
