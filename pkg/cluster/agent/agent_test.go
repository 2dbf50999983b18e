package agent_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"

	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/certificate"
	"kapis.dev/ks-apiserver/pkg/cluster/agent"
	"kapis.dev/ks-apiserver/pkg/cluster/hub"
	"kapis.dev/ks-apiserver/pkg/cluster/join"
	"kapis.dev/ks-apiserver/pkg/cluster/link"
	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/tools/pace"
)

var clusters = clusterv1alpha1.SchemeGroupVersion.WithResource("clusters")

// world is a hub with a server, whose Clusters are in memory.
type world struct {
	t       *testing.T
	hub     *hub.Hub
	server  *httptest.Server
	objects *dynamicfake.FakeDynamicClient
	joins   atomic.Int64
	// stops has the hub end its links.
	stops context.CancelFunc

	mu  sync.Mutex
	now time.Time
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func newWorld(t *testing.T) *world { t.Helper(); return newWorldAt(t, time.Now()) }

// newWorldAt is newWorld, whose hub has a clock of its own.
func newWorldAt(t *testing.T, now time.Time) *world {
	t.Helper()
	w := &world{t: t, now: now}
	w.objects = dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{clusters: "ClusterList"})
	authority, err := certificate.Open(t.Context(), hub.AuthorityOptions(fake.NewClientset().CoreV1().Secrets("kubesphere-system"), w.clock))
	if err != nil {
		t.Fatal(err)
	}
	w.hub = hub.New(hub.Options{Clusters: w.objects.Resource(clusters), Authority: authority, UID: "u-hub", Host: "host", Now: w.clock})
	drain, stops := context.WithCancel(t.Context())
	w.stops = stops
	t.Cleanup(stops)
	h := hub.NewHandler(drain, w.hub)
	w.server = httptest.NewTLSServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if r.URL.Path == join.PathJoin {
			w.joins.Add(1)
		}
		h.ServeHTTP(out, r)
	}))
	t.Cleanup(w.server.Close)
	return w
}

// cluster makes a Cluster of type proxy, and returns a join token for it.
func (w *world) cluster(name, uid string) (token string) {
	w.t.Helper()
	c := &clusterv1alpha1.Cluster{Spec: clusterv1alpha1.ClusterSpec{Enable: true,
		Connection: clusterv1alpha1.Connection{Type: clusterv1alpha1.ConnectionProxy}}}
	c.Name, c.APIVersion, c.Kind = name, clusterv1alpha1.SchemeGroupVersion.String(), "Cluster"
	c.UID = "" // set below, since its type is not this package's
	raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(c)
	if err != nil {
		w.t.Fatal(err)
	}
	o := &unstructured.Unstructured{Object: raw}
	if err := unstructured.SetNestedField(o.Object, uid, "metadata", "uid"); err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.objects.Resource(clusters).Create(w.t.Context(), o, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
	w.feed(name)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, c); err != nil {
		w.t.Fatal(err)
	}
	token, _, err = w.hub.Token(c)
	if err != nil {
		w.t.Fatal(err)
	}
	return token
}

// feed tells the hub what a Cluster is now.
func (w *world) feed(name string) {
	w.t.Helper()
	o, err := w.objects.Resource(clusters).Get(w.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		w.hub.Members.Delete("", name)
		return
	}
	raw, err := json.Marshal(o)
	if err != nil {
		w.t.Fatal(err)
	}
	w.hub.Members.Set(&store.Object{Name: name, Raw: raw})
}

// member starts the agent of a cluster, and returns it and what ends it.
func (w *world) member(uid string, token func() (string, error), secrets agent.Secrets) (a *agent.Agent, stop func()) {
	w.t.Helper()
	return w.memberThat(uid, token, secrets, func(out http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(out, "%s %v", uid, link.FromHub(r.Context()))
	})
}

// memberThat is member, which answers by h.
func (w *world) memberThat(uid string, token func() (string, error), secrets agent.Secrets, h http.HandlerFunc) (a *agent.Agent, stop func()) {
	w.t.Helper()
	at, err := url.Parse(w.server.URL)
	if err != nil {
		w.t.Fatal(err)
	}
	a, err = agent.New(agent.Options{Secrets: secrets, Hub: at, CA: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: w.server.Certificate().Raw}),
		Token: token, UID: uid, KubernetesVersion: "v1.37.1", Version: "v4.1.3", Now: w.clock, Handler: h})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	var run sync.WaitGroup
	run.Go(func() { a.Run(ctx) })
	stop = sync.OnceFunc(func() { cancel(); run.Wait() })
	w.t.Cleanup(stop)
	return a, stop
}

