package extensionsync_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"

	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/chart"
	"kapis.dev/ks-apiserver/pkg/cluster/exchangetest"
	"kapis.dev/ks-apiserver/pkg/cluster/extensionsync"
	"kapis.dev/ks-apiserver/tools/hostile"
)

const hub = "u-hub"

var (
	plans    = v1alpha1.SchemeGroupVersion.WithResource("installplans")
	versions = v1alpha1.SchemeGroupVersion.WithResource("extensionversions")
	maps     = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
)

// member is a member whose objects are in memory.
type member struct {
	t *testing.T
	*extensionsync.Member
	objects *dynamicfake.FakeDynamicClient
}

func newMember(t *testing.T, objects ...runtime.Object) *member {
	t.Helper()
	lists := map[schema.GroupVersionResource]string{plans: "InstallPlanList", versions: "ExtensionVersionList", maps: "ConfigMapList"}
	c := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists, objects...)
	return &member{t, &extensionsync.Member{Objects: c, Namespace: "kubesphere-system"}, c}
}

// ask sends what a hub sends, and reads the answer.
func (m *member) ask(path string, body []byte, into any) int {
	m.t.Helper()
	return exchangetest.Ask(m.t, m, path, body, into)
}

func (m *member) state(remove ...string) *extensionsync.Report {
	m.t.Helper()
	out := &extensionsync.Report{}
	if code := m.ask(extensionsync.PathState, exchangetest.JSON(m.t, &extensionsync.State{Hub: hub, Remove: remove}), out); code != http.StatusOK {
		m.t.Fatalf("the state is answered with %d", code)
	}
	return out
}

func (m *member) get(k schema.GroupVersionResource, namespace, name string) *unstructured.Unstructured {
	m.t.Helper()
	o, err := m.objects.Resource(k).Namespace(namespace).Get(m.t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		m.t.Fatal(err)
	}
	return o
}

func sendChart(m *member, raw []byte) {
	m.t.Helper()
	if code := m.ask(extensionsync.PathChart+"?hub="+hub+"&digest="+chart.Digest(raw), raw, nil); code != http.StatusOK {
		m.t.Fatalf("the chart is answered with %d", code)
	}
}

func agent(raw []byte) *extensionsync.Agent {
	return &extensionsync.Agent{Hub: hub, Extension: "shop", Cluster: "m1", Hash: "h1", Enabled: true, Config: "a: 1\n", Approver: "ann",
		Version: v1alpha1.ExtensionVersionSpec{Version: "1.0.0", Digest: chart.Digest(raw), Repository: "inner", ChartURL: "https://hub.example/c.tgz",
			ExternalDependencies: []v1alpha1.ExternalDependency{{Name: "base", Required: true}}},
		Parts: (len(raw) + 700<<10 - 1) / (700 << 10)}
}

