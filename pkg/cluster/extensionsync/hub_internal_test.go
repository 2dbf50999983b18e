package extensionsync

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"sigs.k8s.io/yaml"

	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/chart/charttest"
	"kapis.dev/ks-apiserver/pkg/cluster/exchangetest"
	"kapis.dev/ks-apiserver/pkg/extension/permission"
	"kapis.dev/ks-apiserver/pkg/kapis/kapistest"
	"kapis.dev/ks-apiserver/pkg/store/storetest"
)

const memberUID = "0f8fad5b-d9cb-469f-a165-70867728950e"

var kinds = storetest.Kinds{v1alpha1.SchemeGroupVersion: storetest.Cluster("installplans", "extensionversions"),
	clusterv1alpha1.SchemeGroupVersion: storetest.Cluster("clusters")}

// charts has one chart, and counts how often it is read.
type charts struct {
	raw  []byte
	read int
	err  error
}

func (c *charts) Load(context.Context, *v1alpha1.ExtensionVersion) ([]byte, error) {
	c.read++
	return c.raw, c.err
}

// fleet is a hub with one plan, and a member that answers as it is told.
type fleet struct {
	*round
	exchangetest.Member
	charts *charts
	plans  *dynamicfake.FakeDynamicClient
	report Report
	// version and cluster are what the hub has of these.
	version, cluster string
}

func packed(t *testing.T) []byte {
	t.Helper()
	return charttest.Pack(t, "chart", map[string]string{"Chart.yaml": "{apiVersion: v2, name: shop, version: 1.0.0}",
		"permissions.yaml": "kind: Role\nrules: []\n"})
}

// newFleet returns a fleet whose plan is installed on the hub, and approved; change may make it something else.
func newFleet(t *testing.T, removed string, change func(*v1alpha1.InstallPlan, *v1alpha1.ExtensionVersion)) *fleet {
	t.Helper()
	f := &fleet{charts: &charts{raw: packed(t)}}
	v := &v1alpha1.ExtensionVersion{Spec: v1alpha1.ExtensionVersionSpec{Version: "1.0.0", InstallationMode: v1alpha1.InstallationMulticluster}}
	v.Name, v.UID, v.ResourceVersion, v.Labels = "shop-1.0.0", "v", "1", map[string]string{v1alpha1.LabelExtension: "shop"}
	p := &v1alpha1.InstallPlan{}
	p.Name, p.UID, p.ResourceVersion = "shop", "p", "1"
	p.APIVersion, p.Kind = v1alpha1.SchemeGroupVersion.String(), "InstallPlan"
	p.Spec = v1alpha1.InstallPlanSpec{Extension: v1alpha1.ExtensionRef{Name: "shop", Version: "1.0.0"}, Enabled: true, Config: "a: {b: 1, c: [1]}\n",
		ClusterScheduling: &v1alpha1.ClusterScheduling{Placement: &v1alpha1.Placement{Clusters: []string{"m1"}},
			Overrides: map[string]string{"m1": "a: {c: [2]}", "m2": "password: other"}}}
	p.Status.Version = "1.0.0"
	request, _, err := permission.RequestOf(p, v, f.charts.raw)
	if err != nil {
		t.Fatal(err)
	}
	p.Annotations = map[string]string{v1alpha1.AnnotationApproved: request.Stamp(), v1alpha1.AnnotationApprovedBy: "ann",
		v1alpha1.AnnotationApprovedPlacement: permission.PlacementOf(&p.Spec)}
	if change != nil {
		change(p, v)
	}
	c := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "m1", UID: memberUID, ResourceVersion: "1", Labels: map[string]string{"zone": "a"}},
		Spec: clusterv1alpha1.ClusterSpec{Enable: true}}
	if removed != "" {
		c.Annotations = map[string]string{v1alpha1.AnnotationRemovedExtensions: removed}
	}
	f.Answer = &f.report
	members := exchangetest.Link(t, &f.Member, c)
	s := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	f.plans = dynamicfake.NewSimpleDynamicClient(s, p)
	h := &Hub{Charts: f.charts, UID: "u-hub", Current: members.ByUID, Now: time.Now, Plans: f.plans.Resource(plansKind),
		Known: func(...schema.GroupVersionResource) error { return nil }}
	f.version, f.cluster, f.round = text(t, v), text(t, c), h.newRound(memberUID)
	f.hasPlans(t, text(t, p))
	return f
}

