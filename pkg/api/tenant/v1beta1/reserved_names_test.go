package v1beta1_test

import (
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types/ref"

	"kapis.dev/ks-apiserver/config/policytest"
	tenant "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
)

// The route and kube-apiserver keep the same names from members of workspaces: where the platform installs, and where names of Services are
// looked for first.
func TestTheSameNamesAreReservedEverywhere(t *testing.T) {
	policy := policytest.Read(t, "install/admission.yaml", "birth.namespaces.kapis.dev", step("group"), step("resource"), step("check"), answer("allowed"))
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
			if !policy.Matches(in) {
				t.Errorf("%s is not looked at", name)
			}
			if allowed := policy.Allows(in); allowed != (all || !reserved) {
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
