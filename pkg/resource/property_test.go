package resource

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/resource/page"
	"kapis.dev/ks-apiserver/pkg/resource/plan"
	"kapis.dev/ks-apiserver/pkg/store"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// The property: for any objects, filters, order and pages, the engine answers like a model that tests every object (U20).

const seeds = 6

// randomPod returns a pod whose properties are drawn from few values, so that filters match and orders tie.
func randomPod(r *rand.Rand, i int) *corev1.Pod {
	pick := func(values ...string) string { return values[r.IntN(len(values))] }
	p := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("%s-%d", pick("web", "db", "Cache", "web-x"), i), Namespace: pick("default", "kube-system", "a", "b"),
			UID: types.UID(fmt.Sprintf("uid-%d", i)), ResourceVersion: strconv.Itoa(i + 1),
			CreationTimestamp: metav1.Unix(1_700_000_000+int64(r.IntN(20)), 0),
			Labels:            map[string]string{}, Annotations: map[string]string{},
		},
		Spec: corev1.PodSpec{NodeName: pick("", "n1", "n2"), Priority: new(int32(r.IntN(12)))},
		Status: corev1.PodStatus{
			Phase: corev1.PodPhase(pick("Running", "Pending", "Succeeded", "Failed")), PodIP: pick("", "10.0.0.1", "10.0.0.12", "10.0.1.1"),
			StartTime: &metav1.Time{Time: time.Unix(1_700_000_000+int64(r.IntN(9)), 0)},
		},
	}
	for _, key := range []string{"app", "tier", "kubesphere.io/workspace"} {
		if r.IntN(3) > 0 {
			p.Labels[key] = pick("x", "y", "z")
		}
	}
	if r.IntN(3) == 0 {
		p.Annotations["kubesphere.io/alias-name"] = pick("Shop", "shop front", `a "quoted" one`)
	}
	if r.IntN(4) == 0 {
		p.Annotations["kubesphere.io/creator"] = pick("admin", "bob=1")
	}
	if r.IntN(2) == 0 {
		p.OwnerReferences = []metav1.OwnerReference{{Kind: pick("ReplicaSet", "Job"), Name: "o", UID: types.UID(pick("rs1", "rs2", "job1"))}}
	}
	if r.IntN(4) == 0 {
		p.Spec.Volumes = []corev1.Volume{
			{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: pick("c1", "c2")}}},
			{Name: "w", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c3"}}},
		}
	}
	return p
}

// filter is a parameter and its meaning.
type filter struct {
	key, value string
	holds      func(*corev1.Pod) bool
}

func selects(selector string) func(*corev1.Pod) bool {
	var any []labels.Selector
	for _, s := range strings.Split(selector, "|") {
		parsed, err := labels.Parse(s)
		if err != nil {
			panic(err)
		}
		any = append(any, parsed)
	}
	return func(p *corev1.Pod) bool {
		return slices.ContainsFunc(any, func(s labels.Selector) bool { return s.Matches(labels.Set(p.Labels)) })
	}
}

func owned(uids ...types.UID) func(*corev1.Pod) bool {
	return func(p *corev1.Pod) bool {
		return slices.ContainsFunc(p.OwnerReferences, func(o metav1.OwnerReference) bool { return slices.Contains(uids, o.UID) })
	}
}

func contains(text string) func(*corev1.Pod) bool {
	return func(p *corev1.Pod) bool {
		return strings.Contains(p.Name, text) ||
			strings.Contains(strings.ToLower(p.Annotations["kubesphere.io/alias-name"]), strings.ToLower(text))
	}
}

// phaseStatus is the status that the phase alone implies for pods without container statuses.
var phaseStatus = map[corev1.PodPhase]string{"Running": "Running", "Pending": "Waiting", "Succeeded": "Completed", "Failed": "Error"}

