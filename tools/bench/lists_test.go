package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"

	"kapis.dev/ks-apiserver/tools/stack"
)

// fakeProduct serves the lists as ks-apiserver does, from a fake cluster.
type fakeProduct struct {
	kube       *fake.Clientset
	plain      bool // no ETag and no compression
	withoutAll bool // refuses to list everything at once
}

func (f fakeProduct) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "Bearer secret" {
		http.Error(w, "who are you?", http.StatusUnauthorized)
		return
	}
	if rest, ok := strings.CutPrefix(r.URL.Path, "/kapis/resources.kubesphere.io/v1alpha3/namespaces/"); ok {
		namespace, name, _ := strings.Cut(rest, "/pods/")
		p, err := f.kube.CoreV1().Pods(namespace).Get(r.Context(), name, metav1.GetOptions{})
		if err != nil {
			http.Error(w, err.Error(), http.StatusNotFound)
			return
		}
		_ = json.NewEncoder(w).Encode(p)
		return
	}
	if strings.HasPrefix(r.URL.Path, "/api/v1/namespaces/") {
		fmt.Fprint(w, `{"kind":"Pod"}`)
		return
	}
	f.list(w, r)
}

func (f fakeProduct) list(w http.ResponseWriter, r *http.Request) {
	const total = 200
	limit, err := strconv.Atoi(r.FormValue("limit"))
	if err != nil || r.URL.Path != podLists {
		http.NotFound(w, r)
		return
	}
	if limit < 0 {
		limit = total
		if f.withoutAll {
			http.Error(w, "ask for pages", http.StatusRequestEntityTooLarge)
			return
		}
	}
	items := make([]map[string]string, limit)
	for i := range items {
		items[i] = map[string]string{"kind": "Pod"}
	}
	w.Header().Set("Content-Type", "application/json")
	out := io.Writer(w)
	if !f.plain {
		w.Header().Set("ETag", `"1"`)
		if r.Header.Get("If-None-Match") == `"1"` {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		if r.Header.Get("Accept-Encoding") == "gzip" {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			defer z.Close()
			out = z
		}
	}
	_ = json.NewEncoder(out).Encode(map[string]any{"items": items, "totalItems": total})
}

func serveProduct(t *testing.T, f fakeProduct) client {
	t.Helper()
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	return client{Server: stack.Server{URL: s.URL}, token: "secret", pid: os.Getpid()}
}

// few are enough to see that everything is asked.
func few() counts { return counts{page: 8, large: 8, sort: 4, all: 2, single: 8, passed: 8} }

func testLists(t *testing.T, f fakeProduct) (lists, *bytes.Buffer) {
	t.Helper()
	var out bytes.Buffer
	f.kube = fake.NewClientset(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: podName(10), Namespace: podNamespace(10)}})
	l := lists{client: serveProduct(t, f), counts: few(), rounds: 3, pods: 200, report: &report{to: &out}}
	answers, err := l.answers(t.Context(), page10, page100, onePod())
	if err != nil {
		t.Fatal(err)
	}
	if all, err := l.answers(t.Context(), allPods); err == nil {
		answers = append(answers, all...)
	}
	floors, err := l.floors(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	answers = append(answers, floors...)
	if l.bare, err = startYardstick(t.Context(), answers, "bare"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.bare.stop)
	sorting := httptest.NewServer(sorting{})
	t.Cleanup(sorting.Close)
	u, err := url.Parse(sorting.URL)
	if err != nil {
		t.Fatal(err)
	}
	l.sort = &process{addr: u.Host, pid: os.Getpid()}
	l.whole = !f.withoutAll
	return l, &out
}

func names(out string) []string {
	var names []string
	for line := range strings.Lines(out) {
		if !strings.HasPrefix(line, "#") {
			names = append(names, strings.Fields(line)[0])
		}
	}
	return names
}

