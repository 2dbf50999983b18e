package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAdviceHoldsWhatWasMeasured(t *testing.T) {
	const mib = mebibyte
	tests := map[string]struct {
		size capacity
		want advice
	}{
		"Nothing":           {capacity{}, advice{cpu: 100, request: 128, memory: 256}},
		"TheCachesDecide":   {capacity{caches: 1000 * mib, peak: 2000 * mib, rss: 1500 * mib, cpu: 0.11}, advice{cpu: 200, request: 1536, memory: 3328}},
		"TheMostDecides":    {capacity{caches: 100 * mib, peak: 1000 * mib, rss: 128 * mib, cpu: 0.1}, advice{cpu: 100, request: 128, memory: 1280}},
		"TheMostOfALimit":   {capacity{pods: 1_000_000, caches: 100 * mib, peak: 1000 * mib}, advice{cpu: 100, request: 128, memory: 512}},
		"MoreThanOneOfCore": {capacity{cpu: 1.01}, advice{cpu: 1100, request: 128, memory: 256}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := tc.size.advise(); got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}

func TestCapacityTable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "capacity.md")
	sizes := []capacity{{pods: 1000}, {pods: 600_000, recorded: true}}
	for i := range sizes {
		sizes[i].add(freeCores, 0.5*float64(i+1), "cores")
		sizes[i].add("start-cpu", float64(i+1), "s")
		sizes[i].quantiles("page-idle", []time.Duration{time.Millisecond}, []time.Duration{2 * time.Millisecond})
	}
	if err := writeCapacity(file, "# machine: mine", crowd(100), sizes); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"100 users, 10 workspaces, 50 namespaces", "\nmachine: mine\n", "| figure | unit | 1000 pods | 600000 pods |\n|---|---|---:|---:|\n",
		"| start-cpu | s | 1.00 | 2.00 |\n", "| page-idle-p99 | ms | 1.00 (bare-handler: 2.00) | 1.00 (bare-handler: 2.00) |\n",
		"**600000 pods are a recorded watch**", "The replica with 600000 pods has GOMEMLIMIT=11GiB",
		"down to 0.500 of its", "| 1000 pods | 100m | 128Mi | 256Mi |\n",
	} {
		if !strings.Contains(string(got), want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if strings.Contains(string(got), "**1000 pods are a recorded watch**") {
		t.Error("the pods of the control plane are said to be recorded")
	}
}

func TestSumOfAMetric(t *testing.T) {
	const metrics = "# TYPE m gauge\nm{gvr=\"a\"} 1.5e+03\nm{gvr=\"b}\"} 2\nm_bound{gvr=\"a\"} 7\n"
	if got := sumOf(metrics, "m"); got != 1502 {
		t.Errorf("got %v, want 1502", got)
	}
}

// The streams of a capacity run get no objects that were there before: 1000 watchers of 100 000 pods would be sent all of them.
func TestCapacityStreamsBeginNow(t *testing.T) {
	live := 0
	for i := range capacityWatchers + capacityLive {
		switch path := capacityStream(i); {
		case strings.Contains(path, "view=live"):
			live++
		case !strings.Contains(path, "sendInitialEvents=false"):
			t.Errorf("stream %d begins with all objects: %s", i, path)
		}
	}
	if live != capacityLive {
		t.Errorf("%d live pages, want %d", live, capacityLive)
	}
}

// recordedPods serves n pods that differ as those of the seeder do, and have changed so often.
func recordedPods(t *testing.T, n int, changes *atomic.Int64) *httptest.Server {
	t.Helper()
	text, err := json.Marshal(newPod(1))
	if err != nil {
		t.Fatal(err)
	}
	pod, err := cutPod(text, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	if err != nil {
		t.Fatal(err)
	}
	r := &recorded{pod: pod, n: n, every: time.Millisecond, changes: changes.Load, next: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "passed on ", r.URL.Path)
	})}
	srv := httptest.NewServer(r)
	t.Cleanup(srv.Close)
	return srv
}

// asSeeded verifies a recorded pod against the seeder's.
func asSeeded(t *testing.T, got corev1.Pod, i int) {
	t.Helper()
	want := newPod(i)
	if got.Name != want.Name || got.Namespace != want.Namespace || got.Labels[quarterLabel] != want.Labels[quarterLabel] ||
		got.Labels["app.kubernetes.io/instance"] != want.Labels["app.kubernetes.io/instance"] ||
		got.Annotations["kubesphere.io/alias-name"] != want.Annotations["kubesphere.io/alias-name"] || len(got.Spec.Containers) != len(want.Spec.Containers) {
		t.Errorf("pod %d is %+v, want %+v", i, got.ObjectMeta, want.ObjectMeta)
	}
	if at := metav1.Date(2026, 1, 2, 3, 4, 5-i, 0, time.UTC); got.UID == "" || !got.CreationTimestamp.Equal(&at) {
		t.Errorf("pod %d has the UID %q and was created at %v, want %v", i, got.UID, got.CreationTimestamp, at)
	}
}