func (w *world) eventually(what string, is func() bool) {
	w.t.Helper()
	err := pace.Until(w.t.Context(), time.Minute, func(context.Context) error {
		if !is() {
			return errors.New("not yet")
		}
		return nil
	})
	if err != nil {
		w.t.Fatalf("%s: %v", what, err)
	}
}

func (w *world) linked(name string) bool {
	m := w.hub.Members.ByName(name)
	if m == nil {
		return false
	}
	linked, _ := m.Linked()
	return linked
}

func always(token string) func() (string, error) { return func() (string, error) { return token, nil } }

func newSecrets() agent.Secrets { return fake.NewClientset().CoreV1().Secrets("kubesphere-system") }

// A cluster joins by a token, is asked over its links, and is itself again after a restart, without one.
func TestAClusterJoinsAndStays(t *testing.T) {
	w, secrets := newWorld(t), newSecrets()
	token := w.cluster("m1", "c-1")
	_, stop := w.member("u-m1", always(token), secrets)
	w.eventually("linked", func() bool { return w.linked("m1") })
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "https://member/version", nil)
	r.RequestURI = ""
	resp, err := w.hub.Members.ByName("m1").RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if _ = resp.Body.Close(); string(body) != "u-m1 true" || err != nil {
		t.Errorf("got %q, %v", body, err)
	}
	stop()
	w.eventually("no longer linked", func() bool { return !w.linked("m1") })
	w.member("u-m1", always(""), secrets)
	w.eventually("linked after a restart", func() bool { return w.linked("m1") })
}

// F5: a replica of the hub that stops sends nothing more to members that dial it, and lets end what runs there.
func TestWhatRunsEndsWhenTheHubStops(t *testing.T) {
	w := newWorld(t)
	begun, goesOn := make(chan struct{}), make(chan struct{})
	w.memberThat("u-m1", always(w.cluster("m1", "c-1")), newSecrets(), func(out http.ResponseWriter, _ *http.Request) {
		close(begun)
		<-goesOn
		_, _ = io.WriteString(out, "whole")
	})
	w.eventually("linked", func() bool { return w.linked("m1") })
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://member/version", nil)
	if err != nil {
		t.Fatal(err)
	}
	answered := make(chan string, 1)
	go func() {
		resp, err := w.hub.Members.ByName("m1").RoundTrip(r)
		if err != nil {
			answered <- err.Error()
			return
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		answered <- fmt.Sprint(string(body), " ", err)
	}()
	<-begun
	w.stops()
	w.eventually("nothing more is sent", func() bool { return !w.linked("m1") })
	close(goesOn)
	if got := <-answered; got != "whole <nil>" {
		t.Errorf("what ran when the hub stopped: %s", got)
	}
}

// refused starts an agent that must not get in, and returns its reason.
func (w *world) refused(uid, token string) string {
	w.t.Helper()
	at, _ := url.Parse(w.server.URL)
	client := w.server.Client()
	a, err := agent.New(agent.Options{Secrets: newSecrets(), Hub: at, CA: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: w.server.Certificate().Raw}),
		Token: always(token), UID: uid, Now: w.clock, Handler: http.NotFoundHandler()})
	if err != nil || client == nil {
		w.t.Fatal(err)
	}
	err = a.Join(w.t.Context())
	if err == nil {
		w.t.Fatal("it got in")
	}
	return err.Error()
}

