package installplan_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/auth/rbac/validation"

	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
	"kapis.dev/ks-apiserver/pkg/helm"
)

func own(namespace string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: map[string]string{
		v1alpha1.LabelExtension: "shop", tenantv1beta1.LabelWorkspace: tenantv1beta1.SystemWorkspace}}}
}

// X21: what templates look for is read by the installer within what was approved, while the operation runs.
func TestX21TemplatesReadWithinWhatWasApproved(t *testing.T) {
	for claim, fails := range map[string]error{"a template that does without": nil,
		"a template that fails without": &helm.Error{Reason: helm.ReasonRender, Message: "nil pointer"}} {
		t.Run(claim, func(t *testing.T) {
			w := newWorld(t, own("extension-shop"))
			w.lookupFails = fails
			w.version("shop", "1.0.0", permissions, nil)
			w.objects = append(w.objects, helm.Object{APIVersion: "v1", Kind: "ConfigMap", Name: "second"})
			w.lookups = [][]helm.Lookup{{{Resource: "secrets", Namespace: "extension-shop", Name: "password"},
				{Resource: "services", Namespace: "extension-shop"}, {Resource: "nodes", Name: "one"}}}
			w.plan("shop", "1.0.0", nil)
			w.reconcile("shop")
			if len(w.applied) != 1 || w.renderings != 2 || len(w.leftRights()) > 0 {
				t.Fatalf("%d operations after %d renderings, %q are left: %+v", len(w.applied), w.renderings, w.leftRights(), w.get("shop").Status)
			}
			for _, c := range []struct {
				in, verb, resource, name string
				want                     bool
			}{
				{"extension-shop", "get", "secrets", "password", true}, {"extension-shop", "get", "secrets", "other", false},
				{"extension-shop", "update", "secrets", "password", false}, {"extension-shop", "list", "services", "", true},
				{"", "get", "nodes", "one", true}, {"extension-shop", "update", "configmaps", "second", true},
			} {
				r := rbacv1.PolicyRule{Verbs: []string{c.verb}, APIGroups: []string{""}, Resources: []string{c.resource}}
				if c.name != "" {
					r.ResourceNames = []string{c.name}
				}
				if got, _ := validation.Covers(w.rights[c.in], []rbacv1.PolicyRule{r}); got != c.want {
					t.Errorf("%v in %q: got %v", r, c.in, got)
				}
			}
		})
	}
}

// X21: nothing is read beyond that, nor for a chart that nobody has approved, and a chart that never ends looking is given up.
func TestX21TemplatesReadNothingElse(t *testing.T) {
	w := newWorld(t, own("extension-shop"))
	w.version("shop", "1.0.0", permissions, nil)
	w.lookups = [][]helm.Lookup{{{Resource: "secrets", Namespace: "kube-system", Name: "keys"}}}
	w.plan("shop", "1.0.0", func(p *v1alpha1.InstallPlan) {
		p.Annotations[v1alpha1.AnnotationApproved], p.Annotations[v1alpha1.AnnotationPreview] = "nobody's", "1"
	})
	w.reconcile("shop")
	if w.renderings != 1 || len(w.asked) > 0 {
		t.Errorf("not approved: %d renderings, rights to %v", w.renderings, w.asked)
	}
	w.renderings = 0
	w.change("shop", func(p *v1alpha1.InstallPlan) { delete(p.Annotations, v1alpha1.AnnotationPreview) })
	w.reconcile("shop")
	if got := condition(w.get("shop"), "Installed"); got != "False BeyondPermissions" || len(w.applied)+len(w.asked) > 0 {
		t.Errorf("%q after %d operations, with rights to %v", got, len(w.applied), w.asked)
	}
	w.lookups = nil
	for _, name := range strings.Split("abcdefghij", "") {
		w.lookups = append(w.lookups, []helm.Lookup{{Resource: "secrets", Namespace: "extension-shop", Name: name}})
	}
	w.renderings = 0
	w.change("shop", func(p *v1alpha1.InstallPlan) { p.Annotations[v1alpha1.AnnotationRetry] = "1" })
	w.reconcile("shop")
	if got := condition(w.get("shop"), "Installed"); got != "False RenderFailed" || len(w.applied) > 0 || w.renderings > 4 || len(w.leftRights()) > 0 {
		t.Errorf("%q after %d renderings and %d operations", got, w.renderings, len(w.applied))
	}
}