func text(t *testing.T, o any) string { return string(exchangetest.JSON(t, o)) }

// once runs one round, and returns what the member was asked.
func (f *fleet) once(t *testing.T) []string { return f.Round(t, f.run) }

// paths returns what the member was asked.
func (f *fleet) paths() (out []string) {
	for _, a := range f.Asked {
		out = append(out, a.Path)
	}
	return out
}

// hasPlans has the hub have other plans.
func (f *fleet) hasPlans(t *testing.T, plans ...string) {
	t.Helper()
	f.Caches = kapistest.NewStoreOf(t, kinds, map[string][]string{"/apis/kubesphere.io/v1alpha1/installplans": plans,
		"/apis/kubesphere.io/v1alpha1/extensionversions": {f.version}, "/apis/cluster.kubesphere.io/v1alpha1/clusters": {f.cluster}})
}

// hash returns that of the agent which the member is to have by a plan.
func (f *fleet) hash(t *testing.T, plan string) string {
	t.Helper()
	p := &v1alpha1.InstallPlan{}
	if err := json.Unmarshal([]byte(plan), p); err != nil {
		t.Fatal(err)
	}
	want, _, why := f.wanted(t.Context(), f.Current(memberUID), p)
	if want == nil {
		t.Fatal(why)
	}
	return want.Hash
}

