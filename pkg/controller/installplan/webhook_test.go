package installplan_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	webhook "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/controller/installapproval"
	"kapis.dev/ks-apiserver/pkg/extension/permission"
)

// written returns what a write is answered, and the object after it. old is nil for a new one.
func written(t *testing.T, h *installapproval.Webhook, by string, old, plan *v1alpha1.InstallPlan) (webhook.Response, *v1alpha1.InstallPlan) {
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
	return response, patchedBy(t, &response, req.Object.Raw)
}

// answered returns the object after a write that is allowed.
func answered(t *testing.T, h *installapproval.Webhook, req webhook.Request) *v1alpha1.InstallPlan {
	t.Helper()
	response := h.Handle(t.Context(), req)
	if !response.Allowed {
		t.Fatalf("refused: %v", response.Result)
	}
	return patchedBy(t, &response, req.Object.Raw)
}

// patchedBy returns an object after the changes of an answer.
func patchedBy(t *testing.T, response *webhook.Response, after []byte) *v1alpha1.InstallPlan {
	t.Helper()
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
	return out
}

// X6, X18: hosts that backends may be at are approved with the rest: nobody else adds one, and a stamp of them is the webhook's alone.
func TestX6HostsOfBackendsAreApproved(t *testing.T) {
	w := newWorld(t)
	w.version("shop", "1.0.0", permissions, nil)
	h := &installapproval.Webhook{Client: w.client, Live: w.client, Charts: w.charts,
		Missing: func(_ context.Context, u authenticationv1.UserInfo, _ string, _ *permission.Request) ([]rbacv1.PolicyRule, error) {
			if u.Username == "ann" {
				return nil, nil
			}
			return []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"nodes"}}}, nil
		}}
	plan := func(annotations map[string]string) *v1alpha1.InstallPlan {
		return &v1alpha1.InstallPlan{ObjectMeta: metav1.ObjectMeta{Name: "shop", Annotations: maps.Clone(annotations)},
			Spec: v1alpha1.InstallPlanSpec{Extension: v1alpha1.ExtensionRef{Name: "shop", Version: "1.0.0"}}}
	}
	_, before := written(t, h, "ann", nil, plan(nil))
	with := func(more map[string]string) *v1alpha1.InstallPlan {
		p := before.DeepCopy()
		maps.Copy(p.Annotations, more)
		return p
	}
	host := map[string]string{v1alpha1.AnnotationUpstreams: "b.example.com A.example.com"}
	response, by := written(t, h, "eve", before, with(host))
	if by == nil || by.Annotations[v1alpha1.AnnotationApprovedUpstreams] != "" ||
		by.Annotations[v1alpha1.AnnotationApproved] != before.Annotations[v1alpha1.AnnotationApproved] || len(response.Warnings) != 1 {
		t.Errorf("by who may not: %v %v", response, by)
	}
	if stamp := w.stamp(by, "1.0.0"); stamp == before.Annotations[v1alpha1.AnnotationApproved] {
		t.Error("another host has the same stamp")
	}
	if _, by = written(t, h, "eve", before, with(map[string]string{v1alpha1.AnnotationApprovedUpstreams: "evil.example.com"})); by == nil ||
		by.Annotations[v1alpha1.AnnotationApprovedUpstreams] != "" {
		t.Errorf("a forged one: %v", by)
	}
	_, by = written(t, h, "ann", before, with(host))
	if by == nil || by.Annotations[v1alpha1.AnnotationApprovedUpstreams] != "a.example.com b.example.com" ||
		by.Annotations[v1alpha1.AnnotationApproved] == before.Annotations[v1alpha1.AnnotationApproved] {
		t.Fatalf("by who may: %v", by)
	}
	without := by.DeepCopy()
	delete(without.Annotations, v1alpha1.AnnotationUpstreams)
	if _, after := written(t, h, "ann", by, without); after == nil || after.Annotations[v1alpha1.AnnotationApprovedUpstreams] != "" {
		t.Errorf("taken back: %v", after)
	}
	if response, after := written(t, h, "ann", before, with(map[string]string{v1alpha1.AnnotationUpstreams: "https://example.com"})); after != nil ||
		!strings.Contains(response.Result.Message, "is no host") {
		t.Errorf("what is no host: %v", response)
	}
}

