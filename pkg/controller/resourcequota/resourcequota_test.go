package resourcequota

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	quotav1alpha2 "kapis.dev/ks-apiserver/pkg/api/quota/v1alpha2"
)

// world is a cluster with the workspace w, which has the namespaces a and b, and the namespace c without a workspace; and one controller.
type world struct {
	t       *testing.T
	api     client.WithWatch
	r       *Reconciler
	v       *Validator
	tallies map[schema.GroupResource]*usageCounter
	needed  sync.Map     // by quota
	now     atomic.Int64 // seconds
	serial  atomic.Int64
}

func workspace(name string) map[string]string {
	return map[string]string{"kubesphere.io/workspace": name}
}

func newWorld(t *testing.T, hard string) *world {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, quotav1alpha2.AddToScheme} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	objects := []client.Object{&quotav1alpha2.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "w"}, Spec: quotav1alpha2.ResourceQuotaSpec{
		Selector: workspace("w"), Quota: *parse[corev1.ResourceQuotaSpec](t, hard),
	}}}
	for namespace, w := range map[string]string{"a": "w", "b": "w", "c": "other"} {
		objects = append(objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: workspace(w)}})
	}
	w := &world{t: t, tallies: map[schema.GroupResource]*usageCounter{}}
	w.api = fake.NewClientBuilder().WithScheme(s).WithObjects(objects...).WithStatusSubresource(&quotav1alpha2.ResourceQuota{}).Build()
	clock := func() time.Time { return time.Unix(1_800_000_000+w.now.Load(), 0) }
	quiet := func(string, bool) {}
	w.tallies[pods()] = newUsageCounter(func(o any) *use { return ofPod(o.(*corev1.Pod)) }, quiet, clock)
	w.tallies[services()] = newUsageCounter(func(o any) *use { return ofService(o.(*corev1.Service)) }, quiet, clock)
	for _, counter := range w.tallies {
		counter.synced.Store(true)
	}
	w.r = w.reconciler(clock)
	w.v = NewValidator(w.api, w.api, w.api)
	return w
}

func (w *world) reconciler(clock func() time.Time) *Reconciler {
	return &Reconciler{
		Client: w.api, Events: events.NewFakeRecorder(10), Now: clock,
		need: func(quota string, kinds []schema.GroupResource) { w.needed.Store(quota, kinds) },
		follow: func(gr schema.GroupResource) *usageCounter {
			if kinds, ok := w.needed.Load("w"); !ok || !slices.Contains(kinds.([]schema.GroupResource), gr) {
				w.t.Errorf("%s is followed, and nobody was told that it is needed", gr)
			}
			if w.tallies[gr] == nil {
				t := newUsageCounter(nil, nil, clock)
				t.tell(fmt.Errorf("there are no %s", gr))
				w.tallies[gr] = t
			}
			return w.tallies[gr]
		},
	}
}

func (w *world) look() reconcile.Result {
	w.t.Helper()
	res, err := w.r.Reconcile(w.t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "w"}})
	if err != nil {
		w.t.Fatal(err)
	}
	return res
}

func (w *world) quota() *quotav1alpha2.ResourceQuota {
	w.t.Helper()
	q := &quotav1alpha2.ResourceQuota{}
	if err := w.api.Get(context.Background(), types.NamespacedName{Name: "w"}, q); err != nil {
		w.t.Fatal(err)
	}
	return q
}

func (w *world) total(want string) {
	w.t.Helper()
	expect(w.t, w.quota().Status.Total.Used, list(w.t, want))
}

func (w *world) pod(namespace, cpu string) *corev1.Pod {
	p := parse[corev1.Pod](w.t, "{spec: {containers: [{name: a, resources: {requests: {cpu: "+cpu+"}}}]}}")
	p.Namespace, p.Name = namespace, fmt.Sprintf("p%d", w.serial.Add(1))
	p.UID = types.UID(p.Name)
	return p
}

// ask asks a validator whether a pod may be created.
func ask(t *testing.T, v *Validator, p *corev1.Pod, dry bool) admission.Response {
	t.Helper()
	return v.Handle(t.Context(), request(t, admissionv1.Create, "pods", "", p, nil, dry))
}

