package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// modelPods is how many pods the queries are compared on; QUERY_PODS sets another number.
const modelPods = 10_000

// model is what kube-apiserver itself says there is, and the plain way to answer: look at everything.
type model struct {
	pods       []corev1.Pod
	namespaces []string
}

// condition is a filter as a client writes it, and what it means.
type condition struct {
	param, value string
	holds        func(*corev1.Pod) bool
}

// ordering is a sort as a client writes it, and what it means.
type ordering struct {
	sortBy  string
	compare func(a, b *corev1.Pod) int
}

func conditions(namespaces []string, uid string) []condition {
	selector := func(text string) func(*corev1.Pod) bool {
		s, err := labels.Parse(text)
		if err != nil {
			panic(err)
		}
		return func(p *corev1.Pod) bool { return s.Matches(labels.Set(p.Labels)) }
	}
	either, or := selector("tier=web,shard in (1,2)"), selector("tier=db,shard=7")
	alias := func(p *corev1.Pod) string { return p.Annotations["kubesphere.io/alias-name"] }
	priority := func(p *corev1.Pod) int { n, _ := strconv.Atoi(p.Annotations["priority"]); return n }
	return []condition{
		{"name", "-12", func(p *corev1.Pod) bool {
			return strings.Contains(p.Name, "-12") || strings.Contains(strings.ToLower(alias(p)), "-12")
		}},
		{"name", "pod 77", func(p *corev1.Pod) bool { return strings.Contains(strings.ToLower(alias(p)), "pod 77") }},
		{"names", "m-00010,m-00500,none", func(p *corev1.Pod) bool { return p.Name == "m-00010" || p.Name == "m-00500" }},
		{"uid", uid, func(p *corev1.Pod) bool { return string(p.UID) == uid }},
		{"namespace", namespaces[1], func(p *corev1.Pod) bool { return p.Namespace == namespaces[1] }},
		{"label", "tier=web", selector("tier=web")},
		{"labelSelector", "tier=web", selector("tier=web")},
		{"labelSelector", "tier in (web,cache),shard!=3", selector("tier in (web,cache),shard!=3")},
		{"labelSelector", "!odd", selector("!odd")},
		{"labelSelector", "tier=web,shard in (1,2)|tier=db,shard=7", func(p *corev1.Pod) bool { return either(p) || or(p) }},
		{"annotation", "priority=3", func(p *corev1.Pod) bool { return p.Annotations["priority"] == "3" }},
		{"annotation", "priority", func(p *corev1.Pod) bool { _, ok := p.Annotations["priority"]; return ok }},
		{"fieldSelector", "spec.restartPolicy=Never", func(p *corev1.Pod) bool { return p.Spec.RestartPolicy == corev1.RestartPolicyNever }},
		{"fieldSelector", "spec.containers[0].image=~EXAMPLE/WEB,spec.schedulerName!=x", func(p *corev1.Pod) bool {
			return strings.EqualFold(p.Spec.Containers[0].Image, "example/web")
		}},
		{"fieldSelector", "metadata.name=m-00042", func(p *corev1.Pod) bool { return p.Name == "m-00042" }},
		{"phase", "Pending", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodPending }},
		{"pvcName", "claim-3", func(p *corev1.Pod) bool {
			return slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool {
				return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == "claim-3"
			})
		}},
		{"q", "CACHE 7", func(p *corev1.Pod) bool { return holdsText(p, "cache") && holdsText(p, "7") }},
		{"cel", `object.metadata.labels.tier == "db" && int(object.metadata.annotations.priority) > 5`, func(p *corev1.Pod) bool {
			return p.Labels["tier"] == "db" && priority(p) > 5
		}},
		{"cel", `object.spec.containers.exists(c, c.image.endsWith("/cache"))`, func(p *corev1.Pod) bool {
			return strings.HasSuffix(p.Spec.Containers[0].Image, "/cache")
		}},
	}
}

// holdsText looks for a text in everything that q looks at.
func holdsText(p *corev1.Pod, text string) bool {
	all := []string{p.Name}
	for _, pairs := range []map[string]string{p.Labels, p.Annotations} {
		for k, v := range pairs {
			all = append(all, k, v)
		}
	}
	return slices.ContainsFunc(all, func(s string) bool { return strings.Contains(strings.ToLower(s), text) })
}

