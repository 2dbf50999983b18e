package installplan_test

import (
	"context"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/controller/installapproval"
	"kapis.dev/ks-apiserver/pkg/controller/installplan"
	"kapis.dev/ks-apiserver/pkg/extension/permission"
)

// cluster returns a Cluster that is ready, or not.
func cluster(name string, ready corev1.ConditionStatus, labels map[string]string) *clusterv1alpha1.Cluster {
	return &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Spec: clusterv1alpha1.ClusterSpec{Enable: true},
		Status: clusterv1alpha1.ClusterStatus{Conditions: []clusterv1alpha1.ClusterCondition{{Type: clusterv1alpha1.ClusterReady, Status: ready}}}}
}

func multicluster(v *v1alpha1.ExtensionVersion) {
	v.Spec.InstallationMode = v1alpha1.InstallationMulticluster
}

// agents returns a plan's states in members, as "name=state" in the order of names.
func agents(p *v1alpha1.InstallPlan, names ...string) string {
	var out []string
	for _, name := range names {
		if s, ok := p.Status.ClusterSchedulingStatuses[name]; ok {
			out = append(out, name+"="+s.State)
		}
	}
	return strings.Join(out, " ")
}

// set changes what a plan says of a member, as ks-apiserver does.
func (w *world) set(plan, member string, s *v1alpha1.InstallationStatus) {
	w.t.Helper()
	w.changeUnapproved(plan, func(p *v1alpha1.InstallPlan) {
		if delete(p.Status.ClusterSchedulingStatuses, member); s != nil {
			p.Status.ClusterSchedulingStatuses[member] = *s
		}
	})
}

func (w *world) removedFrom(name string) string {
	w.t.Helper()
	c := &clusterv1alpha1.Cluster{}
	if err := w.client.Get(w.t.Context(), client.ObjectKey{Name: name}, c); err != nil {
		w.t.Fatal(err)
	}
	return c.Annotations[v1alpha1.AnnotationRemovedExtensions]
}

var everywhere = []string{"host", "m1", "m2", "m3"}