func request(t *testing.T, op admissionv1.Operation, resource, sub string, now, before client.Object, dry bool) admission.Request {
	t.Helper()
	raw := func(o client.Object) runtime.RawExtension {
		b, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		return runtime.RawExtension{Raw: b}
	}
	r := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Operation: op, Resource: metav1.GroupVersionResource{Version: "v1", Resource: resource}, SubResource: sub, DryRun: &dry,
	}}
	if now != nil {
		r.Namespace, r.Object = now.GetNamespace(), raw(now)
	}
	if before != nil {
		r.OldObject = raw(before)
	}
	return r
}

// arrive is kube-apiserver's watch.
func (w *world) arrive(p *corev1.Pod) { _ = w.tallies[pods()].Add(p) }
func (w *world) leave(p *corev1.Pod)  { _ = w.tallies[pods()].Delete(p) }

func TestUseOfAllNamespacesIsAddedUp(t *testing.T) {
	w := newWorld(t, "{hard: {pods: 10, requests.cpu: 4}}")
	for _, namespace := range []string{"a", "a", "b", "c"} {
		w.arrive(w.pod(namespace, "500m"))
	}
	w.look()
	s := w.quota().Status
	expect(t, s.Total.Hard, list(t, "{pods: 10, requests.cpu: 4}"))
	expect(t, s.Total.Used, list(t, "{pods: 3, requests.cpu: 1500m}"))
	if len(s.Namespaces) != 2 || s.Namespaces[0].Namespace != "a" || s.Namespaces[1].Namespace != "b" {
		t.Fatalf("%+v", s.Namespaces)
	}
	expect(t, s.Namespaces[0].Used, list(t, "{pods: 2, requests.cpu: 1}"))
	before := w.quota().ResourceVersion
	if w.look(); w.quota().ResourceVersion != before {
		t.Error("a second look wrote")
	}
}

func TestAMovedNamespaceIsRecounted(t *testing.T) {
	w := newWorld(t, "{hard: {pods: 10}}")
	w.arrive(w.pod("a", "1"))
	w.arrive(w.pod("c", "1"))
	w.look()
	w.total("{pods: 1}")
	for _, to := range []struct{ workspace, want string }{{"w", "{pods: 2}"}, {"other", "{pods: 1}"}} {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "c", Labels: workspace(to.workspace)}}
		if err := w.api.Update(t.Context(), ns); err != nil {
			t.Fatal(err)
		}
		w.look()
		w.total(to.want)
	}
}

func TestTheLimitHoldsAndItsMessageSaysWhich(t *testing.T) {
	w := newWorld(t, "{hard: {pods: 2, requests.cpu: 3}}")
	w.look()
	if r := ask(t, w.v, w.pod("a", "2"), false); !r.Allowed {
		t.Fatal(r.Result)
	}
	r := ask(t, w.v, w.pod("b", "2"), false)
	if r.Allowed || r.Result.Code != http.StatusForbidden ||
		r.Result.Message != "exceeded quota: w, requested: requests.cpu=2, used: requests.cpu=2, limited: requests.cpu=3" {
		t.Errorf("%+v", r.Result)
	}
	if r := ask(t, w.v, w.pod("c", "2"), false); !r.Allowed {
		t.Error("another workspace is limited")
	}
	p := w.pod("a", "1")
	p.Spec.Containers[0].Resources.Requests = nil
	if r := ask(t, w.v, p, false); r.Allowed || r.Result.Message != "failed quota: w: must specify requests.cpu for: a" {
		t.Errorf("%+v", r.Result)
	}
	w.total("{pods: 1, requests.cpu: 2}")
}

func TestADryRunIsAnsweredAndReservesNothing(t *testing.T) {
	w := newWorld(t, "{hard: {pods: 1}}")
	w.look()
	for range 3 {
		if r := ask(t, w.v, w.pod("a", "1"), true); !r.Allowed {
			t.Fatal(r.Result)
		}
	}
	w.total("{pods: 0}")
	ask(t, w.v, w.pod("a", "1"), false)
	if r := ask(t, w.v, w.pod("a", "1"), true); r.Allowed {
		t.Error("a dry run passes the limit")
	}
}