// entry returns what the plan says of the member.
func (f *fleet) entry(t *testing.T) (out v1alpha1.InstallationStatus, found bool) {
	t.Helper()
	o, err := f.Plans.Get(t.Context(), "shop", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	p := &v1alpha1.InstallPlan{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, p); err != nil {
		t.Fatal(err)
	}
	out, found = p.Status.ClusterSchedulingStatuses["m1"]
	return out, found
}

func removedIn(t *testing.T, a exchangetest.Asked) []string {
	t.Helper()
	s := &State{}
	if err := json.Unmarshal(a.Body, s); err != nil {
		t.Fatal(err)
	}
	return s.Remove
}

// X18: a member gets the chart once, and the values of its own; what another one has is not sent to it.
func TestAMemberIsSentWhatWasApproved(t *testing.T) {
	f := newFleet(t, "", nil)
	if got := f.once(t); !slices.Equal(got, []string{PathState, PathChart, PathAgent}) {
		t.Fatalf("it was asked %q", got)
	}
	a := &Agent{}
	if err := json.Unmarshal(f.Asked[2].Body, a); err != nil {
		t.Fatal(err)
	}
	values := map[string]any{}
	if err := yaml.Unmarshal([]byte(a.Config), &values); err != nil {
		t.Fatal(err)
	}
	if got := text(t, values); got != `{"a":{"b":1,"c":[2]}}` || a.Approver != "ann" || a.Cluster != "m1" || !a.Enabled {
		t.Errorf("it gets %s, %+v", got, a)
	}
	if strings.Contains(string(f.Asked[2].Body), "password") {
		t.Error("it gets the values of another member")
	}
	if e, ok := f.entry(t); !ok || e.State != v1alpha1.StatePreparing {
		t.Errorf("the plan says %+v, %v", e, ok)
	}
	f.report = Report{Charts: []string{a.Version.Digest}, Agents: map[string]Installed{"shop": {Hash: a.Hash, Status: v1alpha1.InstallationStatus{
		State: v1alpha1.StateInstalled, Version: "1.0.0", Conditions: []metav1.Condition{{Type: "Ready", Status: "True", Reason: "Ready"}}}}}}
	read := f.charts.read
	if got := f.once(t); !slices.Equal(got, []string{PathState}) || f.charts.read != read {
		t.Errorf("a settled member was asked %q, and the chart read %d times more", got, f.charts.read-read)
	}
	if e, _ := f.entry(t); e.State != v1alpha1.StateInstalled || e.Version != "1.0.0" {
		t.Errorf("the plan says %+v", e)
	}
}

// X18: what is not approved, not installed on the hub or can't be read is not sent, and takes nothing away that is there.
func TestWhatIsNotApprovedIsHeld(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.InstallPlan, *v1alpha1.ExtensionVersion){
		"OtherValues": func(p *v1alpha1.InstallPlan, _ *v1alpha1.ExtensionVersion) { p.Spec.Config = "a: 2" },
		"OtherOverride": func(p *v1alpha1.InstallPlan, _ *v1alpha1.ExtensionVersion) {
			p.Spec.ClusterScheduling.Overrides["m1"] = "a: 2"
		},
		"OtherPlacement": func(p *v1alpha1.InstallPlan, _ *v1alpha1.ExtensionVersion) {
			p.Spec.ClusterScheduling.Placement.Clusters = []string{"m1", "m2"}
		},
		"NoApproval":   func(p *v1alpha1.InstallPlan, _ *v1alpha1.ExtensionVersion) { p.Annotations = nil },
		"NotInstalled": func(p *v1alpha1.InstallPlan, _ *v1alpha1.ExtensionVersion) { p.Status.Version = "" },
		"VersionGone":  func(p *v1alpha1.InstallPlan, _ *v1alpha1.ExtensionVersion) { p.Status.Version = "0.9.0" },
		"InvalidSelector": func(p *v1alpha1.InstallPlan, _ *v1alpha1.ExtensionVersion) {
			p.Spec.ClusterScheduling.Placement = &v1alpha1.Placement{
				ClusterSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"zone": "no value"}}}
		},
		"AnotherNamespace": func(_ *v1alpha1.InstallPlan, v *v1alpha1.ExtensionVersion) { v.Spec.Namespace = "kube-system" },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, "", change)
			f.report.Agents = map[string]Installed{"shop": {Hash: "before"}}
			f.once(t)
			if got := f.once(t); !slices.Equal(got, []string{PathState}) || removedIn(t, f.Asked[0]) != nil {
				t.Errorf("it was asked %q: %s", got, f.Asked[0].Body)
			}
		})
	}
	for name, x := range map[string]struct {
		change func(*v1alpha1.InstallPlan, *v1alpha1.ExtensionVersion)
		says   string
	}{
		"NotApproved":  {func(p *v1alpha1.InstallPlan, _ *v1alpha1.ExtensionVersion) { p.Spec.Config = "a: 2" }, "annotate installplan shop kapis.dev/approve=yes"},
		"NotInstalled": {func(p *v1alpha1.InstallPlan, _ *v1alpha1.ExtensionVersion) { p.Status.Version = "" }, "not installed on the hub yet"},
		"VersionGone":  {func(p *v1alpha1.InstallPlan, _ *v1alpha1.ExtensionVersion) { p.Status.Version = "0.9.0" }, "the version 0.9.0"},
	} {
		t.Run("TheFirstOneOf"+name, func(t *testing.T) {
			f := newFleet(t, "", x.change)
			f.once(t)
			e, _ := f.entry(t)
			c := meta.FindStatusCondition(e.Conditions, v1alpha1.ConditionInitialized)
			if c == nil || c.Reason != reasonNotSent || !strings.Contains(c.Message, x.says) {
				t.Errorf("the plan says %+v", e)
			}
		})
	}
	t.Run("TheRepositoryIsAway", func(t *testing.T) {
		f := newFleet(t, "", nil)
		f.charts.err = errors.New("it is away")
		f.once(t)
		if got := f.once(t); !slices.Equal(got, []string{PathState}) || f.charts.read != 1 {
			t.Errorf("it was asked %q, and the chart read %d times", got, f.charts.read)
		}
		e, _ := f.entry(t)
		c := meta.FindStatusCondition(e.Conditions, v1alpha1.ConditionInitialized)
		if c == nil || c.Reason != reasonNotSent || !strings.Contains(c.Message, "can't be read on the hub") || strings.Contains(c.Message, "it is away") {
			t.Errorf("nobody is told: %+v", e)
		}
		if busy, err := f.run(t.Context()); busy || err != nil {
			t.Errorf("the member is asked all the time: %v, %v", busy, err)
		}
		// What a member has goes on, and its plan says nothing else of it.
		f.report.Agents = map[string]Installed{"shop": {Hash: "h", Status: v1alpha1.InstallationStatus{State: v1alpha1.StateInstalled}}}
		f.once(t)
		if e, _ := f.entry(t); e.State != v1alpha1.StateInstalled || len(e.Conditions) > 0 {
			t.Errorf("an agent that runs: %+v", e)
		}
	})
}

