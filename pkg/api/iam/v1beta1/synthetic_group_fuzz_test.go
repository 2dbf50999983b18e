package v1beta1_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
)

// The names of groups and users that are made by joining are told apart, for all names that kube-apiserver takes: roles are custom resources,
// and namespaces and workspaces are labels.
func FuzzSyntheticNamesAreToldApart(f *testing.F) {
	f.Add("a", "b.c", "a.b", "c", uint8(1))
	f.Add("workspace", "x", "cluster", "x", uint8(2))
	f.Add("conditional", "namespace", "x", "conditional", uint8(7))
	scopes := []string{iamv1beta1.ScopeGlobal, iamv1beta1.ScopeWorkspace, iamv1beta1.ScopeCluster, iamv1beta1.ScopeNamespace}
	type role struct{ kind, scope, place, name string }
	f.Fuzz(func(t *testing.T, place, name, otherPlace, otherName string, pick uint8) {
		for _, s := range []string{place, name, otherPlace, otherName} {
			if len(validation.IsDNS1123Subdomain(s)) > 0 {
				return
			}
		}
		said := map[string]role{}
		for _, scope := range []string{scopes[pick%4], scopes[pick/4%4]} {
			for _, at := range [][2]string{{place, name}, {otherPlace, otherName}} {
				workspace, namespace := at[0], at[0]
				if scope != iamv1beta1.ScopeWorkspace {
					workspace = ""
				}
				if scope != iamv1beta1.ScopeNamespace {
					namespace = ""
				}
				for text, r := range map[string]role{
					iamv1beta1.SyntheticGroup(scope, at[0], at[1]):   {"role", scope, workspace, at[1]},
					iamv1beta1.ConditionalGroup(scope, at[0], at[1]): {"conditional", scope, namespace, at[1]},
					iamv1beta1.ServiceAccountUser(at[0], at[1]):      {"account", "", at[0], at[1]},
				} {
					if before, ok := said[text]; ok && before != r {
						t.Errorf("%q is %v and %v", text, before, r)
					}
					said[text] = r
				}
			}
		}
	})
}
