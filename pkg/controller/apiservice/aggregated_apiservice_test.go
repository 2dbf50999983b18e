package apiservice

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	clientfake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"

	queryv1alpha1 "kapis.dev/ks-apiserver/pkg/api/query/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/certificate"
)

// world is a cluster of a test, whose time goes on by tick.
type world struct {
	*Controller
	t      *testing.T
	now    time.Time
	silent error
	bundle []byte
	events *events.FakeRecorder
}

func newWorld(t *testing.T, objects ...runtime.Object) *world {
	w := &world{t: t, now: time.Unix(1_800_000_000, 0).UTC(), bundle: []byte("first\n"), events: events.NewFakeRecorder(10)}
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{resource: "APIServiceList"}, objects...)
	w.Controller = &Controller{
		Enabled: true, Objects: client.Resource(resource), Events: w.events, Now: func() time.Time { return w.now }, answered: w.now,
		Bundle:  func(context.Context) ([]byte, error) { return w.bundle, nil },
		Answers: func(context.Context, []byte) error { return w.silent },
	}
	return w
}

// tick lets d pass, with a reconcile each 5 s, and returns the APIService after it, nil for none.
func (w *world) tick(d time.Duration) *unstructured.Unstructured {
	w.t.Helper()
	for range d / every {
		w.now = w.now.Add(every)
		if err := w.reconcile(w.t.Context()); err != nil {
			w.t.Fatal(err)
		}
	}
	u, err := w.get(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return u
}

// reports sets what kube-apiserver says of the APIService.
func (w *world) reports(status string, at time.Time) {
	w.t.Helper()
	u, err := w.get(w.t.Context())
	if err != nil || u == nil {
		w.t.Fatal(u, err)
	}
	u.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Available", "status": status, "message": "no route",
		"lastTransitionTime": at.Format(time.RFC3339)}}}
	if _, err := w.Objects.Update(w.t.Context(), u, metav1.UpdateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) event(want string) {
	w.t.Helper()
	select {
	case got := <-w.events.Events:
		if want == "" || !strings.Contains(got, want) {
			w.t.Errorf("the event %q, want %q", got, want)
		}
	default:
		if want != "" {
			w.t.Errorf("no event, want %q", want)
		}
	}
}

func TestTheAPIServiceIsThereWhileAnEndpointAnswers(t *testing.T) { // O31
	w := newWorld(t)
	w.silent = errors.New("no endpoint")
	if u := w.tick(10 * time.Minute); u != nil {
		t.Fatalf("it is there before an endpoint answers: %v", u)
	}
	w.event("")
	w.silent = nil
	u := w.tick(every)
	if u == nil {
		t.Fatal("it is not there")
	}
	priority, _, _ := unstructured.NestedInt64(u.Object, "spec", "groupPriorityMinimum")
	name, _, _ := unstructured.NestedString(u.Object, "spec", "service", "name")
	if priority != 100 || name != queryv1alpha1.Service || !own(u) {
		t.Errorf("got %v", u.Object)
	}
	w.reports("True", w.now)
	if w.tick(time.Hour) == nil {
		t.Fatal("it is gone, and endpoints answer")
	}
	w.silent = errors.New("no endpoint")
	if w.tick(silence-every) == nil {
		t.Error("it is gone too early: a rollout of one replica would take it away")
	}
	if w.tick(every) != nil {
		t.Error("it is there after 30 s of silence")
	}
	w.event("NoEndpointAnswers")
	w.silent = nil
	if w.tick(every) == nil {
		t.Error("an endpoint answers again, and it is not there")
	}
}