// X27: a plan that can't be read takes nothing away, and keeps nothing from the others; a selector that can't be read places an agent nowhere.
func TestWhatCanNotBeReadIsNotGone(t *testing.T) {
	f := newFleet(t, `["broken"]`, func(p *v1alpha1.InstallPlan, _ *v1alpha1.ExtensionVersion) {
		p.Spec.ClusterScheduling.Placement.Clusters = nil
	})
	plan, err := f.Plans.Get(t.Context(), "shop", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	cluster := `{"metadata":{"name":"m1","uid":"` + memberUID + `","resourceVersion":"1",
		"annotations":{"` + v1alpha1.AnnotationRemovedExtensions + `":"[\"broken\"]"}}}`
	broken := `{"metadata":{"name":"broken","uid":"b","resourceVersion":"1"},"status":{"conditions":[{"lastTransitionTime":"2026-01-01t00:00:00z"}]}}`
	f.Caches = kapistest.NewStoreOf(t, kinds, map[string][]string{"/apis/kubesphere.io/v1alpha1/installplans": {broken, text(t, plan)},
		"/apis/cluster.kubesphere.io/v1alpha1/clusters": {cluster}})
	f.report.Agents = map[string]Installed{"broken": {Hash: "h"}, "shop": {Hash: "h"}}
	f.once(t)
	f.once(t)
	if got := removedIn(t, f.Asked[0]); !slices.Equal(got, []string{"shop"}) {
		t.Errorf("it is told to remove %q", got)
	}
	f = newFleet(t, "", func(p *v1alpha1.InstallPlan, _ *v1alpha1.ExtensionVersion) {
		p.Spec.ClusterScheduling.Placement = &v1alpha1.Placement{ClusterSelector: &metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "zone", Operator: "in", Values: []string{"a"}}}}}
	})
	if got := f.once(t); !slices.Equal(got, []string{PathState}) {
		t.Errorf("it was asked %q", got)
	}
	if e, noted := f.entry(t); noted {
		t.Errorf("the plan says %+v", e)
	}
}

// A plan has what all members say of it: it is decoded once, and not for each of them each time that one of them says something.
func TestAPlanIsDecodedOnceForAllMembers(t *testing.T) {
	f := newFleet(t, "", nil)
	one, err := f.Hub.plans(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	before := text(t, one)
	f.once(t)
	other, err := f.newRound(memberUID).plans(t.Context())
	if err != nil || len(one) != 1 || len(other) != 1 || one[0] != other[0] {
		t.Errorf("%v, %v, %v", one, other, err)
	}
	if after := text(t, other); after != before {
		t.Errorf("it was changed from %s to %s", before, after)
	}
}

// X27: an agent goes where the plan says so, or was seen to end; what a hub merely does not know stays.
func TestWhatAHubDoesNotKnowStays(t *testing.T) {
	unplaced := func(p *v1alpha1.InstallPlan, _ *v1alpha1.ExtensionVersion) {
		p.Spec.ClusterScheduling.Placement.Clusters = []string{"m2"}
	}
	for name, x := range map[string]struct {
		change  func(*v1alpha1.InstallPlan, *v1alpha1.ExtensionVersion)
		has     string
		removed string
		want    []string
	}{
		"Unplaced": {unplaced, "shop", "", []string{"shop"}},
		"Leaving": {func(p *v1alpha1.InstallPlan, _ *v1alpha1.ExtensionVersion) {
			p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
			p.Finalizers = []string{v1alpha1.FinalizerInstallPlan}
		}, "shop", "", []string{"shop"}},
		"OfTheHubAlone": {func(_ *v1alpha1.InstallPlan, v *v1alpha1.ExtensionVersion) {
			v.Spec.InstallationMode = v1alpha1.InstallationHostOnly
		}, "shop", "", []string{"shop"}},
		"Unknown":       {nil, "lost", "", nil},
		"Recorded":      {nil, "lost", `["lost"]`, []string{"lost"}},
		"OtherRecorded": {nil, "lost", `["other"]`, nil},
		"Malformed":     {nil, "lost", `lost`, nil},
		"PlacedAgain":   {nil, "shop", `["shop"]`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, x.removed, func(p *v1alpha1.InstallPlan, v *v1alpha1.ExtensionVersion) {
				p.Status.ClusterSchedulingStatuses = map[string]v1alpha1.InstallationStatus{"m1": {State: v1alpha1.StateInstalled}}
				if x.change != nil {
					x.change(p, v)
				}
			})
			f.report.Agents = map[string]Installed{x.has: {Hash: "h"}}
			f.once(t)
			f.once(t)
			if got := removedIn(t, f.Asked[0]); !slices.Equal(got, x.want) {
				t.Errorf("it is told to remove %q, want %q", got, x.want)
			}
			if x.change == nil {
				return
			}
			f.report.Agents = nil
			f.once(t)
			if e, found := f.entry(t); found {
				t.Errorf("the plan still says %+v", e)
			}
		})
	}
}