func TestTheApprovalIsOfWhoMayGiveIt(t *testing.T) { // X18
	w := newWorld(t)
	w.version("shop", "1.0.0", permissions, nil)
	w.version("shop", "2.0.0", permissions+"- {apiGroups: [''], resources: [secrets], verbs: [get]}\n", nil)
	h := &installapproval.Webhook{Client: w.client, Live: w.client, Charts: w.charts,
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

// A version and its plan are often applied at once: the approval does not wait for the cache to know the version.
func TestAPlanIsApprovedTogetherWithItsVersion(t *testing.T) { // X18
	stored, cache := newWorld(t), newWorld(t)
	stored.version("shop", "1.0.0", permissions, nil)
	h := &installapproval.Webhook{Client: cache.client, Live: stored.client, Charts: stored.charts,
		Missing: func(context.Context, authenticationv1.UserInfo, string, *permission.Request) ([]rbacv1.PolicyRule, error) {
			return nil, nil
		}}
	_, after := written(t, h, "ann", nil, &v1alpha1.InstallPlan{ObjectMeta: metav1.ObjectMeta{Name: "shop"},
		Spec: v1alpha1.InstallPlanSpec{Extension: v1alpha1.ExtensionRef{Name: "shop", Version: "1.0.0"}}})
	if after == nil || after.Annotations[v1alpha1.AnnotationApprovedBy] != "ann" {
		t.Errorf("approved by %v, want ann", after)
	}
}

func TestAPlanThatCanNotBeDoneIsRefused(t *testing.T) { // X20, X22
	h := &installapproval.Webhook{Live: newWorld(t).client, Charts: charts{}}
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
		"clusterSelector can't be read": func(p *v1alpha1.InstallPlan) {
			p.Spec.ClusterScheduling = &v1alpha1.ClusterScheduling{Placement: &v1alpha1.Placement{
				ClusterSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"zone": "no value"}}}}
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

// The status is the controller's: what somebody else says there, of what is installed where, would be removed with the plan.
func TestTheStatusIsTheControllers(t *testing.T) { // X18, X27
	h := &installapproval.Webhook{Live: newWorld(t).client, Charts: charts{}}
	plan := func(namespace string) *v1alpha1.InstallPlan {
		p := &v1alpha1.InstallPlan{ObjectMeta: metav1.ObjectMeta{Name: "mysql"},
			Spec: v1alpha1.InstallPlanSpec{Extension: v1alpha1.ExtensionRef{Name: "mysql", Version: "1.0.0"}}}
		if p.Status.TargetNamespace = namespace; namespace != "" {
			p.Status.State, p.Status.Version = v1alpha1.StateInstalled, "1.0.0"
		}
		return p
	}
	toldOf := func(p *v1alpha1.InstallPlan) *v1alpha1.InstallPlan {
		p.Status.ClusterSchedulingStatuses = map[string]v1alpha1.InstallationStatus{"member": {State: v1alpha1.StateInstalled}}
		return p
	}
	for by, want := range map[string]int{"eve": 0, "system:serviceaccount:kubesphere-system:ks-apiserver": 1} {
		if _, after := written(t, h, by, plan("extension-mysql"), toldOf(plan("extension-mysql"))); len(after.Status.ClusterSchedulingStatuses) != want {
			t.Errorf("of members, by %s: %v", by, after.Status)
		}
		if _, after := written(t, h, by, plan("extension-mysql"), toldOf(plan("victim"))); after.Status.TargetNamespace != "extension-mysql" {
			t.Errorf("by %s: %v", by, after.Status)
		}
	}
	for claim, c := range map[string]struct {
		by        []string
		old, plan *v1alpha1.InstallPlan
		want      string
	}{
		"a new plan of a release that is somebody's":  {nil, nil, plan("victim"), ""},
		"another namespace":                           {nil, plan("extension-mysql"), plan("victim"), "extension-mysql"},
		"where nothing was":                           {nil, plan(""), plan("victim"), ""},
		"none any more":                               {nil, plan("extension-mysql"), plan(""), "extension-mysql"},
		"as it is":                                    {nil, plan("extension-mysql"), plan("extension-mysql"), "extension-mysql"},
		"restored by the administrator of Kubernetes": {[]string{"system:masters"}, nil, plan("extension-mysql"), "extension-mysql"},
	} {
		t.Run(claim, func(t *testing.T) {
			raw := func(p *v1alpha1.InstallPlan) []byte {
				out, err := json.Marshal(p)
				if err != nil {
					t.Fatal(err)
				}
				return out
			}
			req := webhook.Request{AdmissionRequest: admissionv1.AdmissionRequest{Operation: admissionv1.Create, Name: c.plan.Name,
				UserInfo: authenticationv1.UserInfo{Username: "eve", Groups: c.by}, Object: runtime.RawExtension{Raw: raw(c.plan)}}}
			if c.old != nil {
				req.Operation, req.OldObject.Raw = admissionv1.Update, raw(c.old)
			}
			after := answered(t, h, req)
			if is := after.Status; is.TargetNamespace != c.want || (is.Version != "") != (c.want != "") || after.Spec.Extension.Name != "mysql" {
				t.Errorf("the status is %+v", is)
			}
		})
	}
}

// countedCharts counts how often a chart is read.
type countedCharts struct {
	charts
	reads int
}

func (c *countedCharts) Load(ctx context.Context, v *v1alpha1.ExtensionVersion) ([]byte, error) {
	c.reads++
	return c.charts.Load(ctx, v)
}

// Annotations by which nothing is approved, however many and large, take no chart, no review of rights and no change of the object.
func TestAFloodOfAnnotationsTakesNoWork(t *testing.T) { // O48
	w := newWorld(t)
	w.version("shop", "1.0.0", permissions, nil)
	read, asked := &countedCharts{charts: w.charts}, 0
	h := &installapproval.Webhook{Client: w.client, Live: w.client, Charts: read,
		Missing: func(context.Context, authenticationv1.UserInfo, string, *permission.Request) ([]rbacv1.PolicyRule, error) {
			asked++
			return nil, nil
		}}
	plan := &v1alpha1.InstallPlan{ObjectMeta: metav1.ObjectMeta{Name: "shop", Annotations: map[string]string{}},
		Spec: v1alpha1.InstallPlanSpec{Extension: v1alpha1.ExtensionRef{Name: "shop", Version: "1.0.0"}, Config: "a: " + strings.Repeat("x", 100<<10)}}
	if response, _ := written(t, h, "ann", nil, plan); !response.Allowed || read.reads != 1 || asked != 1 {
		t.Fatalf("%v: %d reads of a chart and %d questions for a new plan", response.Result, read.reads, asked)
	}
	for i := range 100 {
		next := plan.DeepCopy()
		next.Annotations[v1alpha1.AnnotationPreview], next.Annotations[v1alpha1.AnnotationRetry] = strconv.Itoa(i), strconv.Itoa(i)
		next.Annotations["example.com/large"] = strings.Repeat("y", 200<<10)
		if response, _ := written(t, h, "eve", plan, next); !response.Allowed || len(response.Patches) > 0 {
			t.Fatalf("%v, and %d changes", response.Result, len(response.Patches))
		}
		plan = next
	}
	if read.reads != 1 || asked != 1 {
		t.Errorf("%d reads of a chart and %d questions", read.reads, asked)
	}
}

// The name of an ExtensionVersion joins two texts: what it says of its extension counts.
func TestAVersionOfAnotherExtensionIsNone(t *testing.T) { // S62, X18
	w := newWorld(t)
	w.version("shop-1", "2.0.0", permissions, nil)
	h := &installapproval.Webhook{Client: w.client, Live: w.client, Charts: w.charts,
		Missing: func(context.Context, authenticationv1.UserInfo, string, *permission.Request) ([]rbacv1.PolicyRule, error) {
			return nil, nil
		}}
	response, after := written(t, h, "root", nil, &v1alpha1.InstallPlan{ObjectMeta: metav1.ObjectMeta{Name: "shop"},
		Spec: v1alpha1.InstallPlanSpec{Extension: v1alpha1.ExtensionRef{Name: "shop", Version: "1-2.0.0"}}})
	if after == nil || after.Annotations[v1alpha1.AnnotationApproved] != "" || len(response.Warnings) == 0 {
		t.Errorf("the chart of another extension is approved: %v", response)
	}
}

// X18: a Secret with values is approved by who may, and asks for it: no other write of a plan, and no approval of the hub, is about what somebody has written
// into its namespace.
func TestX18ASecretWithValuesIsApprovedByName(t *testing.T) {
	ofHub := map[string]string{clusterv1alpha1.LabelFleet: "hub"}
	w := newWorld(t, &iamv1beta1.User{ObjectMeta: metav1.ObjectMeta{Name: "ann", Labels: ofHub}})
	w.version("shop", "1.0.0", permissions, nil)
	h := &installapproval.Webhook{Client: w.client, Live: w.client, Charts: w.charts,
		Missing: func(_ context.Context, u authenticationv1.UserInfo, _ string, _ *permission.Request) ([]rbacv1.PolicyRule, error) {
			if u.Username == "ann" {
				return nil, nil
			}
			return []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"nodes"}}}, nil
		}}
	secret := func(name string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "extension-shop", Name: name, Labels: map[string]string{v1alpha1.LabelValues: "shop"}},
			Data: map[string][]byte{"values.yaml": []byte("password: canary")}}
	}
	if err := w.client.Create(t.Context(), secret("mine")); err != nil {
		t.Fatal(err)
	}
	_, before := written(t, h, "ann", nil, &v1alpha1.InstallPlan{
		ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: ofHub, Annotations: map[string]string{v1alpha1.AnnotationFleetApprover: "ann"}},
		Spec:       v1alpha1.InstallPlanSpec{Extension: v1alpha1.ExtensionRef{Name: "shop", Version: "1.0.0"}}})
	if before == nil || before.Annotations[v1alpha1.AnnotationApproved] == "" || before.Annotations[v1alpha1.AnnotationApprovedChart] == "" ||
		before.Annotations[v1alpha1.AnnotationApprovedValues] != "" {
		t.Fatalf("a new plan: %v", before)
	}
	with := func(of *v1alpha1.InstallPlan, key, value string) *v1alpha1.InstallPlan {
		p := of.DeepCopy()
		p.Annotations[key] = value
		return p
	}
	changed := before.DeepCopy()
	changed.Spec.Config = "replicas: 2"
	for what, of := range map[string]struct {
		by   string
		plan *v1alpha1.InstallPlan
	}{
		"a change": {"ann", changed}, "a forged one": {"ann", with(before, v1alpha1.AnnotationApprovedValues, "mine")},
		"who may not":            {"eve", with(before, v1alpha1.AnnotationApprove, "yes")},
		"an approval of the hub": {clusterv1alpha1.HubUser, with(before, v1alpha1.AnnotationApprove, "yes")},
	} {
		if _, after := written(t, h, of.by, before, of.plan); after == nil || after.Annotations[v1alpha1.AnnotationApprovedValues] != "" {
			t.Errorf("%s: %v", what, after)
		}
	}
	said, approved := written(t, h, "ann", before, with(before, v1alpha1.AnnotationApprove, "yes"))
	if approved == nil || len(approved.Annotations[v1alpha1.AnnotationApprovedValues]) != 64 {
		t.Fatalf("by name: %v", approved)
	}
	if len(said.Warnings) != 1 || !strings.Contains(said.Warnings[0], "the Secret extension-shop/mine as of its resourceVersion 1") {
		t.Errorf("who approves is told %q", said.Warnings)
	}
	if said, _ = written(t, h, "ann", approved, with(approved, v1alpha1.AnnotationApprove, "yes")); len(said.Warnings) > 0 {
		t.Errorf("who approves it once more is told %q", said.Warnings)
	}
	if err := w.client.Create(t.Context(), secret("other")); err != nil {
		t.Fatal(err)
	}
	response, after := written(t, h, "ann", approved, with(approved, v1alpha1.AnnotationApprove, "yes"))
	if after == nil || len(response.Warnings) != 1 ||
		after.Annotations[v1alpha1.AnnotationApprovedValues] != approved.Annotations[v1alpha1.AnnotationApprovedValues] {
		t.Errorf("two Secrets: %v %v", response.Warnings, after)
	}
	for _, name := range []string{"mine", "other"} {
		if err := w.client.Delete(t.Context(), secret(name)); err != nil {
			t.Fatal(err)
		}
	}
	if _, after = written(t, h, "ann", approved, with(approved, v1alpha1.AnnotationApprove, "yes")); after == nil ||
		after.Annotations[v1alpha1.AnnotationApprovedValues] != "" {
		t.Errorf("no Secret any more: %v", after)
	}
}