// X20: a plan says of each member that it names, or selects, how far that is, and of no others.
func TestAPlanSaysWhichMembersAreToHaveAnAgent(t *testing.T) {
	w := newWorld(t, cluster("m1", corev1.ConditionTrue, map[string]string{"zone": "a"}), cluster("m2", corev1.ConditionFalse, map[string]string{"zone": "b"}),
		cluster("host", corev1.ConditionTrue, map[string]string{"zone": "a", clusterv1alpha1.LabelHostCluster: ""}))
	w.version("shop", "1.0.0", permissions, multicluster)
	w.plan("shop", "1.0.0", func(p *v1alpha1.InstallPlan) {
		p.Spec.ClusterScheduling = &v1alpha1.ClusterScheduling{Placement: &v1alpha1.Placement{Clusters: []string{"m1", "m3"}}}
	})
	w.reconcile("shop")
	if got := agents(w.get("shop"), everywhere...); got != "m1=Preparing" {
		t.Errorf("named: %s", got)
	}
	if p := w.get("shop"); p.Status.State != v1alpha1.StateInstalled || len(w.applied) != 1 {
		t.Errorf("the hub is %s, after %d operations", p.Status.State, len(w.applied))
	}
	w.set("shop", "m1", &v1alpha1.InstallationStatus{State: v1alpha1.StateInstalled, Version: "1.0.0"})
	w.reconcile("shop")
	writes := w.writes
	w.reconcile("shop")
	if got := agents(w.get("shop"), everywhere...); got != "m1=Installed" || w.writes != writes {
		t.Errorf("settled: %s, %d writes", got, w.writes-writes)
	}
	w.change("shop", func(p *v1alpha1.InstallPlan) {
		p.Spec.ClusterScheduling.Placement = &v1alpha1.Placement{ClusterSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"zone": "b"}}}
	})
	w.reconcile("shop")
	if got := agents(w.get("shop"), everywhere...); got != "m1=Installed m2=Preparing" { // m1 goes once it says so
		t.Errorf("selected: %s", got)
	}
	if err := w.client.Delete(t.Context(), cluster("m1", corev1.ConditionTrue, nil)); err != nil {
		t.Fatal(err)
	}
	w.reconcile("shop")
	if got := agents(w.get("shop"), everywhere...); got != "m2=Preparing" {
		t.Errorf("without m1: %s", got)
	}
	for name, of := range map[string]*metav1.LabelSelector{"everything": {},
		"nothing": {MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "zone", Operator: "?"}}}} {
		p := &v1alpha1.InstallPlan{}
		p.Spec.ClusterScheduling = &v1alpha1.ClusterScheduling{Placement: &v1alpha1.Placement{ClusterSelector: of}}
		if got, err := p.PlacedOn("m1", nil); got != (name == "everything") || (err != nil) != (name == "nothing") {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

// X27: agents go first, for a while; a member that is away, or does not end, holds nobody, and it is noted that its agent has to go.
func TestAgentsAreRemovedFirst(t *testing.T) {
	w := newWorld(t, cluster("m1", corev1.ConditionTrue, nil), cluster("m2", corev1.ConditionFalse, nil))
	w.version("shop", "1.0.0", permissions, multicluster)
	w.plan("shop", "1.0.0", func(p *v1alpha1.InstallPlan) {
		p.Spec.ClusterScheduling = &v1alpha1.ClusterScheduling{Placement: &v1alpha1.Placement{Clusters: []string{"m1", "m2"}}}
	})
	w.reconcile("shop")
	if err := w.client.Delete(t.Context(), w.get("shop")); err != nil {
		t.Fatal(err)
	}
	if again := w.reconcile("shop"); again == 0 || len(w.removed) > 0 {
		t.Errorf("it does not wait for its agents: %d removals", len(w.removed))
	}
	if p := w.get("shop"); agents(p, everywhere...) != "m1=Preparing" || condition(p, "Uninstalled") != "False AgentsFirst" ||
		w.removedFrom("m2") != `["shop"]` || w.removedFrom("m1") != "" {
		t.Errorf("%s, %s, %q", agents(p, everywhere...), condition(p, "Uninstalled"), w.removedFrom("m2"))
	}
	w.set("shop", "m1", nil)
	w.reconcile("shop")
	if err := w.client.Get(t.Context(), client.ObjectKey{Name: "shop"}, &v1alpha1.InstallPlan{}); !apierrors.IsNotFound(err) || len(w.removed) != 1 {
		t.Errorf("%v after %d removals", err, len(w.removed))
	}
	// It comes back: what was noted counts no more.
	w.plan("shop", "1.0.0", func(p *v1alpha1.InstallPlan) {
		p.Spec.ClusterScheduling = &v1alpha1.ClusterScheduling{Placement: &v1alpha1.Placement{Clusters: []string{"m1", "m2"}}}
	})
	w.reconcile("shop")
	if got := w.removedFrom("m2"); got != "" {
		t.Errorf("m2 still is to lose %q", got)
	}
	for name, end := range map[string]func(){
		"Late": func() { w.now = time.Now().Add(time.Hour) },
		"Forced": func() {
			w.changeUnapproved("shop", func(p *v1alpha1.InstallPlan) { p.Annotations[v1alpha1.AnnotationForceDelete] = "" })
		},
	} {
		t.Run(name, func(t *testing.T) {
			w.now = time.Now()
			if err := w.client.Delete(t.Context(), w.get("shop")); err != nil {
				t.Fatal(err)
			}
			w.reconcile("shop")
			end()
			w.reconcile("shop")
			err := w.client.Get(t.Context(), client.ObjectKey{Name: "shop"}, &v1alpha1.InstallPlan{})
			if !apierrors.IsNotFound(err) || w.removedFrom("m1") != `["shop"]` {
				t.Errorf("%v, %q", err, w.removedFrom("m1"))
			}
			w.plan("shop", "1.0.0", func(p *v1alpha1.InstallPlan) {
				p.Spec.ClusterScheduling = &v1alpha1.ClusterScheduling{Placement: &v1alpha1.Placement{Clusters: []string{"m1"}}}
			})
			w.reconcile("shop")
		})
	}
}

// X18: a member installs what its hub has brought, and nothing else; of the chart, the part for members.
func TestAMemberInstallsTheAgent(t *testing.T) {
	w := newWorld(t)
	w.r.Member, w.r.Settings = true, installplan.Settings{Portal: "https://hub.example", ImageRegistry: "registry.example"}
	w.version("shop", "1.0.0", permissions, multicluster)
	w.plan("shop", "1.0.0", nil)
	if w.reconcile("shop"); len(w.applied) > 0 || len(w.get("shop").Finalizers) > 0 || w.get("shop").Status.State != "" {
		t.Fatalf("it installs what nobody has brought: %+v", w.get("shop"))
	}
	w.change("shop", func(p *v1alpha1.InstallPlan) {
		p.Labels = map[string]string{clusterv1alpha1.LabelFleet: "u-hub"}
		p.Annotations[v1alpha1.AnnotationAgentCluster] = "m1"
		p.Spec.Config = "{agent: {enabled: true}, tags: {extension: true, agent: false}, global: {clusterInfo: {name: other, role: host}}}"
	})
	w.reconcile("shop")
	p := w.get("shop")
	if len(w.applied) != 1 || p.Status.State != v1alpha1.StateInstalled || p.Status.ReleaseName != "shop-agent" || w.applied[0].Name != "shop-agent" ||
		w.applied[0].Namespace != "extension-shop" {
		t.Fatalf("%d operations, %+v", len(w.applied), p.Status)
	}
	var values struct {
		Tags   map[string]bool
		Agent  map[string]bool
		Global struct {
			ClusterInfo   map[string]string
			Portal        map[string]string
			ImageRegistry string
		}
	}
	if err := yaml.Unmarshal(w.applied[0].Values, &values); err != nil {
		t.Fatal(err)
	}
	if !values.Tags["agent"] || values.Tags["extension"] || !values.Agent["enabled"] || values.Global.ClusterInfo["name"] != "m1" ||
		values.Global.ClusterInfo["role"] != "member" || values.Global.Portal != nil || values.Global.ImageRegistry != "registry.example" {
		t.Errorf("the values are %s", w.applied[0].Values)
	}
	log := &corev1.ConfigMap{}
	if err := w.client.Get(t.Context(), client.ObjectKey{Namespace: "extension-shop", Name: "shop-agent-log"}, log); err != nil {
		t.Error(err)
	}
	if err := w.client.Delete(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	w.reconcile("shop")
	if len(w.removed) != 1 || w.removed[0].Name != "shop-agent" {
		t.Errorf("removed: %+v", w.removed)
	}
}

// X18: who approved on the hub approves in a member if that member knows them as the fleet's, and its own roles say that they may; nobody
// else speaks for the hub.
func TestAMemberAsksItsOwnRolesWhoApproves(t *testing.T) {
	local := &iamv1beta1.User{ObjectMeta: metav1.ObjectMeta{Name: "local"}}
	ofFleet := func(name, hub string, groups ...string) *iamv1beta1.User {
		return &iamv1beta1.User{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{clusterv1alpha1.LabelFleet: hub}},
			Spec: iamv1beta1.UserSpec{Groups: groups}}
	}
	w := newWorld(t, local, ofFleet("ann", "u-hub", "admins"), ofFleet("eve", "u-hub"), ofFleet("other", "u-other", "admins"))
	w.version("shop", "1.0.0", permissions, nil)
	asked := 0
	h := &installapproval.Webhook{Client: w.client, Live: w.client, Charts: w.charts}
	h.Missing = func(_ context.Context, u authenticationv1.UserInfo, _ string, _ *permission.Request) ([]rbacv1.PolicyRule, error) {
		asked++
		if u.Username == "ann" && strings.Join(u.Groups, " ") == "admins system:authenticated" || u.Username == "local" || u.Username == "other" {
			return nil, nil
		}
		return []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"nodes"}}}, nil
	}
	for _, x := range []struct{ by, approver, want string }{
		{"kapis:hub", "ann", "ann"}, {"kapis:hub", "eve", ""}, {"kapis:hub", "", ""}, {"kapis:hub", "local", ""}, {"kapis:hub", "other", ""},
		{"kapis:hub", "nobody", ""}, {"kapis:hub", "system:admin", ""}, {"kapis:hub", "kapis:hub", ""}, {"eve", "ann", ""}, {"kapis:hub ", "ann", ""},
	} {
		p := &v1alpha1.InstallPlan{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{clusterv1alpha1.LabelFleet: "u-hub"},
			Annotations: map[string]string{v1alpha1.AnnotationFleetApprover: x.approver}},
			Spec: v1alpha1.InstallPlanSpec{Extension: v1alpha1.ExtensionRef{Name: "shop", Version: "1.0.0"}}}
		response, after := written(t, h, x.by, nil, p)
		if after == nil {
			t.Fatalf("%+v: refused: %v", x, response.Result)
		}
		if got := after.Annotations[v1alpha1.AnnotationApprovedBy]; got != x.want || (after.Annotations[v1alpha1.AnnotationApproved] != "") != (x.want != "") {
			t.Errorf("%+v: approved by %q", x, got)
		}
		// Another approver on the hub counts without any other change.
		stored := p.DeepCopy()
		stored.Annotations[v1alpha1.AnnotationFleetApprover] = "somebody"
		if _, after := written(t, h, x.by, stored, p); after.Annotations[v1alpha1.AnnotationApprovedBy] != x.want {
			t.Errorf("%+v: a change is approved by %q", x, after.Annotations[v1alpha1.AnnotationApprovedBy])
		}
	}
	if asked == 0 {
		t.Error("nobody's rights were asked for")
	}
}