func TestListsMeasureEverything(t *testing.T) {
	l, out := testLists(t, fakeProduct{})
	if err := l.run(t.Context()); err != nil || l.report.missed > 0 {
		t.Fatalf("%v, %d missed:\n%s", err, l.report.missed, out)
	}
	want := []string{
		"page-10-cpu", "page-10-alone-p50", "page-10-alone-p99", "page-100-cpu", "object-cpu", "not-modified-cpu", "not-modified-by-bare-handler-cpu",
		"page-100-gzip-cpu", "page-100-gzip-by-bare-handler-cpu",
		"page-middle-cpu", "page-last-cpu", "filter-name-cpu", "filter-name-cpu-beyond", "filter-name-new-cpu", "filter-name-new-cpu-beyond",
		"filter-label-cpu", "filter-label-cpu-beyond", "filter-field-cpu", "filter-field-cpu-beyond", "filter-status-cpu", "filter-status-cpu-beyond",
		"filter-cel-cpu", "filter-cel-cpu-beyond", "sort-field-cpu", "sort-field-cpu-beyond", "page-10-engine-cpu", "all-pods-rate",
	}
	if got := names(out.String()); !slices.Equal(got, want) {
		t.Errorf("figures %v, want %v", got, want)
	}
}

func TestListsSkipWhatTheServerDoesNotDo(t *testing.T) {
	l, out := testLists(t, fakeProduct{plain: true})
	if err := l.run(t.Context()); err != nil || l.report.missed > 0 {
		t.Fatalf("%v, %d missed:\n%s", err, l.report.missed, out)
	}
	for _, want := range []string{"# not-modified is not measured: lists have no ETag", "# page-100-gzip is not measured"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not said:\n%s", want, out)
		}
	}
}

func TestListsGoOnAfterAFailure(t *testing.T) {
	l, out := testLists(t, fakeProduct{withoutAll: true})
	l.whole = true
	if err := l.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if l.report.missed != 1 || !strings.Contains(out.String(), "# all-pods could not be measured") || !strings.Contains(out.String(), "ask for pages") {
		t.Errorf("%d missed:\n%s", l.report.missed, out)
	}
	if !slices.Contains(names(out.String()), "page-10-engine-cpu") {
		t.Errorf("the other figures are missing:\n%s", out)
	}
}

func TestAListThatIsTooLongIsNoFailure(t *testing.T) {
	l, out := testLists(t, fakeProduct{withoutAll: true})
	if err := l.run(t.Context()); err != nil || l.report.missed > 0 || !strings.Contains(out.String(), "# all-pods is not measured") {
		t.Errorf("%v, %d missed:\n%s", err, l.report.missed, out)
	}
}

func TestListsStopWhenTheContextEnds(t *testing.T) {
	l, out := testLists(t, fakeProduct{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.run(ctx); err == nil || out.Len() > 0 {
		t.Errorf("error %v, wrote %q", err, out)
	}
}

func TestAFilterThatFindsTooLittleIsNotCompared(t *testing.T) {
	l, _ := testLists(t, fakeProduct{})
	err := l.besidePage10(podLists+"?limit=3", cpu(""))(t.Context(), "x")
	if err == nil || !strings.Contains(err.Error(), "3 items") {
		t.Errorf("error %v", err)
	}
}

func TestTotal(t *testing.T) {
	c := serveProduct(t, fakeProduct{})
	if n, err := c.total(t.Context(), url.Values{}); err != nil || n != 200 {
		t.Errorf("got %d, %v", n, err)
	}
	c.token = "wrong"
	if _, err := c.total(t.Context(), url.Values{}); err == nil || !strings.Contains(err.Error(), "who are you?") || strings.Contains(err.Error(), "wrong") {
		t.Errorf("error %v, want the answer, without the token", err)
	}
}

func TestAwaitPods(t *testing.T) {
	c := serveProduct(t, fakeProduct{})
	if err := (&bench{size: 200}).awaitPods(t.Context(), c); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var asked atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) > 1 {
			cancel()
		}
		fakeProduct{}.ServeHTTP(w, r)
	}))
	defer s.Close()
	c.URL = s.URL
	if err := (&bench{size: 201}).awaitPods(ctx, c); err == nil || !strings.Contains(err.Error(), "200 of 201") {
		t.Errorf("error %v", err)
	}
}

func TestEvents(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: podName(11), Namespace: podNamespace(11)}}
	kube := fake.NewClientset(pod)
	figures, err := events(t.Context(), serveProduct(t, fakeProduct{kube: kube}), kube)
	if err != nil {
		t.Fatal(err)
	}
	if len(figures) != 2 || figures[0].value > figures[1].value || figures[1].value < 0 {
		t.Errorf("figures %v", figures)
	}
}