func TestAnAPIServiceThatKubeAPIServerCantReachIsDeleted(t *testing.T) { // O31
	w := newWorld(t)
	w.tick(every)
	w.reports("True", w.now)
	w.tick(time.Minute)
	w.reports("False", w.now)
	if w.tick(unavailable-every) == nil {
		t.Error("it is gone too early")
	}
	if w.tick(every) != nil {
		t.Error("it is there after 60 s without use")
	}
	w.event("no route")
	if w.tick(backOff-every) != nil {
		t.Error("it is created again too early")
	}
	if w.tick(2*every) == nil {
		t.Error("it is not created again")
	}
	u, _ := w.get(t.Context())
	u.SetCreationTimestamp(metav1.NewTime(w.now))
	if _, err := w.Objects.Update(t.Context(), u, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if w.tick(unavailable) != nil {
		t.Error("one that nothing was ever said of stays")
	}
}

// The authorities follow the Secret, and what somebody changed is set right.
func TestTheAPIServiceFollowsTheAuthority(t *testing.T) { // O35
	w := newWorld(t)
	caBundle := func(u *unstructured.Unstructured) string {
		text, _, _ := unstructured.NestedString(u.Object, "spec", "caBundle")
		return text
	}
	first := caBundle(w.tick(every))
	w.reports("True", w.now)
	w.bundle = []byte("second\nfirst\n")
	u := w.tick(every)
	if caBundle(u) == first || caBundle(u) != caBundle(desired(w.bundle)) {
		t.Errorf("got %s", caBundle(u))
	}
	_ = unstructured.SetNestedField(u.Object, true, "spec", "insecureSkipTLSVerify")
	_ = unstructured.SetNestedField(u.Object, int64(20000), "spec", "groupPriorityMinimum")
	if _, err := w.Objects.Update(t.Context(), u, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	u = w.tick(every)
	insecure, _, _ := unstructured.NestedBool(u.Object, "spec", "insecureSkipTLSVerify")
	if priority, _, _ := unstructured.NestedInt64(u.Object, "spec", "groupPriorityMinimum"); priority != 100 || insecure {
		t.Errorf("got %v", u.Object)
	}
}

func TestAnothersAPIServiceStays(t *testing.T) { // O31
	theirs := desired([]byte("theirs"))
	theirs.SetLabels(nil)
	for name, run := range map[string]func(*world) error{
		"On":  func(w *world) error { return w.reconcile(t.Context()) },
		"Off": func(w *world) error { w.Enabled = false; return w.Start(t.Context()) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, theirs.DeepCopy())
			w.silent = errors.New("no endpoint")
			w.now = w.now.Add(time.Hour)
			if err := run(w); (err == nil) != (name == "Off") {
				t.Error(err)
			}
			if u, err := w.get(t.Context()); err != nil || u == nil {
				t.Error(u, err)
			}
		})
	}
}

func TestWhatIsLeftOfAnAPIThatIsOffIsDeleted(t *testing.T) { // O31, O44
	w := newWorld(t, desired([]byte("old")))
	w.Enabled = false
	if err := w.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if u, err := w.get(t.Context()); err != nil || u != nil {
		t.Error(u, err)
	}
}

// An endpoint answers if it is ready, has the serving certificate, and says so.
func TestWhichEndpointsAnswer(t *testing.T) { // O31
	client := clientfake.NewClientset()
	e := &endpoints{client: client}
	if _, err := e.bundle(t.Context()); !errors.Is(err, errNoBundle) {
		t.Errorf("got %v", err)
	}
	keeper, err := certificate.Open(t.Context(), certificate.Options{Secrets: client.CoreV1().Secrets(queryv1alpha1.ServiceNamespace),
		Name: queryv1alpha1.ServingSecret, Hosts: []string{queryv1alpha1.ServerName}, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	code := http.StatusOK
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" || r.TLS.ServerName != queryv1alpha1.ServerName {
			t.Errorf("asked for %s of %s", r.URL.Path, r.TLS.ServerName)
		}
		w.Header().Set("Location", "/readyz")
		w.WriteHeader(code)
	}))
	srv.TLS = &tls.Config{GetCertificate: keeper.Certificate, MinVersion: tls.VersionTLS12}
	srv.StartTLS()
	defer srv.Close()
	port := int32(srv.Listener.Addr().(*net.TCPAddr).Port) //nolint:gosec // a port
	ready := true
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: queryv1alpha1.ServiceNamespace, Name: "s",
		Labels: map[string]string{discoveryv1.LabelServiceName: queryv1alpha1.Service}}, Ports: []discoveryv1.EndpointPort{{Port: &port}},
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"127.0.0.1"}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}}}
	slices := client.DiscoveryV1().EndpointSlices(queryv1alpha1.ServiceNamespace)
	bundle, err := e.bundle(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	is := func(what string, want bool, bundle []byte) {
		t.Helper()
		if err := e.answer(t.Context(), bundle); (err == nil) != want {
			t.Errorf("%s: got %v", what, err)
		}
	}
	is("no endpoint", false, bundle)
	if _, err := slices.Create(t.Context(), slice, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	is("one that is ready", true, bundle)
	other, err := certificate.Open(t.Context(), certificate.Options{Secrets: client.CoreV1().Secrets("other"), Name: "other",
		Hosts: []string{queryv1alpha1.ServerName}, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	is("a certificate of another authority", false, other.Bundle())
	is("no authority", false, nil)
	for _, code = range []int{http.StatusServiceUnavailable, http.StatusUnauthorized, http.StatusFound, http.StatusNoContent} {
		is("another answer", false, bundle)
	}
	code, ready = http.StatusOK, false
	if _, err := slices.Update(t.Context(), slice, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	is("one that is not ready", false, bundle)
}