// X18: the hub brings users and plans at once: an approver whom the cache does not have yet is asked for at kube-apiserver, since a plan is judged when it is
// written, and not again.
func TestX18AnApproverWhoCameWithThePlanCounts(t *testing.T) {
	ann := &iamv1beta1.User{ObjectMeta: metav1.ObjectMeta{Name: "ann", Labels: map[string]string{clusterv1alpha1.LabelFleet: "u-hub"}}}
	stored, cache := newWorld(t, ann), newWorld(t)
	stored.version("shop", "1.0.0", permissions, nil)
	h := &installapproval.Webhook{Client: cache.client, Live: stored.client, Charts: stored.charts,
		Missing: func(context.Context, authenticationv1.UserInfo, string, *permission.Request) ([]rbacv1.PolicyRule, error) {
			return nil, nil
		}}
	_, after := written(t, h, "kapis:hub", nil, &v1alpha1.InstallPlan{ObjectMeta: metav1.ObjectMeta{Name: "shop",
		Labels:      map[string]string{clusterv1alpha1.LabelFleet: "u-hub"},
		Annotations: map[string]string{v1alpha1.AnnotationFleetApprover: "ann"}},
		Spec: v1alpha1.InstallPlanSpec{Extension: v1alpha1.ExtensionRef{Name: "shop", Version: "1.0.0"}}})
	if after == nil || after.Annotations[v1alpha1.AnnotationApprovedBy] != "ann" {
		t.Errorf("%v", after)
	}
}