func TestRecordedListAndOtherRequests(t *testing.T) {
	var changes atomic.Int64
	srv := recordedPods(t, 12, &changes)
	get := func(path string) *http.Response {
		resp, err := http.Get(srv.URL + path) //nolint:noctx // the server ends with the test
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = resp.Body.Close() })
		return resp
	}
	var list corev1.PodList
	if err := json.NewDecoder(get("/api/v1/pods?limit=5").Body).Decode(&list); err != nil || len(list.Items) != 12 || list.ResourceVersion != "12" {
		t.Fatalf("%d pods at version %q: %v", len(list.Items), list.ResourceVersion, err)
	}
	for i, pod := range list.Items {
		asSeeded(t, pod, i)
	}
	changes.Store(14) // each has changed once, and the first two twice
	if err := json.NewDecoder(get("/api/v1/pods").Body).Decode(&list); err != nil || list.ResourceVersion != "26" {
		t.Fatalf("after changes, the list has the version %q: %v", list.ResourceVersion, err)
	}
	for i, want := range map[int]string{0: "25", 1: "26", 2: "15", 11: "24"} {
		if got := list.Items[i].ResourceVersion; got != want {
			t.Errorf("pod %d has the version %s, want %s", i, got, want)
		}
	}
	for _, version := range []string{"", "x", "3", "27"} {
		if resp := get("/api/v1/pods?watch=true&resourceVersion=" + version); resp.StatusCode != http.StatusBadRequest {
			t.Errorf("a watch from version %q: %s, want 400", version, resp.Status)
		}
	}
	for _, path := range []string{"/api/v1/namespaces", "/api/v1/namespaces/bench-1/pods"} {
		var passed, to, at string
		if _, err := fmt.Fscan(get(path).Body, &passed, &to, &at); err != nil || at != path {
			t.Errorf("%s: %q, %v, want it passed on", path, at, err)
		}
	}
}

func TestRecordedWatch(t *testing.T) {
	for name, c := range map[string]struct {
		query   string
		changes int64
		want    []string // type and version of each event
	}{
		"from the beginning":    {query: "sendInitialEvents=true", want: []string{"ADDED 1", "ADDED 2", "ADDED 3", "BOOKMARK 3", "MODIFIED 4", "MODIFIED 5"}},
		"after changes":         {query: "sendInitialEvents=true", changes: 2, want: []string{"ADDED 4", "ADDED 5", "ADDED 3", "BOOKMARK 5", "MODIFIED 6"}},
		"from a former version": {query: "resourceVersion=4", changes: 2, want: []string{"MODIFIED 5", "MODIFIED 6", "MODIFIED 7"}},
		"from the newest":       {query: "resourceVersion=5", changes: 2, want: []string{"MODIFIED 6"}},
	} {
		t.Run(name, func(t *testing.T) {
			var changes atomic.Int64
			changes.Store(c.changes)
			srv := recordedPods(t, 3, &changes)
			resp, err := http.Get(srv.URL + "/api/v1/pods?watch=true&" + c.query) //nolint:noctx // the server ends with the test
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			changes.Add(2)
			lines := bufio.NewScanner(resp.Body)
			lines.Buffer(nil, 1<<20)
			for k, want := range c.want {
				var e struct {
					Type   string
					Object corev1.Pod
				}
				if !lines.Scan() {
					t.Fatalf("the watch ended: %v", lines.Err())
				}
				if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
					t.Fatal(err)
				}
				if got := e.Type + " " + e.Object.ResourceVersion; got != want {
					t.Fatalf("event %d is %s, want %s", k, got, want)
				}
				if e.Type == "BOOKMARK" {
					if e.Object.Annotations[metav1.InitialEventsAnnotationKey] != "true" {
						t.Errorf("the bookmark does not end the initial events: %s", lines.Bytes())
					}
					continue
				}
				version, err := strconv.Atoi(e.Object.ResourceVersion)
				if err != nil {
					t.Fatal(err)
				}
				asSeeded(t, e.Object, (version-1)%3)
			}
		})
	}
}

func TestCutPodRefusesOtherPods(t *testing.T) {
	for name, text := range map[string]string{"NoJSON": "{", "NoLabels": `{"metadata":{"name":"x"}}`} {
		if _, err := cutPod([]byte(text), time.Now()); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
