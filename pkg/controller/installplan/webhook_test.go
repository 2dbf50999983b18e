package installplan_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	webhook "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/controller/installplan"
	"kapis.dev/ks-apiserver/pkg/extension/permission"
)

// written returns what a write is answered, and the object after it. old is nil for a new one.
func written(t *testing.T, h *installplan.Webhook, by string, old, plan *v1alpha1.InstallPlan) (webhook.Response, *v1alpha1.InstallPlan) {
	t.Helper()
	raw := func(p *v1alpha1.InstallPlan) []byte {
		out, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	req := webhook.Request{AdmissionRequest: admissionv1.AdmissionRequest{Operation: admissionv1.Create, Name: plan.Name,
		UserInfo: authenticationv1.UserInfo{Username: by}, Object: runtime.RawExtension{Raw: raw(plan)}}}
	if old != nil {
		req.Operation, req.OldObject.Raw = admissionv1.Update, raw(old)
	}
	response := h.Handle(t.Context(), req)
	if !response.Allowed {
		return response, nil
	}
	after := req.Object.Raw
	if len(response.Patches) > 0 {
		text, err := json.Marshal(response.Patches)
		if err != nil {
			t.Fatal(err)
		}
		patch, err := jsonpatch.DecodePatch(text)
		if err != nil {
			t.Fatal(err)
		}
		if after, err = patch.Apply(after); err != nil {
			t.Fatal(err)
		}
	}
	out := &v1alpha1.InstallPlan{}
	if err := json.Unmarshal(after, out); err != nil {
		t.Fatal(err)
	}
	return response, out
}

func TestTheApprovalIsOfWhoMayGiveIt(t *testing.T) { // X18
	w := newWorld(t)
	w.version("shop", "1.0.0", permissions, nil)
	w.version("shop", "2.0.0", permissions+"- {apiGroups: [''], resources: [secrets], verbs: [get]}\n", nil)
	h := &installplan.Webhook{Client: w.client, Charts: w.charts,
		Missing: func(_ context.Context, u authenticationv1.UserInfo, plan string, r *permission.Request) ([]rbacv1.PolicyRule, error) {
			if plan != "shop" || r.Namespace != "extension-shop" {
				t.Errorf("asked for %q in %q", plan, r.Namespace)
			}
			switch {
			case u.Username == "broken":
				return nil, errors.New("kube-apiserver is away")
			case u.Username == "root", u.Username == "ann" && len(r.ClusterRules) == 2:
				return nil, nil
			}
			return []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"nodes"}}}, nil
		}}
	plan := func(version string, annotations map[string]string) *v1alpha1.InstallPlan {
		return &v1alpha1.InstallPlan{ObjectMeta: metav1.ObjectMeta{Name: "shop", Annotations: maps.Clone(annotations)},
			Spec: v1alpha1.InstallPlanSpec{Extension: v1alpha1.ExtensionRef{Name: "shop", Version: version}}}
	}
	one, two := w.stamp(plan("", nil), "1.0.0"), w.stamp(plan("", nil), "2.0.0")
	approved := func(stamp, by string) map[string]string {
		return map[string]string{v1alpha1.AnnotationApproved: stamp, v1alpha1.AnnotationApprovedBy: by}
	}
	status := plan("1.0.0", approved(one, "ann"))
	status.Status.State = v1alpha1.StateInstalled
	for _, c := range []struct {
		claim     string
		by        string
		old, plan *v1alpha1.InstallPlan
		stamp, is string // of the object after it, and whose
		warns     bool
	}{
		{"a new plan by who may", "ann", nil, plan("1.0.0", nil), one, "ann", false},
		{"a new plan by who may not", "eve", nil, plan("1.0.0", nil), "", "", true},
		{"a forged approval", "eve", nil, plan("1.0.0", approved(one, "ann")), "", "", true},
		{"a forged approval of an old plan", "eve", plan("1.0.0", nil), plan("1.0.0", approved(one, "ann")), "", "", false},
		{"another's approval is kept", "eve", plan("1.0.0", approved(one, "ann")), plan("1.0.0", nil), one, "ann", false},
		{"values by who may not", "eve", plan("1.0.0", approved(one, "ann")), func() *v1alpha1.InstallPlan {
			p := plan("1.0.0", approved(one, "ann"))
			p.Spec.Config = "replicas: 2"
			return p
		}(), one, "ann", true},
		{"a version that asks for more, by who may less", "ann", plan("1.0.0", approved(one, "ann")), plan("2.0.0", approved(one, "ann")), one, "ann", true},
		{"a version that asks for more, by who may", "root", plan("1.0.0", approved(one, "ann")), plan("2.0.0", approved(one, "ann")), two, "root", false},
		{"a status by who may", "root", plan("1.0.0", nil), func() *v1alpha1.InstallPlan { p := *status; p.Annotations = nil; return &p }(), "", "", false},
		{"an approval that is asked for", "root", plan("1.0.0", nil), plan("1.0.0", map[string]string{v1alpha1.AnnotationApprove: "yes"}), one, "root", false},
		{"an approval that is asked for by who may not", "eve", plan("1.0.0", nil), plan("1.0.0", map[string]string{v1alpha1.AnnotationApprove: "yes"}), "", "", true},
		{"a version whose chart is away", "root", nil, plan("3.0.0", nil), "", "", true},
	} {
		t.Run(c.claim, func(t *testing.T) {
			response, after := written(t, h, c.by, c.old, c.plan)
			if after == nil {
				t.Fatalf("refused: %v", response.Result)
			}
			if got, by := after.Annotations[v1alpha1.AnnotationApproved], after.Annotations[v1alpha1.AnnotationApprovedBy]; got != c.stamp || by != c.is {
				t.Errorf("approved %q by %q, want %q by %q", got, by, c.stamp, c.is)
			}
			if warns := len(response.Warnings) > 0; warns != c.warns {
				t.Errorf("warnings %q", response.Warnings)
			}
			if _, there := after.Annotations[v1alpha1.AnnotationApprove]; there {
				t.Error("the question is stored")
			}
		})
	}
	if response, _ := written(t, h, "broken", nil, plan("1.0.0", nil)); response.Allowed {
		t.Error("it is not known who may, and it is written")
	}
}

