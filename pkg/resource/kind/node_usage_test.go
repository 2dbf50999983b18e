package kind

import (
	"encoding/json"
	"math/rand/v2"
	"testing"

	"kapis.dev/ks-apiserver/pkg/redaction"
	"kapis.dev/ks-apiserver/pkg/store/index"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
	helpers "k8s.io/component-helpers/resource"
)

// record returns a pod as it is cached.
func record(t *testing.T, pod *corev1.Pod) *index.Record {
	t.Helper()
	text, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	shown, err := redaction.Received(string(text)).Shown(schema.GroupResource{Resource: "pods"})
	if err != nil {
		t.Fatal(err)
	}
	r := &index.Record{JSON: shown, Fields: make([]string, len(pods().Fields))}
	extractPod(shown.String(), r.Fields)
	return r
}

// Random pods with init containers, sidecars, overhead and resources of the whole pod take what Kubernetes' own function says.
func TestAPodTakesWhatTheSchedulerCounts(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // repeatable
	list := func() corev1.ResourceList {
		out := corev1.ResourceList{}
		if random.IntN(3) > 0 {
			out[corev1.ResourceCPU] = resource.MustParse([]string{"100m", "1", "0.25", "1500m", "0"}[random.IntN(5)])
		}
		if random.IntN(3) > 0 {
			out[corev1.ResourceMemory] = resource.MustParse([]string{"64Mi", "1G", "128974848", "1Gi", "0"}[random.IntN(5)])
		}
		out[corev1.ResourceEphemeralStorage] = resource.MustParse("9Gi")
		return out
	}
	containers := func(most int, sidecars bool) (out []corev1.Container) {
		for range random.IntN(most + 1) {
			c := corev1.Container{Resources: corev1.ResourceRequirements{Requests: list(), Limits: list()}}
			if sidecars && random.IntN(2) == 0 {
				c.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
			}
			out = append(out, c)
		}
		return out
	}
	for range 2000 {
		pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: containers(3, false), InitContainers: containers(4, true)}}
		if random.IntN(3) == 0 {
			pod.Spec.Overhead = list()
		}
		if random.IntN(3) == 0 {
			pod.Spec.Resources = &corev1.ResourceRequirements{Requests: list(), Limits: list()}
		}
		want := func(l corev1.ResourceList) resources { return resources{l.Cpu().MilliValue(), l.Memory().Value()} }
		requests, limits := helpers.PodRequests(pod, helpers.PodResourcesOptions{}), helpers.PodLimits(pod, helpers.PodResourcesOptions{})
		if got := resourcesOf(record(t, pod)); got != (podResources{want(requests), want(limits)}) {
			t.Fatalf("%+v, want %v and %v: %s", got, want(requests), want(limits), record(t, pod).JSON)
		}
	}
}

func TestWhatHasEndedTakesNothing(t *testing.T) {
	for phase, want := range map[corev1.PodPhase]int64{"Pending": 500, "Running": 500, "Unknown": 500, "Succeeded": 0, "Failed": 0} {
		pod := &corev1.Pod{Status: corev1.PodStatus{Phase: phase}, Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("500m")}},
		}}}}
		if got := resourcesOf(record(t, pod)).requests.cpu; got != want {
			t.Errorf("%s: %d", phase, got)
		}
	}
}

func TestAmountsAreBounded(t *testing.T) {
	for text, want := range map[string]resources{
		`{"cpu":"9E","memory":"9E"}`: {maxQuantity / 1000 * 1000, maxQuantity}, `{"cpu":"-1","memory":"-1"}`: {}, `{"cpu":"x","memory":7}`: {0, 7}, `null`: {}, ``: {},
		`{"cpu":2,"memory":"1Ki"}`: {2000, 1024},
	} {
		if got := amounts(text); got != want {
			t.Errorf("%s: %+v", text, got)
		}
	}
}