// X18, X27: what the hub sends becomes a version with its chart and a plan, both with the hub's label; what it names is removed, and with it the
// chart; what it does not name stays.
func TestAMemberHasWhatItsHubSends(t *testing.T) {
	raw := bytes.Repeat([]byte("0123456789abcdef"), 60<<10) // two parts
	m := newMember(t)
	sendChart(m, raw)
	sendChart(m, raw) // once more is the same
	if code := m.ask(extensionsync.PathAgent, exchangetest.JSON(t, agent(raw)), nil); code != http.StatusOK {
		t.Fatalf("the agent is answered with %d", code)
	}
	v, p := m.get(versions, "", "shop-1.0.0"), m.get(plans, "", "shop")
	if v == nil || p == nil {
		t.Fatal("nothing was written")
	}
	spec, _, _ := unstructured.NestedMap(v.Object, "spec")
	for _, field := range []string{"repository", "chartURL", "externalDependencies"} {
		if _, ok := spec[field]; ok {
			t.Errorf("the version leads to the hub's %s", field)
		}
	}
	var whole []byte
	name, _, _ := unstructured.NestedString(v.Object, "spec", "chartDataRef", "name")
	parts, err := strconv.Atoi(v.GetAnnotations()[v1alpha1.AnnotationChartParts])
	if err != nil || parts != 2 {
		t.Fatalf("%d parts, %v", parts, err)
	}
	for i := range parts {
		var cm struct{ BinaryData map[string][]byte }
		if err := json.Unmarshal(exchangetest.JSON(t, m.get(maps, "kubesphere-system", name+"-"+strconv.Itoa(i)).Object), &cm); err != nil {
			t.Fatal(err)
		}
		whole = append(whole, cm.BinaryData["chart.tgz"]...)
	}
	if !bytes.Equal(whole, raw) {
		t.Error("the parts are not the chart")
	}
	if got := p.GetAnnotations(); got[v1alpha1.AnnotationFleetApprover] != "ann" || got[v1alpha1.AnnotationAgentCluster] != "m1" ||
		got[v1alpha1.AnnotationApproved] != "" || p.GetLabels()["kapis.dev/fleet"] != hub {
		t.Errorf("the plan has %v, %v", got, p.GetLabels())
	}
	if got := m.state(); got.Agents["shop"].Hash != "h1" || !slices.Equal(got.Charts, []string{chart.Digest(raw)}) {
		t.Errorf("it reports %+v", got)
	}
	m.state("other")
	if m.get(plans, "", "shop") == nil {
		t.Error("what was not named is gone")
	}
	m.state("shop")
	if got := m.state(); len(got.Agents) > 0 || len(got.Charts) > 0 || m.get(versions, "", "shop-1.0.0") != nil ||
		m.get(maps, "kubesphere-system", name+"-0") != nil || m.get(maps, "kubesphere-system", name+"-1") != nil {
		t.Errorf("what was removed is there: %+v", got)
	}
}

// X18: an agent that is the same writes nothing, and what this cluster wrote into the plan stays.
func TestASettledAgentWritesNothing(t *testing.T) {
	raw := []byte("chart")
	m := newMember(t)
	sendChart(m, raw)
	m.ask(extensionsync.PathAgent, exchangetest.JSON(t, agent(raw)), nil)
	p := m.get(plans, "", "shop")
	p.SetFinalizers([]string{v1alpha1.FinalizerInstallPlan})
	p.SetAnnotations(map[string]string{v1alpha1.AnnotationApproved: "stamp", v1alpha1.AnnotationAgentCluster: "m1", v1alpha1.AnnotationFleetHash: "h1",
		v1alpha1.AnnotationFleetApprover: "ann"})
	p.Object["status"] = map[string]any{"state": "Installed", "version": "1.0.0"}
	if _, err := m.objects.Resource(plans).Update(t.Context(), p, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	m.objects.ClearActions()
	m.ask(extensionsync.PathAgent, exchangetest.JSON(t, agent(raw)), nil)
	m.state()
	for _, a := range m.objects.Actions() {
		if a.GetVerb() != "get" && a.GetVerb() != "list" {
			t.Errorf("%s of %s", a.GetVerb(), a.GetResource().Resource)
		}
	}
	next := agent(raw)
	next.Hash, next.Config = "h2", "a: 2\n"
	m.ask(extensionsync.PathAgent, exchangetest.JSON(t, next), nil)
	p = m.get(plans, "", "shop")
	config, _, _ := unstructured.NestedString(p.Object, "spec", "config")
	state, _, _ := unstructured.NestedString(p.Object, "status", "state")
	if config != "a: 2\n" || state != "Installed" || len(p.GetFinalizers()) != 1 || p.GetAnnotations()[v1alpha1.AnnotationApproved] != "stamp" {
		t.Errorf("the plan is %v", p.Object)
	}
}

func existing(kind, name, fleet string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "kubesphere.io/v1alpha1", "kind": kind, "metadata": map[string]any{"name": name},
		"spec": map[string]any{"extension": map[string]any{"name": name, "version": "0.1.0"}}}}
	if fleet != "" {
		o.SetLabels(map[string]string{"kapis.dev/fleet": fleet})
	}
	return o
}