func TestOfTwoHundredAtOnceNoMorePassThanTheLimit(t *testing.T) {
	w := newWorld(t, "{hard: {pods: 50}}")
	w.look()
	replicas := []*Validator{w.v, NewValidator(w.api, w.api, w.api), NewValidator(w.api, w.api, w.api)}
	var group sync.WaitGroup
	var passed atomic.Int64
	for i := range 200 {
		p := w.pod([]string{"a", "b"}[i%2], "1")
		group.Go(func() {
			r := ask(t, replicas[i%len(replicas)], p, false)
			if r.Allowed {
				passed.Add(1)
				w.arrive(p)
			} else if r.Result.Code != http.StatusForbidden {
				t.Errorf("%+v", r.Result)
			}
		})
		if i%10 == 0 { // the controller counts all the while
			group.Go(func() {
				if _, err := w.r.Reconcile(context.Background(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "w"}}); err != nil &&
					!apierrors.IsConflict(err) {
					t.Error(err)
				}
			})
		}
	}
	group.Wait()
	if n := passed.Load(); n != 50 {
		t.Errorf("%d of 50 passed", n)
	}
	for range 3 {
		w.look()
	}
	w.total("{pods: 50}")
}

func TestAReservationEndsWhenItsObjectArrives(t *testing.T) {
	w := newWorld(t, "{hard: {pods: 3}}")
	w.look()
	first, second := w.pod("a", "1"), w.pod("a", "1")
	ask(t, w.v, first, false)
	ask(t, w.v, second, false)
	if res := w.look(); res.RequeueAfter <= 0 || res.RequeueAfter > reservationTimeout {
		t.Errorf("looks again after %v", res.RequeueAfter)
	}
	w.total("{pods: 2}")
	w.arrive(first)
	w.look()
	w.total("{pods: 2}") // one exists, and one is reserved
	w.leave(first)
	w.look()
	w.total("{pods: 1}") // deleted amounts are free at once
	w.arrive(second)
	if res := w.look(); res.RequeueAfter != 0 {
		t.Errorf("still waits %v", res.RequeueAfter)
	}
	w.total("{pods: 1}")
}

func TestAReservationOfWhatNeverArrivesRunsOut(t *testing.T) {
	w := newWorld(t, "{hard: {pods: 3}}")
	w.look()
	ask(t, w.v, w.pod("a", "1"), false)
	w.look()
	w.now.Add(int64(reservationTimeout/time.Second) - 1)
	w.look()
	w.total("{pods: 1}")
	w.now.Add(1)
	w.look()
	w.total("{pods: 0}")
}

func TestANewLeaderKeepsReservationsForAWhile(t *testing.T) {
	w := newWorld(t, "{hard: {pods: 3}}")
	w.look()
	ask(t, w.v, w.pod("a", "1"), false)
	w.r = w.reconciler(w.r.Now)
	w.look()
	w.total("{pods: 1}")
	w.now.Add(int64(reservationTimeout / time.Second))
	w.look()
	w.total("{pods: 0}")
}

func TestWhatASecondQuotaRefusesTheFirstGetsBack(t *testing.T) {
	w := newWorld(t, "{hard: {pods: 10}}")
	if err := w.api.Create(t.Context(), &quotav1alpha2.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "z"}, Spec: quotav1alpha2.ResourceQuotaSpec{
		Selector: workspace("w"), Quota: *parse[corev1.ResourceQuotaSpec](t, "{hard: {pods: 0}}"),
	}, Status: quotav1alpha2.ResourceQuotaStatus{Total: corev1.ResourceQuotaStatus{Used: list(t, "{pods: 0}")}}}); err != nil {
		t.Fatal(err)
	}
	z := &quotav1alpha2.ResourceQuota{}
	_ = w.api.Get(t.Context(), types.NamespacedName{Name: "z"}, z)
	z.Status.Total.Used = list(t, "{pods: 0}")
	if err := w.api.Status().Update(t.Context(), z); err != nil {
		t.Fatal(err)
	}
	w.look()
	if r := ask(t, w.v, w.pod("a", "1"), false); r.Allowed || !strings.Contains(r.Result.Message, "exceeded quota: z") {
		t.Fatalf("%+v", r.Result)
	}
	w.total("{pods: 0}")
}