func orderings() []ordering {
	created := func(a, b *corev1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) }
	name := func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) }
	cpu := func(p *corev1.Pod) *resource.Quantity { return p.Spec.Containers[0].Resources.Requests.Cpu() }
	return []ordering{
		{"", created},
		{"creationTimestamp", created},
		{"name", name},
		{"namespace", func(a, b *corev1.Pod) int { return strings.Compare(a.Namespace, b.Namespace) }},
		{".metadata.labels.tier,name", func(a, b *corev1.Pod) int {
			return cmp.Or(strings.Compare(a.Labels["tier"], b.Labels["tier"]), name(a, b))
		}},
		{".spec.containers[0].resources.requests.cpu", func(a, b *corev1.Pod) int { return cpu(a).Cmp(*cpu(b)) }},
		{".spec.terminationGracePeriodSeconds,.spec.restartPolicy", func(a, b *corev1.Pod) int {
			return cmp.Or(cmp.Compare(*a.Spec.TerminationGracePeriodSeconds, *b.Spec.TerminationGracePeriodSeconds),
				strings.Compare(string(a.Spec.RestartPolicy), string(b.Spec.RestartPolicy)))
		}},
	}
}

// modelPod is one of many that differ in what queries look at.
func modelPod(i int) *corev1.Pod {
	tier := [...]string{"web", "db", "cache"}[i%3]
	grace := int64(i % 40)
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name:        fmt.Sprintf("m-%05d", i),
			Labels:      map[string]string{"tier": tier, "shard": strconv.Itoa(i % 11), "model": "true"},
			Annotations: map[string]string{"priority": strconv.Itoa(i % 9), "kubesphere.io/alias-name": fmt.Sprintf("Pod %d", i)},
		},
		Spec: corev1.PodSpec{
			SchedulerName: "nobody", TerminationGracePeriodSeconds: &grace, RestartPolicy: corev1.RestartPolicyAlways,
			Containers: []corev1.Container{{Name: "main", Image: "example/" + tier, Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse([...]string{"1", "250m", "1500m", "2", "1e-1"}[i%5])},
			}}},
		},
	}
	if i%4 == 0 {
		p.Spec.RestartPolicy = corev1.RestartPolicyNever
	}
	if i%2 == 1 {
		p.Labels["odd"] = ""
	}
	if i%10 == 0 {
		p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: fmt.Sprintf("claim-%d", i%70/10)},
		}}}
	}
	return p
}