// X18: what this cluster has of its own, and what another hub keeps there, is neither changed nor removed.
func TestAHubTakesNothingOfOthers(t *testing.T) {
	raw := []byte("chart")
	for name, fleet := range map[string]string{"OfItsOwn": "", "OfAnotherHub": "u-other"} {
		t.Run(name, func(t *testing.T) {
			m := newMember(t, existing("InstallPlan", "shop", fleet))
			sendChart(m, raw)
			if code := m.ask(extensionsync.PathAgent, exchangetest.JSON(t, agent(raw)), nil); code != http.StatusConflict {
				t.Errorf("it is answered with %d", code)
			}
			if got := m.state("shop"); len(got.Agents) > 0 {
				t.Errorf("it reports %+v", got)
			}
			p := m.get(plans, "", "shop")
			if version, _, _ := unstructured.NestedString(p.Object, "spec", "extension", "version"); version != "0.1.0" {
				t.Errorf("it is %v", p.Object)
			}
		})
	}
}

// X18: nothing is written for what is not well formed.
func TestWhatIsNotWellFormedWritesNothing(t *testing.T) {
	raw := []byte("chart")
	m := newMember(t)
	for _, body := range []string{"", "{", "[]", "null", `{"hub":"u-hub"}`} {
		if code := m.ask(extensionsync.PathAgent, []byte(body), nil); code != http.StatusBadRequest {
			t.Errorf("%q: %d", body, code)
		}
	}
	changes := map[string]func(*extensionsync.Agent){
		"no hub":         func(a *extensionsync.Agent) { a.Hub = "" },
		"no version":     func(a *extensionsync.Agent) { a.Version.Version = "" },
		"no digest":      func(a *extensionsync.Agent) { a.Version.Digest = "" },
		"another digest": func(a *extensionsync.Agent) { a.Version.Digest = strings.Repeat("../", 22)[:64] },
		"no parts":       func(a *extensionsync.Agent) { a.Parts = 0 },
		"many parts":     func(a *extensionsync.Agent) { a.Parts = 1 << 30 },
		"large values":   func(a *extensionsync.Agent) { a.Config = strings.Repeat("x", 1<<20+1) },
	}
	for _, word := range hostile.Words() {
		changes["hub "+word] = func(a *extensionsync.Agent) { a.Hub = word + "/" }
		changes["version "+word] = func(a *extensionsync.Agent) { a.Version.Version = word + "/.." }
		changes["extension "+word] = func(a *extensionsync.Agent) { a.Extension = word + "_" }
	}
	for name, change := range changes {
		a := agent(raw)
		change(a)
		if code := m.ask(extensionsync.PathAgent, exchangetest.JSON(t, a), nil); code != http.StatusBadRequest {
			t.Errorf("%s: %d", name, code)
		}
	}
	for _, query := range []string{"", "?hub=u-hub", "?hub=u-hub&digest=" + strings.Repeat("0", 64), "?hub=&digest=" + chart.Digest(raw),
		"?hub=u-hub&digest=../../x"} {
		if code := m.ask(extensionsync.PathChart+query, raw, nil); code != http.StatusBadRequest {
			t.Errorf("a chart with %q: %d", query, code)
		}
	}
	large := make([]byte, chart.MaxArchive+1)
	if code := m.ask(extensionsync.PathChart+"?hub=u-hub&digest="+chart.Digest(large), large, nil); code != http.StatusRequestEntityTooLarge {
		t.Errorf("a large chart: %d", code)
	}
	for _, a := range m.objects.Actions() {
		t.Errorf("%s of %s", a.GetVerb(), a.GetResource().Resource)
	}
}
