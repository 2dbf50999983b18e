package resource

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/resource/kind"
	"kapis.dev/ks-apiserver/pkg/resource/plan"
	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/pkg/store/index"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

const nodesAt = "/api/v1/nodes"

// placed is a pod on a node that requests and may take so many thousandths of a core, and as many Mi of memory.
func placed(key, node, version string, requests, limits int) string {
	text := obj(key, "", fmt.Sprintf(`"spec":{"nodeName":%q,"containers":[{"resources":{"requests":{"cpu":"%dm","memory":"%dMi"},`+
		`"limits":{"cpu":"%dm","memory":"%dMi"}}}]},"status":{"phase":"Running"}`, node, requests, requests, limits, limits))
	return strings.Replace(text, `"resourceVersion":"7"`, `"resourceVersion":"`+version+`"`, 1)
}

func nodeWorld(t *testing.T) *world {
	return newCluster(t, map[string][]string{
		podsAt: {placed("a/p", "n1", "11", 250, 500), placed("b/q", "n1", "11", 1000, 2000), placed("b/r", "n2", "11", 100, 0), placed("b/s", "", "11", 100, 100)},
		nodesAt: {
			obj("n1", `"annotations":{"node.kubesphere.io/cpu-requests":"9","x":"y"}`, `"status":{"allocatable":{"cpu":"4","memory":"4Gi"}}`),
			obj("n2", "", `"status":{"allocatable":{"cpu":"2","memory":"1Gi"}}`), obj("n3", "", ""),
		},
	}, Options{})
}

// may is the scope of a caller who may list all pods, or not.
func may(t *testing.T, allowed bool) plan.Scope {
	return plan.Scope{MayList: func(_ context.Context, gvr schema.GroupVersionResource) bool {
		if gvr != kind.PodsKind {
			t.Errorf("asked about %v", gvr)
		}
		return allowed
	}}
}

// nodeAnnotations are the annotations of a node about its pods.
func nodeAnnotations(node string) string {
	var out []string
	for _, key := range []string{"cpu-requests", "cpu-requests-fraction", "cpu-limits", "cpu-limits-fraction",
		"memory-requests", "memory-requests-fraction", "memory-limits", "memory-limits-fraction"} {
		out = append(out, rawjson.GetText(node, "metadata", "annotations", "node.kubesphere.io/"+key))
	}
	return strings.Join(out, " ")
}

// The nodes page of the console asks for .../nodes?sortBy=createTime&limit=10, and shows these annotations.
func TestANodeSaysWhatItsPodsTake(t *testing.T) {
	w := nodeWorld(t)
	k := w.resolve(t, "", "nodes")
	for range 3 { // the first, the recorded, the cached
		p, err := w.List(t.Context(), k, may(t, true), parsed(t, "sortBy=name&ascending=true&limit=10"))
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []string{
			"1250m 31% 2500m 62% 1250Mi 30% 2500Mi 61%", "100m 5% 0 0% 100Mi 9% 0 0%", "0 0% 0 0% 0 0% 0 0%",
		} {
			if got := nodeAnnotations(itemOf(p, i)); got != want {
				t.Errorf("node %d: %s\nwant %s", i, got, want)
			}
		}
		if body := respond(p.Items(), http.MethodGet).Body.String(); strings.Count(body, `cpu-requests":`) != 3 || !strings.Contains(body, `"x":"y"`) {
			t.Error(body)
		}
	}
	o, err := w.Get(t.Context(), k, may(t, true), "n1")
	if err != nil || nodeAnnotations(o.JSON.String()) != "1250m 31% 2500m 62% 1250Mi 30% 2500Mi 61%" {
		t.Errorf("%v, %v", o, err)
	}
}

func TestOnlyWhoMayListAllPodsSeesWhatTheyTake(t *testing.T) {
	w := nodeWorld(t)
	k := w.resolve(t, "", "nodes")
	for _, scope := range []plan.Scope{may(t, false), {}} {
		p, err := w.List(t.Context(), k, scope, parsed(t, "sortBy=name&ascending=true"))
		if err != nil {
			t.Fatal(err)
		}
		for i := range p.Records {
			if strings.Contains(itemOf(p, i), "node.kubesphere.io/") {
				t.Error(itemOf(p, i))
			}
		}
	}
	for _, c := range w.store.Conditions() {
		if c.GVR == kind.PodsKind {
			t.Error("pods are cached for nobody")
		}
	}
}

func TestTheSumsOfANodeFollowItsPods(t *testing.T) {
	w := nodeWorld(t)
	k := w.resolve(t, "", "nodes")
	pods, err := w.store.Watch(t.Context(), kind.PodsKind)
	if err != nil {
		t.Fatal(err)
	}
	defer pods.Close()
	for i, step := range []struct{ event, object, n1, n2 string }{
		{"ADDED", placed("c/t", "n1", "20", 250, 500), "1500m", "100m"},
		{"MODIFIED", placed("b/r", "n2", "21", 700, 0), "1500m", "700m"},
		{"MODIFIED", placed("b/s", "n2", "22", 100, 0), "1500m", "800m"}, // scheduled
		{"DELETED", placed("b/q", "n1", "23", 1000, 2000), "500m", "800m"},
		{"MODIFIED", strings.Replace(placed("c/t", "n1", "24", 250, 500), "Running", "Succeeded", 1), "250m", "800m"},
	} {
		w.send(podsAt, step.event, step.object)
		reach(t, pods, fmt.Sprint(20+i))
		for name, want := range map[string]string{"n1": step.n1, "n2": step.n2} {
			o, err := w.Get(t.Context(), k, may(t, true), name)
			if err != nil {
				t.Fatal(err)
			}
			if got, _, _ := strings.Cut(nodeAnnotations(o.JSON.String()), " "); got != want {
				t.Errorf("step %d: %s requests %s, want %s", i, name, got, want)
			}
		}
	}
}

// reach waits until a kind has a version.
func reach(t *testing.T, w *store.Watch, version string) {
	t.Helper()
	var snap *index.Snapshot
	for snap = w.Snapshot(); snap.ResourceVersion() != version; {
		var err error
		if snap, err = w.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