func filters() []filter {
	var out []filter
	add := func(key, value string, holds func(*corev1.Pod) bool) { out = append(out, filter{key, value, holds}) }
	for _, text := range []string{"web", "SHOP", "-1", "nothing at all", `"quoted"`} {
		add("name", text, contains(text))
		add("nameAndAlias", text, contains(text))
	}
	for _, names := range []string{"web-1,db-2,Cache-3", "web-1", "", "absent"} {
		add("names", names, func(p *corev1.Pod) bool { return slices.Contains(strings.Split(names, ","), p.Name) })
	}
	for _, s := range []string{
		"app=x", "app==y,tier=z", "app in (x,y),tier", "!app", "app!=x", "tier notin (x,z)", "app", "app=x|tier=y", "kubesphere.io/workspace=x",
	} {
		add("labelSelector", s, selects(s))
		if !strings.Contains(s, "|") {
			add("label", s, selects(s))
		}
	}
	for _, uid := range []string{"rs1", "job1", "none"} {
		add("ownerReference", uid, owned(types.UID(uid)))
	}
	add("ownerReference", "deployment1", owned("rs1", "rs2")) // through its ReplicaSets
	add("ownerKind", "Job", func(p *corev1.Pod) bool {
		return slices.ContainsFunc(p.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Kind == "Job" })
	})
	add("namespace", "a", func(p *corev1.Pod) bool { return p.Namespace == "a" })
	add("uid", "uid-3", func(p *corev1.Pod) bool { return p.UID == "uid-3" })
	add("annotation", "kubesphere.io/creator", func(p *corev1.Pod) bool { return p.Annotations["kubesphere.io/creator"] != "" })
	add("annotation", "kubesphere.io/creator=bob=1", func(p *corev1.Pod) bool { return p.Annotations["kubesphere.io/creator"] == "bob=1" })
	add("annotation", "kubesphere.io/creator!=admin", func(p *corev1.Pod) bool { return p.Annotations["kubesphere.io/creator"] == "bob=1" })
	add("fieldSelector", "spec.nodeName=n1", func(p *corev1.Pod) bool { return p.Spec.NodeName == "n1" })
	add("fieldSelector", "spec.nodeName!=n1,status.phase=~running", func(p *corev1.Pod) bool { return p.Spec.NodeName != "n1" && p.Status.Phase == "Running" })
	add("fieldSelector", "metadata.labels['app']=x", func(p *corev1.Pod) bool { return p.Labels["app"] == "x" })
	add("fieldSelector", "metadata.name=web-1", func(p *corev1.Pod) bool { return p.Name == "web-1" })
	add("fieldSelector", "spec.volumes[1].persistentVolumeClaim.claimName=c3", func(p *corev1.Pod) bool { return len(p.Spec.Volumes) > 1 })
	add("nodeName", "n2", func(p *corev1.Pod) bool { return p.Spec.NodeName == "n2" })
	add("nodeName", "", func(p *corev1.Pod) bool { return p.Spec.NodeName == "" })
	add("phase", "Pending", func(p *corev1.Pod) bool { return p.Status.Phase == "Pending" })
	for _, s := range []string{"Running", "Waiting", "Completed", "Error"} {
		add("status", s, func(p *corev1.Pod) bool { return phaseStatus[p.Status.Phase] == s })
	}
	add("podIP", "10.0.0.1", func(p *corev1.Pod) bool { return strings.Contains(p.Status.PodIP, "10.0.0.1") })
	add("pvcName", "c1", func(p *corev1.Pod) bool {
		return len(p.Spec.Volumes) > 0 && p.Spec.Volumes[0].PersistentVolumeClaim.ClaimName == "c1"
	})
	add("unknown", "x", func(*corev1.Pod) bool { return true })
	return out
}

// sorts are the orders and their meaning, before the tie is broken.
var sorts = map[string]func(a, b *corev1.Pod) int{
	"":                  created,
	"creationTimestamp": created,
	"createTime":        created,
	"updateTime":        created,
	"name":              func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) },
	"namespace":         func(a, b *corev1.Pod) int { return strings.Compare(a.Namespace, b.Namespace) },
	"startTime":         func(a, b *corev1.Pod) int { return a.Status.StartTime.Compare(b.Status.StartTime.Time) },
	".status.phase,name": func(a, b *corev1.Pod) int {
		if c := strings.Compare(string(a.Status.Phase), string(b.Status.Phase)); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	},
	".spec.priority": func(a, b *corev1.Pod) int { return int(*a.Spec.Priority - *b.Spec.Priority) },
}

func created(a, b *corev1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) }

// scopes are the scopes of tests.
var scopes = []plan.Scope{
	{},
	{Namespace: "a"},
	{Workspace: "x"},
	{Namespace: "b", Workspace: "y"},
	{Namespace: "absent"},
	{
		PartialList: authz.NewPartialList([]string{"a", "b"}, nil),
	},
	{PartialList: authz.NewPartialList([]string{"b"}, []string{"x"})},
	{Namespace: "a", PartialList: authz.NewPartialList([]string{"b"}, nil)},
}

// inScope is the meaning of a scope for pods.
func inScope(s plan.Scope, p *corev1.Pod) bool {
	return (s.Namespace == "" || p.Namespace == s.Namespace) && (s.Workspace == "" || p.Labels["kubesphere.io/workspace"] == s.Workspace) &&
		(s.PartialList == nil || slices.Contains(s.PartialList.Namespaces, p.Namespace))
}

// model is the naive answer: keys in ascending order.
func model(pods []*corev1.Pod, scope plan.Scope, all []filter, compare func(a, b *corev1.Pod) int) []string {
	var kept []*corev1.Pod
	for _, p := range pods {
		ok := inScope(scope, p)
		for _, f := range all {
			ok = ok && f.holds(p)
		}
		if ok {
			kept = append(kept, p)
		}
	}
	slices.SortFunc(kept, func(a, b *corev1.Pod) int {
		if c := compare(a, b); c != 0 {
			return c
		}
		return strings.Compare(a.Namespace+"\x00"+a.Name, b.Namespace+"\x00"+b.Name)
	})
	out := make([]string, len(kept))
	for i, p := range kept {
		out[i] = p.Namespace + "/" + p.Name
	}
	return out
}