// X18: an approver, or their roles, may come to a member later than the plan does: the hub's user writes it once more, as it is, and it is decided on again.
// Anybody else who writes it decides nothing.
func TestX18AnApproverWhoComesLaterCounts(t *testing.T) {
	w, holds := newWorld(t), false
	w.version("shop", "1.0.0", permissions, nil)
	h := &installapproval.Webhook{Client: w.client, Live: w.client, Charts: w.charts}
	h.Missing = func(_ context.Context, u authenticationv1.UserInfo, _ string, _ *permission.Request) ([]rbacv1.PolicyRule, error) {
		if holds && u.Username == "ann" {
			return nil, nil
		}
		return []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"nodes"}}}, nil
	}
	_, plan := written(t, h, "kapis:hub", nil, &v1alpha1.InstallPlan{ObjectMeta: metav1.ObjectMeta{Name: "shop",
		Labels:      map[string]string{clusterv1alpha1.LabelFleet: "u-hub"},
		Annotations: map[string]string{v1alpha1.AnnotationFleetApprover: "ann"}},
		Spec: v1alpha1.InstallPlanSpec{Extension: v1alpha1.ExtensionRef{Name: "shop", Version: "1.0.0"}}})
	again := func(when, by, want string) {
		t.Helper()
		_, after := written(t, h, by, plan, plan)
		if got := after.Annotations[v1alpha1.AnnotationApprovedBy]; got != want || (after.Annotations[v1alpha1.AnnotationApproved] != "") != (want != "") {
			t.Errorf("%s: approved by %q", when, got)
		}
	}
	again("nobody is there", "kapis:hub", "")
	ann := &iamv1beta1.User{ObjectMeta: metav1.ObjectMeta{Name: "ann", Labels: map[string]string{clusterv1alpha1.LabelFleet: "u-hub"}}}
	if err := w.client.Create(t.Context(), ann); err != nil {
		t.Fatal(err)
	}
	again("she has no roles", "kapis:hub", "")
	holds = true
	again("somebody else writes it", "eve", "")
	again("the controller writes it", "system:serviceaccount:kubesphere-system:ks-controller-manager", "")
	again("the hub's user writes it", "kapis:hub", "ann")
}

