package extensionsync_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
)

var users = iamv1beta1.SchemeGroupVersion.WithResource("users")

// waiting returns a plan that the hub has brought, which waits for an approval.
func waiting(approver string) *unstructured.Unstructured {
	p := existing("InstallPlan", "shop", hub)
	p.SetAnnotations(map[string]string{v1alpha1.AnnotationFleetHash: "h1"})
	if approver != "" {
		p.SetAnnotations(map[string]string{v1alpha1.AnnotationFleetHash: "h1", v1alpha1.AnnotationFleetApprover: approver})
	}
	p.Object["status"] = map[string]any{"state": v1alpha1.StatePreparing, "conditions": []any{map[string]any{
		"type": v1alpha1.ConditionApproved, "status": "False", "reason": "NotApproved", "message": "it waits", "lastTransitionTime": "2026-01-02T03:04:05Z"}}}
	return p
}

func user(name, fleet, version string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "iam.kubesphere.io/v1beta1", "kind": "User",
		"metadata": map[string]any{"name": name, "uid": "u-" + name, "resourceVersion": version}}}
	if fleet != "" {
		u.SetLabels(map[string]string{"kapis.dev/fleet": fleet})
	}
	return u
}

// writes returns how often plans were written, and fails for any other write.
func (m *member) writes() (n int) {
	m.t.Helper()
	for _, a := range m.objects.Actions() {
		switch a.GetVerb() {
		case "get", "list":
		case "update":
			n++
			if a.GetResource() != plans {
				m.t.Errorf("%s of %s", a.GetVerb(), a.GetResource().Resource)
			}
		default:
			m.t.Errorf("%s of %s", a.GetVerb(), a.GetResource().Resource)
		}
	}
	m.objects.ClearActions()
	return n
}

// X18: a plan whose approver comes later, or whose approver's roles do, is decided on again: at once when the User is there, and then less and less often.
func TestX18AnApproverWhoComesLaterIsAskedFor(t *testing.T) {
	m, now := newMember(t, waiting("ann")), time.Unix(1000, 0)
	m.Now = func() time.Time { return now }
	before := m.get(plans, "", "shop")
	asked := func(when string, want int) {
		t.Helper()
		m.state()
		if got := m.writes(); got != want {
			t.Errorf("%s: the plan was written %d times, want %d", when, got, want)
		}
	}
	m.objects.ClearActions()
	asked("nobody is there", 0)
	now = now.Add(time.Hour)
	asked("still nobody is there", 0)
	if err := m.objects.Tracker().Create(users, user("ann", hub, "1"), ""); err != nil {
		t.Fatal(err)
	}
	asked("the approver is there", 1)
	asked("a moment later", 0)
	now = now.Add(15 * time.Second)
	asked("roles may have come", 1)
	now = now.Add(15 * time.Second)
	asked("it is asked for less often", 0)
	if err := m.objects.Tracker().Update(users, user("ann", hub, "2"), ""); err != nil {
		t.Fatal(err)
	}
	asked("the User has changed", 1)
	now = now.Add(time.Hour)
	asked("a member asks for ever", 1)
	if after := m.get(plans, "", "shop"); !equality.Semantic.DeepEqual(after, before) {
		t.Errorf("it was changed to %v", after.Object)
	}
	approved := waiting("ann")
	approved.Object["status"] = map[string]any{"state": v1alpha1.StateInstalled, "conditions": []any{map[string]any{"type": v1alpha1.ConditionApproved,
		"status": "True", "reason": "Approved", "message": "", "lastTransitionTime": "2026-01-02T03:04:05Z"}}}
	if err := m.objects.Tracker().Update(plans, approved, ""); err != nil {
		t.Fatal(err)
	}
	now = now.Add(time.Hour)
	asked("it is approved", 0)
}

// X18: nobody speaks for the hub's approver, and nothing is asked for that nobody approved there, or that is being removed.
func TestX18OnlyTheHubsApproverIsAskedFor(t *testing.T) {
	leaving := waiting("ann")
	leaving.SetDeletionTimestamp(&metav1.Time{Time: time.Unix(1, 0)})
	leaving.SetFinalizers([]string{v1alpha1.FinalizerInstallPlan})
	for name, x := range map[string]struct{ plan, user *unstructured.Unstructured }{
		"a user of the member's own": {waiting("ann"), user("ann", "", "1")},
		"one of another hub":         {waiting("ann"), user("ann", "u-other", "1")},
		"nobody approved it":         {waiting(""), user("ann", hub, "1")},
		"it is being removed":        {leaving, user("ann", hub, "1")},
	} {
		m := newMember(t, x.plan, x.user)
		m.state()
		if n := m.writes(); n > 0 {
			t.Errorf("%s: the plan was written %d times", name, n)
		}
	}
}
