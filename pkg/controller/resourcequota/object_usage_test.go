package resourcequota

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	quota "k8s.io/apiserver/pkg/quota/v1"
	"sigs.k8s.io/yaml"
)

// parse decodes an object from YAML.
func parse[T any](t *testing.T, text string) *T {
	t.Helper()
	o := new(T)
	if err := yaml.UnmarshalStrict([]byte(text), o); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return o
}

func list(t *testing.T, text string) corev1.ResourceList {
	t.Helper()
	return *parse[corev1.ResourceList](t, text)
}

func expect(t *testing.T, got, want corev1.ResourceList) {
	t.Helper()
	if !quota.Equals(got, want) {
		t.Errorf("%s\n want %s", spell(got), spell(want))
	}
}

func TestUseOfPods(t *testing.T) {
	for name, c := range map[string]struct{ pod, want string }{
		"ContainersAddUp": {
			"{spec: {containers: [{name: a, resources: {requests: {cpu: 100m, memory: 1Gi}, limits: {cpu: 1}}}, {name: b, resources: {requests: {cpu: 200m}}}]}}",
			"{count/pods: 1, pods: 1, cpu: 300m, requests.cpu: 300m, memory: 1Gi, requests.memory: 1Gi, limits.cpu: 1}",
		},
		"InitContainersRunBefore": {
			"{spec: {initContainers: [{name: i, resources: {requests: {cpu: 2}}}, {name: j, resources: {requests: {cpu: 1}}}], containers: [{name: a, resources: {requests: {cpu: 500m}}}]}}",
			"{count/pods: 1, pods: 1, cpu: 2, requests.cpu: 2}",
		},
		"SidecarsRunBesides": {
			"{spec: {initContainers: [{name: i, restartPolicy: Always, resources: {requests: {cpu: 2}}}], containers: [{name: a, resources: {requests: {cpu: 500m}}}]}}",
			"{count/pods: 1, pods: 1, cpu: 2500m, requests.cpu: 2500m}",
		},
		"OverheadCounts": {
			"{spec: {overhead: {memory: 10Mi}, containers: [{name: a, resources: {requests: {memory: 100Mi}}}]}}",
			"{count/pods: 1, pods: 1, memory: 110Mi, requests.memory: 110Mi}",
		},
		"DevicesCountAsRequests": {
			"{spec: {containers: [{name: a, resources: {requests: {example.com/gpu: 2}, limits: {example.com/gpu: 2}}}]}}",
			"{count/pods: 1, pods: 1, requests.example.com/gpu: 2}",
		},
		"WhatEndedIsOnlyAnObject": {
			"{spec: {containers: [{name: a, resources: {requests: {cpu: 1}}}]}, status: {phase: Succeeded}}", "{count/pods: 1, pods: 0}",
		},
		"WhatFailedIsOnlyAnObject": {"{spec: {containers: [{name: a}]}, status: {phase: Failed}}", "{count/pods: 1, pods: 0}"},
	} {
		t.Run(name, func(t *testing.T) { expect(t, ofPod(parse[corev1.Pod](t, c.pod)).amounts, list(t, c.want)) })
	}
}

func TestUseOfServices(t *testing.T) {
	for name, c := range map[string]struct{ service, want string }{
		"ClusterIP":    {"{spec: {ports: [{port: 1}]}}", "{services.loadbalancers: 0, services.nodeports: 0}"},
		"NodePort":     {"{spec: {type: NodePort, ports: [{port: 1}, {port: 2}]}}", "{services.loadbalancers: 0, services.nodeports: 2}"},
		"LoadBalancer": {"{spec: {type: LoadBalancer, ports: [{port: 1}]}}", "{services.loadbalancers: 1, services.nodeports: 1}"},
		"WithoutNodePort": {"{spec: {type: LoadBalancer, allocateLoadBalancerNodePorts: false, ports: [{port: 1}, {port: 2, nodePort: 30000}]}}",
			"{services.loadbalancers: 1, services.nodeports: 1}"},
	} {
		t.Run(name, func(t *testing.T) {
			want := list(t, c.want)
			want["services"], want["count/services"] = list(t, "{a: 1}")["a"], list(t, "{a: 1}")["a"]
			expect(t, ofService(parse[corev1.Service](t, c.service)).amounts, want)
		})
	}
}

func TestUseOfClaims(t *testing.T) {
	for name, c := range map[string]struct{ claim, want string }{
		"WithoutClass": {"{spec: {resources: {requests: {storage: 1Gi}}}}", "{requests.storage: 1Gi}"},
		"WithClass": {"{spec: {storageClassName: gold, resources: {requests: {storage: 1Gi}}}}",
			"{requests.storage: 1Gi, gold.storageclass.storage.k8s.io/requests.storage: 1Gi, gold.storageclass.storage.k8s.io/persistentvolumeclaims: 1}"},
		"WhatIsGivenCounts":   {"{spec: {resources: {requests: {storage: 1Gi}}}, status: {allocatedResources: {storage: 2Gi}}}", "{requests.storage: 2Gi}"},
		"PartsOfBytesAreMore": {"{spec: {resources: {requests: {storage: 1500m}}}}", "{requests.storage: 2}"},
	} {
		t.Run(name, func(t *testing.T) {
			want := list(t, c.want)
			want["persistentvolumeclaims"], want["count/persistentvolumeclaims"] = list(t, "{a: 1}")["a"], list(t, "{a: 1}")["a"]
			expect(t, ofClaim(parse[corev1.PersistentVolumeClaim](t, c.claim)).amounts, want)
		})
	}
}