func TestOnlyGrowthIsAskedFor(t *testing.T) {
	w := newWorld(t, "{hard: {services.nodeports: 2, requests.cpu: 2}}")
	w.look()
	service := func(ports string) *corev1.Service {
		s := parse[corev1.Service](t, "{spec: {type: NodePort, ports: "+ports+"}}")
		s.Namespace, s.Name = "a", "s"
		return s
	}
	one, two, three := service("[{port: 1}]"), service("[{port: 1}, {port: 2}]"), service("[{port: 1}, {port: 2}, {port: 3}]")
	small, large := w.pod("a", "1"), w.pod("a", "3")
	for _, c := range []struct {
		name string
		req  admission.Request
		want bool
	}{
		{"create", request(t, admissionv1.Create, "services", "", one, nil, false), true},
		{"grow", request(t, admissionv1.Update, "services", "", two, one, false), true},
		{"grow too much", request(t, admissionv1.Update, "services", "", three, two, false), false},
		{"shrink while full", request(t, admissionv1.Update, "services", "", one, two, false), true},
		{"status", request(t, admissionv1.Update, "services", "status", three, two, false), true},
		{"delete", request(t, admissionv1.Delete, "services", "", nil, two, false), true},
		{"resize a pod", request(t, admissionv1.Update, "pods", "resize", large, small, false), true},
		{"resize beyond", request(t, admissionv1.Update, "pods", "resize", w.pod("a", "4"), small, false), false},
		{"what is not limited", request(t, admissionv1.Create, "configmaps", "", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a"}}, nil, false), true},
		{"no object", request(t, admissionv1.Create, "services", "", &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "nowhere"}}, nil, false), true},
	} {
		if r := w.v.Handle(t.Context(), c.req); r.Allowed != c.want {
			t.Errorf("%s: %+v", c.name, r.Result)
		}
	}
}

func TestAQuotaThatIsNotCountedYetLetsNothingPass(t *testing.T) {
	w := newWorld(t, "{hard: {pods: 10}}")
	if r := ask(t, w.v, w.pod("a", "1"), false); r.Allowed || !strings.Contains(r.Result.Message, "not known yet") {
		t.Errorf("%+v", r.Result)
	}
	w.tallies[pods()].synced.Store(false)
	if res := w.look(); res.RequeueAfter != syncRetry || w.quota().Status.Total.Used != nil {
		t.Errorf("%v, and %v is said to be used before the pods are known", res, w.quota().Status.Total.Used)
	}
}

func TestBrokenObjectsAreRefused(t *testing.T) {
	w := newWorld(t, "{hard: {pods: 10}}")
	w.look()
	req := request(t, admissionv1.Create, "pods", "", w.pod("a", "1"), nil, false)
	req.Object.Raw = []byte(`{"spec":7}`)
	if r := w.v.Handle(t.Context(), req); r.Allowed || r.Result.Code != http.StatusBadRequest {
		t.Errorf("%+v", r.Result)
	}
}

func TestTalliesShareWhatIsTheSame(t *testing.T) {
	w := newWorld(t, "{hard: {pods: 10}}")
	counter := w.tallies[pods()]
	var all []any
	for range 100 {
		p := w.pod("a", "1")
		all = append(all, p)
		w.arrive(p)
	}
	if len(counter.uses) != 1 || len(counter.spaces["a"].count) != 1 || len(counter.arrivals) != 100 {
		t.Errorf("%d uses, %d arrivals", len(counter.uses), len(counter.arrivals))
	}
	if err := counter.Replace(all[:40], ""); err != nil || len(counter.spaces["a"].objects) != 40 || len(counter.arrivals) != 100 {
		t.Errorf("%d objects after a new list, %d arrivals", len(counter.spaces["a"].objects), len(counter.arrivals))
	}
	ended := all[0].(*corev1.Pod).DeepCopy()
	ended.Status.Phase = corev1.PodSucceeded
	w.arrive(ended)
	if len(counter.arrivals) != 100 || counter.spaces["a"].count[counter.spaces["a"].objects[ended.UID]] != 1 {
		t.Error("what ended counts as an arrival, or still as running")
	}
	w.now.Add(int64(2 * reservationTimeout / time.Second))
	w.arrive(w.pod("a", "1"))
	if len(counter.arrivals) != 1 {
		t.Errorf("%d arrivals are kept", len(counter.arrivals))
	}
	if _ = counter.Replace(nil, ""); len(counter.uses) != 0 || len(counter.spaces) != 0 {
		t.Errorf("%d uses, %d namespaces are left of nothing", len(counter.uses), len(counter.spaces))
	}
}

// broken answers every read of a quota and every write of a status with an error.
type broken struct {
	client.WithWatch
	err error
}

func (b *broken) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if _, ok := o.(*quotav1alpha2.ResourceQuota); ok {
		return b.err
	}
	return b.WithWatch.Get(ctx, key, o, opts...)
}