// X18: a plan in a member that waits for its approver says so.
func TestX18APlanSaysWhoseApprovalItWaitsFor(t *testing.T) {
	w := newWorld(t)
	w.r.Member = true
	w.version("shop", "1.0.0", permissions, multicluster)
	w.plan("shop", "1.0.0", nil)
	w.changeUnapproved("shop", func(p *v1alpha1.InstallPlan) {
		p.Labels = map[string]string{clusterv1alpha1.LabelFleet: "u-hub"}
		p.Annotations[v1alpha1.AnnotationFleetApprover] = "ann"
		delete(p.Annotations, v1alpha1.AnnotationApproved)
	})
	w.reconcile("shop")
	p := w.get("shop")
	c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionApproved)
	if c == nil || c.Reason != "NotApproved" || !strings.HasPrefix(c.Message, "ann approved it on the hub") || p.Status.State != v1alpha1.StatePreparing {
		t.Errorf("%+v, %s", c, p.Status.State)
	}
	if len(w.applied) > 0 {
		t.Error("it was installed")
	}
}

// X18: where agents go is approved by who may approve what they do: another cluster by who may not keeps the former approval, which is of
// other clusters.
func TestAPlacementIsApprovedByWhoMay(t *testing.T) {
	w := newWorld(t)
	w.version("shop", "1.0.0", permissions, multicluster)
	h := &installapproval.Webhook{Client: w.client, Live: w.client, Charts: w.charts}
	h.Missing = func(_ context.Context, u authenticationv1.UserInfo, _ string, _ *permission.Request) ([]rbacv1.PolicyRule, error) {
		if u.Username == "ann" {
			return nil, nil
		}
		return []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"nodes"}}}, nil
	}
	plan := func(clusters ...string) *v1alpha1.InstallPlan {
		p := &v1alpha1.InstallPlan{ObjectMeta: metav1.ObjectMeta{Name: "shop"},
			Spec: v1alpha1.InstallPlanSpec{Extension: v1alpha1.ExtensionRef{Name: "shop", Version: "1.0.0"}}}
		if clusters != nil {
			p.Spec.ClusterScheduling = &v1alpha1.ClusterScheduling{Placement: &v1alpha1.Placement{Clusters: clusters}}
		}
		return p
	}
	_, before := written(t, h, "ann", nil, plan("m1"))
	if got := before.Annotations[v1alpha1.AnnotationApprovedPlacement]; got == "" || got != permission.PlacementOf(&before.Spec) {
		t.Fatalf("approved for %q", got)
	}
	for _, x := range []struct {
		by       string
		clusters []string
		approved bool
	}{{"eve", []string{"m1", "m2"}, false}, {"ann", []string{"m1", "m2"}, true}, {"eve", []string{"m1"}, true}, {"eve", []string{}, false},
		{"ann", nil, true}} {
		next := plan(x.clusters...)
		next.Annotations = map[string]string{v1alpha1.AnnotationApprovedPlacement: permission.PlacementOf(&next.Spec)} // which nobody may forge
		response, after := written(t, h, x.by, before, next)
		is := after.Annotations[v1alpha1.AnnotationApprovedPlacement] == permission.PlacementOf(&after.Spec)
		same := after.Annotations[v1alpha1.AnnotationApproved] == before.Annotations[v1alpha1.AnnotationApproved]
		if is != x.approved || (len(response.Warnings) > 0) == x.approved || !same {
			t.Errorf("%s places it in %q: approved %v, warnings %q", x.by, x.clusters, is, response.Warnings)
		}
	}
}