func keysOf(t testing.TB, p *page.Page) []string {
	t.Helper()
	out := []string{}
	for i := range p.Len() {
		var o metav1.PartialObjectMetadata
		if err := json.Unmarshal([]byte(itemOf(p, i)), &o); err != nil {
			t.Fatal(err)
		}
		out = append(out, o.Namespace+"/"+o.Name)
	}
	return out
}

func TestEngineAnswersLikeTheModel(t *testing.T) {
	var sortKeys []string
	for k := range sorts {
		sortKeys = append(sortKeys, k)
	}
	slices.Sort(sortKeys)
	all := filters()
	for seed := uint64(1); seed <= seeds; seed++ {
		r := rand.New(rand.NewPCG(seed, 2))
		pods := make([]*corev1.Pod, r.IntN(120))
		var objects []string
		for i := range pods {
			pods[i] = randomPod(r, i)
			text, _ := json.Marshal(pods[i])
			objects = append(objects, string(text))
		}
		sets := []string{}
		for _, n := range []string{"rs1", "rs2"} {
			sets = append(sets, `{"kind":"ReplicaSet","apiVersion":"apps/v1","metadata":{"name":"`+n+`","namespace":"a","uid":"`+n+
				`","resourceVersion":"5","ownerReferences":[{"kind":"Deployment","name":"d","uid":"deployment1"}]}}`)
		}
		w := newWorld(t, map[string][]string{"/api/v1/pods": objects, "/apis/apps/v1/replicasets": sets}, Options{})
		kind := w.resolve(t, "", "pods")
		check := func(scope plan.Scope, chosen []filter, sortBy string) {
			t.Helper()
			values := url.Values{}
			for _, f := range chosen {
				values.Set(f.key, f.value)
			}
			if sortBy != "" {
				values.Set("sortBy", sortBy)
			}
			want := model(pods, scope, chosen, sorts[sortBy])
			compareWithModel(t, w, kind, scope, values, want)
		}
		for _, f := range all {
			for _, scope := range scopes {
				check(scope, []filter{f}, sortKeys[r.IntN(len(sortKeys))])
			}
		}
		for _, s := range sortKeys {
			check(plan.Scope{}, nil, s)
			check(plan.Scope{Namespace: "default"}, nil, s)
		}
		for range 200 { // several filters, never two of one key
			var chosen []filter
			used := map[string]bool{}
			for range r.IntN(4) {
				if f := all[r.IntN(len(all))]; !used[f.key] {
					used[f.key] = true
					chosen = append(chosen, f)
				}
			}
			check(plan.Scope{Namespace: []string{"", "", "a", "absent"}[r.IntN(4)]}, chosen, sortKeys[r.IntN(len(sortKeys))])
		}
	}
}

// compareWithModel checks the whole list in both orders, and that pages partition it.
func compareWithModel(t testing.TB, w *world, kind *store.Kind, scope plan.Scope, values url.Values, want []string) {
	t.Helper()
	ask := func(extra ...string) *page.Page {
		v := url.Values{}
		for k, s := range values {
			v[k] = s
		}
		for i := 0; i < len(extra); i += 2 {
			v.Set(extra[i], extra[i+1])
		}
		q, err := query.Parse(v)
		if err != nil {
			t.Fatalf("%v: %v", v, err)
		}
		p, err := w.List(context.Background(), kind, scope, q)
		if err != nil {
			t.Fatalf("%v: %v", v, err)
		}
		if p.Total != len(want) {
			t.Fatalf("%+v %v: total %d, the model counts %d", scope, v, p.Total, len(want))
		}
		return p
	}
	up := keysOf(t, ask("ascending", "true"))
	if !slices.Equal(up, append([]string{}, want...)) {
		t.Fatalf("%+v %v:\ngot  %v\nwant %v", scope, values, up, want)
	}
	down := keysOf(t, ask())
	slices.Reverse(down)
	if !slices.Equal(down, up) {
		t.Fatalf("%+v %v: descending is not the reverse", scope, values)
	}
	for _, limit := range []int{1, 7} {
		if limit == 1 && len(want) > 12 {
			continue
		}
		var paged []string
		for page := 1; ; page++ {
			p := ask("ascending", "true", "limit", strconv.Itoa(limit), "page", strconv.Itoa(page))
			paged = append(paged, keysOf(t, p)...)
			if p.Len() > 0 && p.Remaining != len(want)-len(paged) {
				t.Fatalf("remaining %d behind %d of %d", p.Remaining, len(paged), len(want))
			}
			if p.Len() == 0 {
				break
			}
		}
		if !slices.Equal(paged, up) {
			t.Fatalf("%+v %v: pages of %d do not partition the list", scope, values, limit)
		}
	}
}