// F26, X27: a replica of the hub that is behind, or falls behind while the member answers, neither brings an agent nor has one removed, and
// says nothing of the member.
func TestX27AReplicaThatIsBehindTellsNothing(t *testing.T) {
	unplaced := func(p *v1alpha1.InstallPlan, _ *v1alpha1.ExtensionVersion) {
		p.Spec.ClusterScheduling.Placement.Clusters = []string{"m2"}
	}
	for name, x := range map[string]struct {
		change func(*v1alpha1.InstallPlan, *v1alpha1.ExtensionVersion)
		report Report
		times  int      // that it has to be known
		asked  []string // then, and as much of it before
	}{
		"Brings":  {nil, Report{}, 3, []string{PathState, PathChart, PathAgent}},
		"Changes": {nil, Report{Agents: map[string]Installed{"shop": {Hash: "newer"}}}, 3, []string{PathState, PathChart, PathAgent}},
		"Removes": {unplaced, Report{Agents: map[string]Installed{"shop": {Hash: "h"}}}, 2, []string{PathState}},
	} {
		t.Run(name, func(t *testing.T) {
			for known := range x.times {
				f, left := newFleet(t, "", x.change), known
				f.report = x.report
				f.Known = func(kinds ...schema.GroupVersionResource) error {
					if left--; left >= 0 && slices.Equal(kinds, []schema.GroupVersionResource{plansKind, versionsKind, clustersKind}) {
						return nil
					}
					return errors.New("the watch ended")
				}
				if _, err := f.run(t.Context()); err == nil || !strings.Contains(err.Error(), "the watch ended") {
					t.Errorf("known %d times: nobody is told: %v", known, err)
				}
				if got := f.paths(); !slices.Equal(got, x.asked[:min(known, len(x.asked))]) || len(f.remove) > 0 {
					t.Errorf("known %d times: it was asked %q, and is to remove %q", known, got, f.remove)
				}
				if e, noted := f.entry(t); noted {
					t.Errorf("known %d times: the plan says %+v", known, e)
				}
				left = x.times
				if got := f.once(t); !slices.Equal(got, x.asked) {
					t.Errorf("once it is known: it was asked %q", got)
				}
			}
		})
	}
	f := newFleet(t, "", unplaced)
	f.remove = []string{"shop"}
	f.Known = func(...schema.GroupVersionResource) error { return errors.New("the watch ended") }
	if _, err := f.run(t.Context()); err == nil || len(f.Asked) > 0 {
		t.Errorf("%v, and it was asked %q", err, f.paths())
	}
}

// X27: an agent that reaches a member after its plan has ended is removed.
func TestX27AnAgentThatComesLateIsRemoved(t *testing.T) {
	f := newFleet(t, "", nil)
	f.once(t)
	f.hasPlans(t)
	f.report.Agents = map[string]Installed{"shop": {Hash: "h"}, "unknown": {Hash: "h"}}
	f.once(t)
	if got := f.once(t); !slices.Equal(got, []string{PathState}) || !slices.Equal(removedIn(t, f.Asked[0]), []string{"shop"}) {
		t.Errorf("it was asked %q", f.Asked)
	}
	delete(f.report.Agents, "shop")
	f.once(t)
	if got := f.once(t); len(got) > 0 {
		t.Errorf("it is asked for nothing: %q", got)
	}
	// A plan that was seen with its agent waits for that when it is deleted; one that is gone all the same is not known to have ended.
	var noted string
	f = newFleet(t, "", func(p *v1alpha1.InstallPlan, _ *v1alpha1.ExtensionVersion) {
		p = p.DeepCopy()
		p.Status.ClusterSchedulingStatuses = map[string]v1alpha1.InstallationStatus{"m1": {State: v1alpha1.StatePreparing}}
		noted = text(t, p)
	})
	f.once(t)
	f.hasPlans(t, noted)
	f.report.Agents = map[string]Installed{"shop": {Hash: "h"}}
	f.once(t) // it is sent once more, while the former one is there
	f.hasPlans(t)
	f.once(t)
	if !slices.Equal(f.remove, []string{"shop"}) {
		t.Errorf("an upgrade that comes late: it is to remove %q", f.remove)
	}
	f.remove = nil
	f.hasPlans(t, noted)
	f.report.Agents["shop"] = Installed{Hash: f.hash(t, noted)}
	f.once(t)
	f.hasPlans(t)
	if got := f.once(t); len(got) > 0 {
		t.Errorf("what did not come late: it was asked %q", got)
	}
}