func TestEachLimitIsOnOneKind(t *testing.T) {
	for name, want := range map[corev1.ResourceName]string{
		"pods": "pods", "limits.cpu": "pods", "requests.example.com/gpu": "pods", "hugepages-2Mi": "pods", "requests.ephemeral-storage": "pods",
		"count/deployments.apps": "deployments.apps", "count/secrets": "secrets", "configmaps": "configmaps", "services.nodeports": "services",
		"requests.storage": "persistentvolumeclaims", "a.storageclass.storage.k8s.io/requests.storage": "persistentvolumeclaims",
	} {
		if got := kindOf(name).String(); got != want {
			t.Errorf("%s is on %s, want %s", name, got, want)
		}
	}
	expect(t, counted(schema.GroupResource{Group: "apps", Resource: "deployments"}).amounts, list(t, "{count/deployments.apps: 1}"))
	expect(t, counted(schema.GroupResource{Resource: "configmaps"}).amounts, list(t, "{count/configmaps: 1, configmaps: 1}"))
}

func TestWhatIsLimitedHasToBeSaid(t *testing.T) {
	for name, c := range map[string]struct{ hard, pod, want string }{
		"NothingOfIt": {"{pods: 1}", "{spec: {containers: [{name: a}]}}", ""},
		"Said":        {"{limits.cpu: 1}", "{spec: {containers: [{name: a, resources: {limits: {cpu: 0}}}]}}", ""},
		"NotSaidByOne": {"{limits.cpu: 1, requests.memory: 1}",
			"{spec: {containers: [{name: a, resources: {limits: {cpu: 1}}}, {name: b, resources: {requests: {memory: 1}}}]}}",
			"limits.cpu for: b; requests.memory for: a"},
		"ByInitContainers":  {"{cpu: 1}", "{spec: {initContainers: [{name: i}], containers: [{name: a, resources: {requests: {cpu: 1}}}]}}", "cpu for: i"},
		"SaidForTheWhole":   {"{limits.cpu: 1}", "{spec: {resources: {limits: {cpu: 1}}, containers: [{name: a}]}}", ""},
		"DevicesMayBeUnset": {"{requests.example.com/gpu: 1}", "{spec: {containers: [{name: a}]}}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := unlimited(parse[corev1.Pod](t, c.pod), list(t, c.hard)); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

func TestScopes(t *testing.T) {
	plain := "{spec: {containers: [{name: a}]}}"
	busy := "{spec: {priorityClassName: high, activeDeadlineSeconds: 5, containers: [{name: a, resources: {requests: {cpu: 1}}}]}}"
	for _, c := range []struct {
		scopes      string
		plain, busy bool
	}{
		{"{}", true, true},
		{"{scopes: [Terminating]}", false, true},
		{"{scopes: [NotTerminating]}", true, false},
		{"{scopes: [BestEffort]}", true, false},
		{"{scopes: [NotBestEffort]}", false, true},
		{"{scopes: [NotBestEffort, NotTerminating]}", false, false},
		{"{scopes: [CrossNamespacePodAffinity]}", false, false},
		{"{scopes: [SomethingNew]}", false, false},
		{"{scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: Exists}]}}", false, true},
		{"{scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: DoesNotExist}]}}", true, false},
		{"{scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: In, values: [high, low]}]}}", false, true},
		{"{scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: NotIn, values: [high]}]}}", true, false},
	} {
		q := parse[corev1.ResourceQuotaSpec](t, c.scopes)
		for pod, want := range map[string]bool{plain: c.plain, busy: c.busy} {
			if got := scoped(q, ofPod(parse[corev1.Pod](t, pod))); got != want {
				t.Errorf("%s has %s: %t", c.scopes, pod, got)
			}
		}
		if got := scoped(q, counted(services())); got != (c.scopes == "{}") {
			t.Errorf("%s has a service: %t", c.scopes, got)
		}
	}
	far := "{spec: {containers: [{name: a}], affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: k, namespaces: [b]}]}}}}"
	near := strings.ReplaceAll(far, ", namespaces: [b]", "")
	if q := parse[corev1.ResourceQuotaSpec](t, "{scopes: [CrossNamespacePodAffinity]}"); !scoped(q, ofPod(parse[corev1.Pod](t, far))) ||
		scoped(q, ofPod(parse[corev1.Pod](t, near))) {
		t.Error("affinity to other namespaces is not told from that to one's own")
	}
}