func kubeClient(t *testing.T) *kubernetes.Clientset {
	t.Helper()
	config, err := product.RESTConfig()
	if err != nil {
		t.Fatal(err)
	}
	config = rest.CopyConfig(config)
	config.QPS, config.ContentType = -1, "application/vnd.kubernetes.protobuf"
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// seedModel fills namespaces with pods, and returns what kube-apiserver says of all pods there are.
func seedModel(t *testing.T, kube *kubernetes.Clientset) *model {
	t.Helper()
	n := modelPods
	if text := os.Getenv("QUERY_PODS"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil || n < 1000 {
			t.Fatalf("QUERY_PODS is %q, want a number from 1000", text)
		}
	}
	m := &model{}
	for range 5 {
		ns := newNamespace(t)
		m.namespaces = append(m.namespaces, ns)
		eventually(t, "the service account of "+ns, func(ctx context.Context) error {
			_, err := kube.CoreV1().ServiceAccounts(ns).Get(ctx, "default", metav1.GetOptions{})
			return err
		})
		t.Cleanup(func() { // the namespace's deletion would take them one by one
			now := int64(0)
			_ = kube.CoreV1().Pods(ns).DeleteCollection(context.Background(), metav1.DeleteOptions{GracePeriodSeconds: &now}, metav1.ListOptions{})
		})
	}
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(16)
	for i := range n {
		group.Go(func() error {
			_, err := kube.CoreV1().Pods(m.namespaces[i%len(m.namespaces)]).Create(ctx, modelPod(i), metav1.CreateOptions{})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	for _, ns := range m.namespaces {
		list, err := kube.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		m.pods = append(m.pods, list.Items...)
	}
	if len(m.pods) != n {
		t.Fatalf("%d pods were created, %d are there", n, len(m.pods))
	}
	return m
}

// answer is the plain way: filter all, sort all.
func (m *model) answer(namespace string, filters []condition, o ordering, ascending bool) []string {
	var found []*corev1.Pod
	for i := range m.pods {
		p := &m.pods[i]
		if (namespace == "" || p.Namespace == namespace) && !slices.ContainsFunc(filters, func(c condition) bool { return !c.holds(p) }) {
			found = append(found, p)
		}
	}
	slices.SortFunc(found, func(a, b *corev1.Pod) int {
		c := cmp.Or(o.compare(a, b), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
		if !ascending {
			c = -c
		}
		return c
	})
	keys := make([]string, len(found))
	for i, p := range found {
		keys[i] = p.Namespace + "/" + p.Name
	}
	return keys
}

// Every form of a query answers as looking at everything does, on pods of a real cluster, at any page (U20).
func TestQueriesOfManyPodsAnswerLikeThePlainModel(t *testing.T) {
	kube, a := kubeClient(t), admin(t)
	m := seedModel(t, kube)
	eventually(t, "all pods are in the cache", func(ctx context.Context) error {
		r, err := a.do(ctx, http.MethodGet, kapis+"/pods?limit=0&labelSelector=model%3Dtrue", nil)
		if err != nil {
			return err
		}
		var l list
		if err := json.Unmarshal([]byte(r.body), &l); err != nil || l.TotalItems == nil || *l.TotalItems != len(m.pods) {
			return fmt.Errorf("%d %s", r.code, clip(r.body))
		}
		return nil
	})
	filters, orders := conditions(m.namespaces, string(m.pods[7].UID)), orderings()
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 4 * len(filters) * len(orders) {
		chosen := []condition{{"labelSelector", "model=true", func(*corev1.Pod) bool { return true }}}
		first := filters[i%len(filters)]
		if first.param == "labelSelector" {
			chosen = nil // one selector is what a query has; those of the table hold for no other pods
		}
		chosen = append(chosen, first)
		if second := filters[random.IntN(len(filters))]; random.IntN(2) == 0 &&
			!slices.ContainsFunc(chosen, func(c condition) bool { return c.param == second.param }) {
			chosen = append(chosen, second)
		}
		namespace := m.namespaces[random.IntN(len(m.namespaces))]
		if !slices.ContainsFunc(chosen, func(c condition) bool { return c.value == "model=true" }) || random.IntN(2) == 0 {
			// other pods of the cluster may match what is not asked for by the model's label
		} else {
			namespace = ""
		}
		m.compare(t, a, namespace, chosen, orders[i/len(filters)%len(orders)], random)
	}
}

// compare asks for one page of a query, and holds it against the plain answer.
func (m *model) compare(t *testing.T, a caller, namespace string, filters []condition, o ordering, random *rand.Rand) {
	t.Helper()
	ascending := random.IntN(2) == 0
	want := m.answer(namespace, filters, o, ascending)
	limit := [...]int{1, 7, 10, 100, -1}[random.IntN(5)]
	page := 1
	if limit > 0 {
		page += random.IntN(len(want)/limit + 2)
	}
	values := url.Values{
		"limit":     {strconv.Itoa(limit)},
		"page":      {strconv.Itoa(page)},
		"ascending": {strconv.FormatBool(ascending)},
		"fields":    {".metadata.name,.metadata.namespace"},
	}
	for _, f := range filters {
		values.Set(f.param, f.value)
	}
	if o.sortBy != "" {
		values.Set("sortBy", o.sortBy)
	}
	root := [...]string{kapis, "/kapi/v1"}[random.IntN(2)]
	if namespace != "" {
		root += "/namespaces/" + namespace
	}
	path := root + "/pods?" + values.Encode()
	got := a.list(t, path)
	start, end := 0, len(want)
	if limit > 0 {
		start = min((page-1)*limit, len(want))
		end = min(start+limit, len(want))
	}
	keys := make([]string, len(got.Items))
	for i, item := range got.Items {
		keys[i] = item.Metadata.Namespace + "/" + item.Metadata.Name
	}
	if got.TotalItems == nil || *got.TotalItems != len(want) || !slices.Equal(keys, want[start:end]) {
		decoded, _ := url.QueryUnescape(path)
		t.Errorf("%s:\n got %d of %v: %.300v\nwant %d of %d: %.300v", decoded, len(keys), got.TotalItems, keys, end-start, len(want), want[start:end])
	}
}
