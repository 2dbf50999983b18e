package installplan_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/extension/permission"
	"kapis.dev/ks-apiserver/pkg/helm"
)

// onHost makes a plan want an agent in the hub's own cluster, which is approved.
func onHost(p *v1alpha1.InstallPlan) {
	p.Spec.ClusterScheduling = &v1alpha1.ClusterScheduling{Placement: &v1alpha1.Placement{Clusters: []string{"host"}},
		Overrides: map[string]string{"host": "replicas: 2\n", "m1": "replicas: 3\n"}}
	p.Annotations[v1alpha1.AnnotationApprovedPlacement] = permission.PlacementOf(&p.Spec)
}

func newHubWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, cluster("host", corev1.ConditionTrue, map[string]string{clusterv1alpha1.LabelHostCluster: ""}))
	w.version("shop", "1.0.0", permissions, multicluster)
	w.version("shop", "1.1.0", permissions, multicluster)
	return w
}

func valuesIn(t *testing.T, r helm.Request) map[string]any {
	t.Helper()
	out := map[string]any{}
	if err := yaml.Unmarshal(r.Values, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// X20, X27: an agent in the hub's own cluster is a release beside the extension's, of the version that runs, with its own values; it is
// upgraded after it, costs nothing where nothing changes, and goes when it is placed there no more, or before the extension.
func TestX20AnAgentIsInTheHubsOwnCluster(t *testing.T) {
	w := newHubWorld(t)
	w.plan("shop", "1.0.0", onHost)
	for w.reconcile("shop") > 0 && len(w.applied) < 2 {
	}
	if len(w.applied) != 2 || w.applied[0].Name != "shop" || w.applied[1].Name != "shop-agent" || w.applied[1].Namespace != "extension-shop" {
		t.Fatalf("%d operations: %+v", len(w.applied), w.get("shop").Status)
	}
	own, of := valuesIn(t, w.applied[0]), valuesIn(t, w.applied[1])
	info, _ := of["global"].(map[string]any)["clusterInfo"].(map[string]any)
	tags, _ := of["tags"].(map[string]any)
	if own["replicas"] != 1.0 || of["replicas"] != 2.0 || info["name"] != "host" || info["role"] != "host" || tags["agent"] != true || tags["extension"] != false {
		t.Errorf("%v and %v", own, of)
	}
	p := w.get("shop")
	if s := p.Status.ClusterSchedulingStatuses["host"]; s.State != v1alpha1.StateInstalled || s.Version != "1.0.0" || s.ReleaseName != "shop-agent" ||
		p.Status.ReleaseName != "shop" || p.Status.State != v1alpha1.StateInstalled {
		t.Errorf("%+v", p.Status)
	}
	w.reconcile("shop")
	before := w.writes
	if w.reconcile("shop"); w.writes != before || len(w.applied) != 2 {
		t.Errorf("settled: %d writes, %d operations", w.writes-before, len(w.applied))
	}
	w.change("shop", func(p *v1alpha1.InstallPlan) { p.Spec.Extension.Version = "1.1.0" })
	w.reconcile("shop")
	w.reconcile("shop")
	if s := w.get("shop").Status.ClusterSchedulingStatuses["host"]; s.Version != "1.1.0" || len(w.applied) != 4 || w.applied[3].Name != "shop-agent" {
		t.Errorf("upgraded: %+v, %d operations", s, len(w.applied))
	}
	w.change("shop", func(p *v1alpha1.InstallPlan) { // a selector that can't be read says nothing
		p.Spec.ClusterScheduling.Placement = &v1alpha1.Placement{
			ClusterSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"zone": "no value"}}}
	})
	w.reconcile("shop")
	p = w.get("shop")
	s := p.Status.ClusterSchedulingStatuses["host"]
	said := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionInitialized)
	if said == nil || said.Reason != "InvalidPlacement" || !strings.Contains(said.Message, "clusterSelector") || s.Version != "1.1.0" ||
		condition(p, v1alpha1.ConditionInitialized) != "True Initialized" {
		t.Errorf("with an invalid selector: %+v", p.Status)
	}
	before = w.writes
	if w.reconcile("shop"); w.writes != before || len(w.removed) > 0 {
		t.Errorf("with an invalid selector: %d writes, removed %v", w.writes-before, w.removed)
	}
	w.change("shop", func(p *v1alpha1.InstallPlan) { p.Spec.ClusterScheduling.Placement.Clusters = []string{"m1"} })
	w.reconcile("shop")
	w.reconcile("shop")
	if _, has := w.get("shop").Status.ClusterSchedulingStatuses["host"]; has || len(w.removed) != 1 || w.removed[0].Name != "shop-agent" {
		t.Errorf("placed elsewhere: %v, %+v", has, w.removed)
	}
	w.change("shop", onHost)
	w.reconcile("shop")
	w.reconcile("shop")
	w.removed = nil
	w.deleted("shop")
	if !w.isGone("shop") || len(w.removed) != 2 || w.removed[0].Name != "shop-agent" || w.removed[1].Name != "shop" {
		t.Errorf("removed: %+v", w.removed)
	}
	if left := w.leftRights(); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// X18: a placement that nobody approved gets no agent, also in the hub's own cluster, and harms nothing of the extension.
func TestX18AnAgentInTheHubsClusterIsApproved(t *testing.T) {
	w := newHubWorld(t)
	w.plan("shop", "1.0.0", func(p *v1alpha1.InstallPlan) {
		onHost(p)
		delete(p.Annotations, v1alpha1.AnnotationApprovedPlacement)
	})
	w.reconcile("shop")
	w.reconcile("shop")
	p := w.get("shop")
	if s := p.Status.ClusterSchedulingStatuses["host"]; len(w.applied) != 1 || p.Status.State != v1alpha1.StateInstalled ||
		s.State != v1alpha1.StatePreparing || len(s.Conditions) != 1 || s.Conditions[0].Reason != "NotApproved" {
		t.Errorf("%d operations, %+v", len(w.applied), p.Status)
	}
	if condition(p, "Approved") != "True Approved" {
		t.Errorf("the extension says %s", condition(p, "Approved"))
	}
}

// X25: an agent that fails leaves the extension as it is, and is tried again a few times.
func TestX25AnAgentInTheHubsClusterThatFailsHarmsNothing(t *testing.T) {
	w := newHubWorld(t)
	w.plan("shop", "1.0.0", nil)
	w.reconcile("shop")
	w.reconcile("shop")
	// Without an override the extension asks for what it did, and the agent alone is done.
	w.changeUnapproved("shop", func(p *v1alpha1.InstallPlan) {
		onHost(p)
		p.Spec.ClusterScheduling.Overrides = nil
		p.Annotations[v1alpha1.AnnotationApprovedPlacement] = permission.PlacementOf(&p.Spec)
	})
	w.fails = []*helm.Error{{Reason: helm.ReasonFailed, Message: "a webhook is away", Transient: true}}
	again := w.reconcile("shop")
	p := w.get("shop")
	if s := p.Status.ClusterSchedulingStatuses["host"]; s.State != v1alpha1.StateInstallFailed || p.Status.State != v1alpha1.StateInstalled || again == 0 {
		t.Errorf("%+v, again in %s", p.Status, again)
	}
	w.now = w.now.Add(again)
	w.reconcile("shop")
	if s := w.get("shop").Status.ClusterSchedulingStatuses["host"]; s.State != v1alpha1.StateInstalled {
		t.Errorf("%+v", s)
	}
}