// S60: without a decision, a request is refused.
func TestWhereAQuotaCantBeReadNothingPasses(t *testing.T) {
	w := newWorld(t, "{hard: {pods: 10}}")
	w.look()
	v := NewValidator(w.api, &broken{w.api, apierrors.NewServiceUnavailable("etcd is away")}, w.api)
	if r := ask(t, v, w.pod("a", "1"), false); r.Allowed || r.Result.Code != http.StatusInternalServerError {
		t.Errorf("%+v", r.Result)
	}
	v = NewValidator(w.api, &broken{w.api, apierrors.NewNotFound(quotav1alpha2.Resource("resourcequotas"), "w")}, w.api)
	if r := ask(t, v, w.pod("a", "1"), false); !r.Allowed {
		t.Errorf("a quota that was deleted a moment ago limits: %+v", r.Result)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	slow := &reservationBatcher{live: &broken{w.api, context.Canceled}, write: w.api}
	if err := slow.reserve(ctx, "w", order{amounts: list(t, "{pods: 1}")}); err == nil {
		t.Error("who does not wait gets it")
	}
}

func TestOnlyALimitOnSomethingUnknownIsSaid(t *testing.T) {
	w := newWorld(t, "{hard: {count/widgets.example.com: 10, pods: 10}}")
	told := w.r.Events.(*events.FakeRecorder).Events
	if res := w.look(); res.RequeueAfter != syncRetry || len(told) > 0 || w.quota().Status.Total.Used != nil {
		t.Errorf("at first: %v, %d events, %v", res, len(told), w.quota().Status.Total.Used)
	}
	w.now.Add(int64(syncTimeout / time.Second))
	if res := w.look(); res.RequeueAfter != uncountedRetry {
		t.Errorf("%v", res)
	}
	if e := <-told; !strings.Contains(e, "NotCounted") || !strings.Contains(e, "there are no widgets.example.com") {
		t.Error(e)
	}
	w.total("{pods: 0}")
	if r := ask(t, w.v, w.pod("a", "1"), false); !r.Allowed {
		t.Errorf("what is counted is refused: %+v", r.Result)
	}
	widget := request(t, admissionv1.Create, "widgets", "", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a"}}, nil, false)
	widget.Resource.Group = "example.com"
	if r := w.v.Handle(t.Context(), widget); r.Allowed || !strings.Contains(r.Result.Message, "not known yet") {
		t.Errorf("what can't be counted passes: %+v", r.Result)
	}
	if res := w.look(); res.RequeueAfter != uncountedRetry {
		t.Errorf("a reservation that waits longer: %v", res)
	}
	w.total("{pods: 1}")
}

// A limit that a former leader counted and this one can't count must admit nothing: its total is removed, with its reservations.
func TestWhatCanNoLongerBeCountedLetsNothingPass(t *testing.T) {
	w := newWorld(t, "{hard: {count/widgets.example.com: 10}}")
	q := w.quota()
	q.Status.Total.Used = list(t, "{count/widgets.example.com: 2}") // one is reserved
	q.Status.Namespaces = []quotav1alpha2.NamespaceUsage{
		{Namespace: "a", ResourceQuotaStatus: corev1.ResourceQuotaStatus{Used: list(t, "{count/widgets.example.com: 1}")}},
	}
	if err := w.api.Status().Update(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	w.look()
	w.total("{count/widgets.example.com: 2}") // the failure may be temporary
	w.now.Add(int64(syncTimeout / time.Second))
	w.look()
	w.total("{}")
}

func TestObjectsThatTakeLongAreWaitedForLessAndLessOften(t *testing.T) {
	w := newWorld(t, "{hard: {pods: 10}}")
	w.tallies[pods()].synced.Store(false)
	for after, want := range map[int64]time.Duration{0: syncRetry, 3: 300 * time.Millisecond, 3600: uncountedRetry} {
		w.now.Store(after)
		if res := w.look(); res.RequeueAfter != want || w.quota().Status.Total.Used != nil {
			t.Errorf("after %d s: %v", after, res)
		}
	}
	if n := len(w.r.Events.(*events.FakeRecorder).Events); n > 0 {
		t.Errorf("%d events", n)
	}
}

// Users who write a workspace's quotas write them with its label. They choose the selector, but it can neither limit other workspaces nor
// reveal what they use.
func TestAQuotaOfAWorkspaceIsAboutItsNamespacesOnly(t *testing.T) { // S6, S7
	for name, c := range map[string]struct {
		selector map[string]string
		want     []string
	}{
		"ItsOwn":          {workspace("w"), []string{"a", "b"}},
		"All":             {nil, []string{"a", "b"}},
		"ThoseOfAnother":  {workspace("other"), nil},
		"SomeByALabel":    {map[string]string{"tier": "web"}, []string{"b"}},
		"SomeOfAnOtherBy": {map[string]string{"tier": "web", "kubesphere.io/workspace": "other"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "{hard: {pods: 10}}")
			for namespace, of := range map[string]string{"b": "w", "c": "other"} {
				set := workspace(of)
				set["tier"] = "web"
				if err := w.api.Update(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: set}}); err != nil {
					t.Fatal(err)
				}
			}
			q := w.quota()
			q.Labels, q.Spec.Selector = workspace("w"), c.selector
			if err := w.api.Update(t.Context(), q); err != nil {
				t.Fatal(err)
			}
			if got, err := w.r.selected(t.Context(), q); err != nil || !slices.Equal(got, c.want) {
				t.Errorf("counted in %v, %v", got, err)
			}
			for _, namespace := range []string{"a", "b", "c"} {
				asked, err := w.v.quotas(t.Context(), namespace)
				if err != nil || (len(asked) == 1) != slices.Contains(c.want, namespace) {
					t.Errorf("%s is limited by %d quotas, %v", namespace, len(asked), err)
				}
			}
		})
	}
}