// X27: a removal of which the member could not be told is not done once its plan says otherwise, or can't be read.
func TestX27ARemovalThatIsTakenBackIsNotDone(t *testing.T) {
	for name, change := range map[string]func(p *v1alpha1.InstallPlan) string{
		"PlacedAgain": func(p *v1alpha1.InstallPlan) string { return text(t, p) },
		"Held": func(p *v1alpha1.InstallPlan) string {
			p.Annotations = nil
			return text(t, p)
		},
		"Unread": func(*v1alpha1.InstallPlan) string {
			return `{"metadata":{"name":"shop","uid":"p","resourceVersion":"1"},
				"status":{"conditions":[{"lastTransitionTime":"2026-01-01t00:00:00z"}]}}`
		},
	} {
		t.Run(name, func(t *testing.T) {
			var placed, unplaced v1alpha1.InstallPlan
			f := newFleet(t, "", func(p *v1alpha1.InstallPlan, _ *v1alpha1.ExtensionVersion) {
				p.DeepCopyInto(&placed)
				p.DeepCopyInto(&unplaced)
			})
			unplaced.Spec.ClusterScheduling.Placement.Clusters = []string{"m2"}
			f.report.Agents = map[string]Installed{"shop": {Hash: "h"}}
			f.hasPlans(t, text(t, &unplaced))
			f.once(t)
			f.Refuses = PathState
			if _, err := f.run(t.Context()); err == nil || !slices.Equal(f.remove, []string{"shop"}) {
				t.Fatalf("%v, and it is to remove %q", err, f.remove)
			}
			f.Refuses = ""
			f.hasPlans(t, change(&placed))
			if got := f.once(t); len(got) == 0 || removedIn(t, f.Asked[0]) != nil {
				t.Errorf("it was asked %q", f.Asked)
			}
		})
	}
}

// X27: a member that refuses, or lies, harms nothing but what is said of it.
func TestWhatAMemberSaysIsBounded(t *testing.T) {
	f := newFleet(t, "", nil)
	f.Refuses = PathAgent
	f.once(t)
	e, _ := f.entry(t)
	if c := meta.FindStatusCondition(e.Conditions, v1alpha1.ConditionInitialized); c == nil || !strings.Contains(c.Message, "one of its own") {
		t.Errorf("the plan says %+v", e)
	}
	if got := f.once(t); !slices.Equal(got, []string{PathState}) {
		t.Errorf("it is asked again at once: %q", got)
	}
	long := strings.Repeat("é", 100_000)
	s := v1alpha1.InstallationStatus{State: long, Version: long, ConfigHash: long, TargetNamespace: long, ReleaseName: long, JobName: "shown"}
	for range 1000 {
		s.Conditions = append(s.Conditions, metav1.Condition{Type: "Ready", Message: long})
		s.StateHistory = append(s.StateHistory, v1alpha1.InstallationState{State: long})
	}
	got := bounded(&s)
	if n := len(text(t, got)); n > 64<<10 || got.JobName != "" || len(got.StateHistory) > maxHistory {
		t.Errorf("%d bytes are kept", n)
	}
}

// X18: an override replaces what it names, and no error quotes a value.
func TestOverridesAreMerged(t *testing.T) {
	for _, x := range []struct{ config, override, want string }{
		{"a: 1", "", `{"a":1}`}, {"", "a: 1", `{"a":1}`}, {"a: {b: 1, c: 2}", "a: {c: 3}", `{"a":{"b":1,"c":3}}`},
		{"a: {b: 1}", "a: 1", `{"a":1}`}, {"a: 1", "a: {b: 1}", `{"a":{"b":1}}`}, {"a: [1, 2]", "a: [3]", `{"a":[3]}`}, {"a: 1", "a: null", `{"a":null}`},
		{"null", "a: 1", `{"a":1}`},
	} {
		got, err := valuesOf(x.config, x.override)
		values := map[string]any{}
		if err != nil || yaml.Unmarshal([]byte(got), &values) != nil || text(t, values) != x.want {
			t.Errorf("%q and %q: %q, %v, want %s", x.config, x.override, got, err, x.want)
		}
	}
	if _, err := valuesOf("a: 1", "secret: [hunter2"); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("%v", err)
	}
}