func TestPassed(t *testing.T) {
	c := serveProduct(t, fakeProduct{})
	var asked atomic.Value
	kube := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked.Store(r.Proto + " " + r.URL.Path) }))
	defer kube.Close()
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: kube.Certificate().Raw})
	cfg := &rest.Config{Host: kube.URL, TLSClientConfig: rest.TLSClientConfig{CAData: authority}}
	t.Run("BesideKubeAPIServer", func(t *testing.T) {
		figures, err := passed(t.Context(), c, cfg, os.Getpid(), 2, 4)
		if err != nil || len(figures) != 1 || figures[0].yardstick != "kube-apiserver" {
			t.Fatalf("figures %v, %v", figures, err)
		}
		if want := "HTTP/1.1 /api/v1/namespaces/bench-0/pods/" + podName(10); asked.Load() != want {
			t.Errorf("asked %q, want %q", asked, want)
		}
	})
	t.Run("AloneWhereKubeAPIServerIsElsewhere", func(t *testing.T) {
		figures, err := passed(t.Context(), c, cfg, 0, 2, 4)
		if err != nil || len(figures) != 1 || figures[0].yardstick != "" {
			t.Errorf("figures %v, %v", figures, err)
		}
	})
}

func TestRates(t *testing.T) {
	var mu sync.Mutex
	asked := map[string]bool{}
	server := func(name, token string) *httptest.Server {
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != token {
				w.WriteHeader(http.StatusUnauthorized)
			}
			mu.Lock()
			defer mu.Unlock()
			asked[name+" "+r.Proto+" "+r.URL.Path] = true
		}))
		s.EnableHTTP2 = true
		s.StartTLS()
		t.Cleanup(s.Close)
		return s
	}
	kube, ours := server("kube-apiserver", ""), server("ks-apiserver", "Bearer secret")
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: kube.Certificate().Raw})
	cfg := &rest.Config{Host: kube.URL, TLSClientConfig: rest.TLSClientConfig{CAData: authority}}
	c := client{token: "secret"}
	figures, err := rates(t.Context(), c.header(), ours.URL, cfg, 2, 8)
	if err != nil || len(figures) != 2 || figures[0].name != "api-rate-http1" || figures[1].name != "api-rate-http2" || figures[1].base <= 0 {
		t.Fatalf("figures %v, %v", figures, err)
	}
	path := "/api/v1/namespaces/" + podNamespace(10) + "/pods/" + podName(10)
	for _, side := range []string{"kube-apiserver", "ks-apiserver"} {
		for _, version := range []string{"HTTP/1.1", "HTTP/2.0"} {
			if want := side + " " + version + " " + path; !asked[want] {
				t.Errorf("%q was not asked, but %v", want, asked)
			}
		}
	}
	c.token = "wrong"
	if _, err := rates(t.Context(), c.header(), ours.URL, cfg, 2, 8); err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("a refusal is counted as an answer: %v", err)
	}
}

func TestWatchedFollowsAStream(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: podName(12), Namespace: podNamespace(12)}}
	kube := fake.NewClientset(pod)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		changed, err := kube.CoreV1().Pods("").Watch(r.Context(), metav1.ListOptions{})
		if err != nil {
			t.Error(err)
			return
		}
		defer changed.Stop()
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		for {
			select {
			case e := <-changed.ResultChan():
				_ = json.NewEncoder(w).Encode(e)
				w.(http.Flusher).Flush()
			case <-r.Context().Done():
				return
			}
		}
	}))
	defer s.Close()
	figures, err := watched(t.Context(), client{Server: stack.Server{URL: s.URL}, token: "secret"}, kube)
	if err != nil || len(figures) != 4 || figures[0].name != "event-to-watcher-p50" || figures[3].name != "event-to-live-page-p99" {
		t.Errorf("figures %v, %v", figures, err)
	}
}

func TestWatchedSaysWhyAStreamIsRefused(t *testing.T) {
	c := serveProduct(t, fakeProduct{})
	c.token = "wrong"
	if _, err := c.stream(t.Context(), podLists+"?watch=true"); err == nil || !strings.Contains(err.Error(), "who are you?") {
		t.Errorf("error %v", err)
	}
}