func TestAPlanThatCanNotBeDoneIsRefused(t *testing.T) { // X20, X22
	h := &installplan.Webhook{Client: newWorld(t).client, Charts: charts{}}
	good := func() *v1alpha1.InstallPlan {
		return &v1alpha1.InstallPlan{ObjectMeta: metav1.ObjectMeta{Name: "shop"},
			Spec: v1alpha1.InstallPlanSpec{Extension: v1alpha1.ExtensionRef{Name: "shop", Version: "1.0.0"}}}
	}
	for field, change := range map[string]func(*v1alpha1.InstallPlan){
		"spec.extension.name":    func(p *v1alpha1.InstallPlan) { p.Spec.Extension.Name = "other" },
		"the name":               func(p *v1alpha1.InstallPlan) { p.Name = "a.b"; p.Spec.Extension.Name = "a.b" },
		"spec.extension.version": func(p *v1alpha1.InstallPlan) { p.Spec.Extension.Version = "../1" },
		"spec.config":            func(p *v1alpha1.InstallPlan) { p.Spec.Config = "a: [" },
		"at most":                func(p *v1alpha1.InstallPlan) { p.Spec.Config = "a: " + strings.Repeat("x", 1<<20) },
		"overrides[member]": func(p *v1alpha1.InstallPlan) {
			p.Spec.ClusterScheduling = &v1alpha1.ClusterScheduling{Overrides: map[string]string{"member": "- 1"}}
		},
	} {
		p := good()
		change(p)
		response, _ := written(t, h, "ann", nil, p)
		if response.Allowed || response.Result.Code != http.StatusUnprocessableEntity || !strings.Contains(response.Result.Message, field) {
			t.Errorf("%s: %v %v", field, response.Allowed, response.Result)
		}
		// One that is there can be changed in everything else, and be deleted.
		changed := p.DeepCopy()
		changed.Finalizers = []string{"example.com/one"}
		if response, _ := written(t, h, "ann", p, changed); !response.Allowed {
			t.Errorf("%s: its finalizers can't be changed: %v", field, response.Result)
		}
	}
}
