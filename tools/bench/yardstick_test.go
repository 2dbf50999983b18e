package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kapis.dev/ks-apiserver/tools/stack"
)

func TestBareHandlerSaysTheSame(t *testing.T) {
	product := answer{
		URI:    "/list?limit=10",
		Header: http.Header{"Content-Type": {"application/json"}, "Date": {"long ago"}, "Etag": {`"1"`}, "Transfer-Encoding": {"chunked"}},
		Body:   []byte(`{"items":[]}`),
	}
	p, err := startYardstick(t.Context(), []answer{product}, "bare")
	if err != nil {
		t.Fatal(err)
	}
	server := stack.Server{URL: "http://" + p.addr}
	resp, err := server.Do(t.Context(), stack.Request{Path: product.URI})
	if err != nil {
		t.Fatal(err)
	}
	if resp.Status != http.StatusOK || string(resp.Body) != string(product.Body) {
		t.Errorf("answered %d %q", resp.Status, resp.Body)
	}
	for name, want := range map[string]string{"Content-Type": "application/json", "ETag": `"1"`, "Content-Length": "12"} {
		if got := resp.Header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if d := resp.Header.Values("Date"); len(d) != 1 || d[0] == "long ago" {
		t.Errorf("dates %v, want the present one", d)
	}
	if resp, err := server.Do(t.Context(), stack.Request{Path: "/other"}); err != nil || resp.Status != http.StatusNotFound {
		t.Errorf("another path: %d, %v", resp.Status, err)
	}
	if cpu, err := stack.CPU(p.pid); err != nil || cpu <= 0 {
		t.Errorf("its processor time: %v, %v", cpu, err)
	}
	p.stop()
	if _, err := server.Do(t.Context(), stack.Request{Path: product.URI}); err == nil {
		t.Error("it still answers after the stop")
	}
}

func TestAFollowingHandlerReadsChanges(t *testing.T) {
	watched := make(chan string, len(followedPaths))
	kube := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		watched <- r.URL.RequestURI() + " " + r.Header.Get("Accept")
		<-r.Context().Done()
	}))
	defer kube.Close()
	p, err := startYardstick(t.Context(), []answer{{URI: "/x", Header: http.Header{}, Body: []byte("{}")}}, "following", kubeconfigOf(t, kube.URL))
	if err != nil {
		t.Fatal(err)
	}
	defer p.stop()
	var got []string
	for range followedPaths {
		got = append(got, <-watched)
	}
	slices.Sort(got)
	want := []string{
		"/api/v1/configmaps?watch=true application/json", "/api/v1/pods?watch=true application/json",
		"/apis/coordination.k8s.io/v1/leases?watch=true application/json",
	}
	if !slices.Equal(got, want) {
		t.Errorf("watches %q, want %q", got, want)
	}
	if resp, err := (stack.Server{URL: "http://" + p.addr}).Do(t.Context(), stack.Request{Path: "/x"}); err != nil || string(resp.Body) != "{}" {
		t.Errorf("answered %q, %v", resp.Body, err)
	}
}

// kubeconfigOf returns the file of a kubeconfig for a server.
func kubeconfigOf(t *testing.T, server string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := "apiVersion: v1\nkind: Config\nclusters: [{name: k, cluster: {server: '" + server + "'}}]\ncontexts: [{name: k, context: {cluster: k}}]\ncurrent-context: k\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestAReaderReadsThePodsThatThereAre(t *testing.T) {
	const end = `{"type":"BOOKMARK","object":{"metadata":{"annotations":{"k8s.io/initial-events-end":"true"}}}}` + "\n"
	long := `{"type":"ADDED","object":"` + strings.Repeat("k8s.io/initial-events-end", 8<<10) + "\"}\n"
	answers := map[string]string{"Whole": long + end, "Half": long}
	for name, text := range answers {
		t.Run(name, func(t *testing.T) {
			var uri atomic.Value
			kube := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				uri.Store(r.URL.RequestURI())
				_, _ = io.WriteString(w, text)
			}))
			defer kube.Close()
			err := readPods(t.Context(), kubeconfigOf(t, kube.URL))
			if whole := name == "Whole"; whole != (err == nil) {
				t.Errorf("error %v", err)
			}
			want := "/api/v1/pods?allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&sendInitialEvents=true&watch=true"
			if got := uri.Load(); got != want {
				t.Errorf("requests %v, want %v", got, want)
			}
		})
	}
}

func TestAYardstickThatDoesNotStartSaysWhy(t *testing.T) {
	if _, err := startYardstick(t.Context(), nil, "sort", "/no/such/file"); err == nil || !strings.Contains(err.Error(), "/no/such/file") {
		t.Errorf("error %v", err)
	}
	if _, err := startYardstick(t.Context(), nil, "fastest"); err == nil || !strings.Contains(err.Error(), "fastest") {
		t.Errorf("error %v", err)
	}
}

func TestSortingHandler(t *testing.T) {
	var pods []*corev1.Pod
	for i := range 25 {
		// Two of an age: the name decides.
		created := metav1.NewTime(time.Unix(int64(1e9+i/2), 0))
		pods = append(pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("p%02d", i), CreationTimestamp: created}})
	}
	pods[0], pods[24] = pods[24], pods[0]
	h := sorting{pods}
	tests := map[string]struct {
		query string
		code  int
		first string
		items int
	}{
		"NewestFirst":       {"limit=10", 200, "p24", 10},
		"TheNextPage":       {"limit=10&page=2", 200, "p14", 10},
		"TheLastPage":       {"limit=10&page=3", 200, "p04", 5},
		"BeyondTheEnd":      {"limit=10&page=9", 200, "", 0},
		"WithoutALimit":     {"page=1", 400, "", 0},
		"WithoutSenseAtAll": {"limit=ten", 400, "", 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, podLists+"?"+tc.query, nil))
			if w.Code != tc.code {
				t.Fatalf("answered %d, want %d", w.Code, tc.code)
			}
			if tc.code != http.StatusOK {
				return
			}
			var list struct {
				Items      []corev1.Pod `json:"items"`
				TotalItems int          `json:"totalItems"`
			}
			if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil {
				t.Fatal(err)
			}
			if list.TotalItems != 25 || len(list.Items) != tc.items || tc.items > 0 && list.Items[0].Name != tc.first {
				t.Errorf("%d of %d items: %s", len(list.Items), list.TotalItems, w.Body)
			}
		})
	}
	if pods[0].Name != "p24" {
		t.Error("the handler has sorted what it was given, so that the next request has less to do")
	}
}