func TestADeletedQuotaIsForgotten(t *testing.T) {
	w := newWorld(t, "{hard: {pods: 10}}")
	w.look()
	if err := w.api.Delete(t.Context(), w.quota()); err != nil {
		t.Fatal(err)
	}
	w.look()
	if kinds, _ := w.needed.Load("w"); len(w.r.reservations) != 0 || len(kinds.([]schema.GroupResource)) != 0 {
		t.Errorf("%d ledgers, and it needs %v", len(w.r.reservations), kinds)
	}
}

func TestSettling(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	at := func(age time.Duration, amounts string) reservation {
		return reservation{now.Add(-age), list(t, amounts)}
	}
	for name, c := range map[string]struct {
		known       []reservation
		total, used string // in the status
		came        string
		want        string
	}{
		"Nothing":                 {nil, "{pods: 3}", "{pods: 3}", "{}", "{}"},
		"FreshOnes":               {nil, "{pods: 5}", "{pods: 3}", "{}", "{pods: 2}"},
		"KnownOnes":               {[]reservation{at(time.Second, "{pods: 2}")}, "{pods: 5}", "{pods: 3}", "{}", "{pods: 2}"},
		"MoreThanKnown":           {[]reservation{at(time.Second, "{pods: 1}")}, "{pods: 5}", "{pods: 3}", "{}", "{pods: 2}"},
		"GivenBack":               {[]reservation{at(time.Second, "{pods: 2}")}, "{pods: 4}", "{pods: 3}", "{}", "{pods: 1}"},
		"Arrived":                 {[]reservation{at(time.Second, "{pods: 2}")}, "{pods: 5}", "{pods: 3}", "{pods: 1}", "{pods: 1}"},
		"MoreArrivedThanReserved": {[]reservation{at(time.Second, "{pods: 2}")}, "{pods: 5}", "{pods: 3}", "{pods: 7}", "{}"},
		"TooOld":                  {[]reservation{at(reservationTimeout, "{pods: 2}"), at(time.Second, "{pods: 1}")}, "{pods: 6}", "{pods: 3}", "{}", "{pods: 1}"},
		"EachOfItsKind":           {[]reservation{at(time.Second, "{pods: 2, cpu: 4}")}, "{pods: 2, cpu: 4}", "{}", "{pods: 2, cpu: 1}", "{cpu: 3}"},
	} {
		t.Run(name, func(t *testing.T) {
			l := &reservations{reserved: c.known}
			s := &quotav1alpha2.ResourceQuotaStatus{Total: corev1.ResourceQuotaStatus{Used: list(t, c.total)},
				Namespaces: []quotav1alpha2.NamespaceUsage{{Namespace: "a", ResourceQuotaStatus: corev1.ResourceQuotaStatus{Used: list(t, c.used)}}}}
			for range 2 { // and again, as after a conflict
				sum := corev1.ResourceList{}
				for _, r := range l.settle(s, list(t, c.came), now) {
					for name, amount := range r.amounts {
						total := sum[name]
						total.Add(amount)
						sum[name] = total
					}
				}
				expect(t, sum, list(t, c.want))
			}
		})
	}
}