// F8, F31: a token counts once and for half an hour, one cluster is one Cluster, and the hub is none.
func TestWhoMayNotJoinIsToldWhy(t *testing.T) {
	w := newWorld(t)
	token := w.cluster("m1", "c-1")
	w.member("u-m1", always(token), newSecrets())
	w.eventually("linked", func() bool { return w.linked("m1") })
	for name, tc := range map[string]struct{ uid, token, want string }{
		"UsedToken":      {"u-m1", token, "has been used"},
		"AnotherCluster": {"u-other", token, "is another one"},
		"NoToken":        {"u-m2", "", "has no join token"},
		"ForgedToken":    {"u-m2", token[:len(token)-4] + "AAAA", "not one of this hub"},
		"TheHubItself":   {"u-hub", w.cluster("m3", "c-3"), "the hub itself"},
		"InTheFleet":     {"u-m1", w.cluster("m4", "c-4"), `already, as "m1"`},
		"NoUID":          {"", w.cluster("m5", "c-5"), "uid is not"},
	} {
		if got := w.refused(tc.uid, tc.token); !strings.Contains(got, tc.want) {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
	late := w.cluster("m6", "c-6")
	w.mu.Lock()
	w.now = w.now.Add(31 * time.Minute)
	w.mu.Unlock()
	if got := w.refused("u-m6", late); !strings.Contains(got, "its time is over") {
		t.Errorf("a late token: %q", got)
	}
}

// F8: a token counts once, also where the cluster has joined by another one since, while it is not over.
func TestATokenDoesNotCountAgainAfterAnother(t *testing.T) {
	w := newWorldAt(t, time.Now().Truncate(15*time.Minute))
	joins := func(token string) error {
		t.Helper()
		at, err := url.Parse(w.server.URL)
		if err != nil {
			t.Fatal(err)
		}
		a, err := agent.New(agent.Options{Secrets: newSecrets(), Hub: at, CA: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: w.server.Certificate().Raw}),
			Token: always(token), UID: "u-m1", Now: w.clock, Handler: http.NotFoundHandler()})
		if err != nil {
			t.Fatal(err)
		}
		return a.Join(t.Context())
	}
	first := w.cluster("m1", "c-1")
	if err := joins(first); err != nil {
		t.Fatal(err)
	}
	w.mu.Lock()
	w.now = w.now.Add(20 * time.Minute)
	w.mu.Unlock()
	c := &clusterv1alpha1.Cluster{}
	c.UID = "c-1"
	second, _, err := w.hub.Token(c)
	if err != nil || second == first {
		t.Fatalf("the token is the same after 20 minutes: %v, %v", second == first, err)
	}
	if err := joins(second); err != nil {
		t.Fatal(err)
	}
	for _, token := range []string{first, second} {
		if err := joins(token); err == nil || !strings.Contains(err.Error(), "has been used") {
			t.Errorf("it counts again: %v", err)
		}
	}
}

// F32: a Cluster that is deleted lets its member go, which joins again by a new token.
func TestAClusterThatWasDeletedJoinsAgain(t *testing.T) {
	w := newWorld(t)
	var mu sync.Mutex
	token := w.cluster("m1", "c-1")
	w.member("u-m1", func() (string, error) {
		mu.Lock()
		defer mu.Unlock()
		return token, nil
	}, newSecrets())
	w.eventually("linked", func() bool { return w.linked("m1") })
	if err := w.objects.Resource(clusters).Delete(t.Context(), "m1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.feed("m1")
	next := w.cluster("m1", "c-2")
	mu.Lock()
	token = next
	mu.Unlock()
	w.eventually("linked again", func() bool { return w.linked("m1") && w.hub.Members.ByName("m1").UID == "c-2" })
}

// F9: certificates renew themselves, by the key that the member has.
func TestCertificatesRenewThemselves(t *testing.T) {
	w, secrets := newWorld(t), newSecrets()
	_, stop := w.member("u-m1", always(w.cluster("m1", "c-1")), secrets)
	w.eventually("linked", func() bool { return w.linked("m1") })
	stop()
	before, err := secrets.Get(t.Context(), "ks-fleet-member", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.mu.Lock()
	w.now = w.now.Add(21 * 24 * time.Hour)
	w.mu.Unlock()
	w.feed("m1")
	a, err := agent.New(agent.Options{Secrets: secrets, Hub: func() *url.URL { u, _ := url.Parse(w.server.URL); return u }(),
		CA:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: w.server.Certificate().Raw}),
		Token: always(""), UID: "u-m1", Now: w.clock, Handler: http.NotFoundHandler()})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Join(t.Context()); err != nil {
		t.Fatal(err)
	}
	after, err := secrets.Get(t.Context(), "ks-fleet-member", metav1.GetOptions{})
	if err != nil || string(after.Data["tls.crt"]) == string(before.Data["tls.crt"]) || string(after.Data["tls.key"]) == string(before.Data["tls.key"]) {
		t.Errorf("the certificate is the same, or its key is: %v", err)
	}
}

func TestAHubIsReachedByHTTPSAlone(t *testing.T) {
	for _, at := range []string{"http://hub.example", "hub.example", "https://"} {
		u, err := url.Parse(at)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := agent.New(agent.Options{Hub: u}); err == nil {
			t.Errorf("%s is taken", at)
		}
	}
	u, _ := url.Parse("https://hub.example")
	if _, err := agent.New(agent.Options{Hub: u, CA: []byte("x")}); err == nil {
		t.Error("an authority that is none is taken")
	}
}
