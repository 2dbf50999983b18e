package kind

import (
	"strconv"
	"sync"

	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/resource/plan"
	"kapis.dev/ks-apiserver/pkg/store/index"

	"k8s.io/apimachinery/pkg/api/resource"
)

// maxUsageNodes is how many nodes have sums that are kept up to date; those of more are added up for each answer.
const maxUsageNodes = 8192

// maxQuantity bounds one request or limit: the sums of a node's pods can't overflow.
const maxQuantity = 1 << 50

// resources are amounts of CPU, in thousandths of a core, and of memory, in bytes.
type resources struct{ cpu, memory int64 }

func (r resources) plus(o resources) resources  { return resources{r.cpu + o.cpu, r.memory + o.memory} }
func (r resources) minus(o resources) resources { return resources{r.cpu - o.cpu, r.memory - o.memory} }
func (r resources) max(o resources) resources {
	return resources{max(r.cpu, o.cpu), max(r.memory, o.memory)}
}

// podResources are what a pod takes of its node.
type podResources struct{ requests, limits resources }

func (p podResources) plus(o podResources) podResources {
	return podResources{p.requests.plus(o.requests), p.limits.plus(o.limits)}
}

func (p podResources) minus(o podResources) podResources {
	return podResources{p.requests.minus(o.requests), p.limits.minus(o.limits)}
}

// nodeUsage is the sum of the requests, and of the limits, of the pods on each node that answers have shown. Each sum is added up once,
// over the pods of the node, and follows the changes of pods from then on.
type nodeUsage struct {
	mu       sync.Mutex
	position uint64
	byNode   map[string]podResources
}

// of returns the sums of a node.
func (u *nodeUsage) of(pods *index.Snapshot, node string) podResources {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.byNode != nil && pods.Position() < u.position {
		return sumOf(pods, node) // an answer that is older than another one
	}
	if u.byNode == nil || !pods.Changes(u.position, u.change) {
		u.byNode = map[string]podResources{}
	}
	u.position = pods.Position()
	sum, known := u.byNode[node]
	if !known {
		sum = sumOf(pods, node)
		if len(u.byNode) < maxUsageNodes {
			u.byNode[node] = sum
		}
	}
	return sum
}

func (u *nodeUsage) change(c *index.Change) bool {
	if c.Old != nil {
		if sum, known := u.byNode[c.Old.Fields[podNode]]; known {
			u.byNode[c.Old.Fields[podNode]] = sum.minus(resourcesOf(c.Old))
		}
	}
	if c.New != nil {
		if sum, known := u.byNode[c.New.Fields[podNode]]; known {
			u.byNode[c.New.Fields[podNode]] = sum.plus(resourcesOf(c.New))
		}
	}
	return true
}

func sumOf(pods *index.Snapshot, node string) (sum podResources) {
	pods.ByCreated(index.FieldIs(podNode, node)).Walk(0, false, func(ref *index.Ref) bool {
		sum = sum.plus(resourcesOf(pods.Record(ref)))
		return true
	})
	return sum
}

// resourcesOf returns the resources that a pod requests: none once it has ended.
func resourcesOf(pod *index.Record) podResources {
	if phase := pod.Fields[podPhase]; phase == "Succeeded" || phase == "Failed" {
		return podResources{}
	}
	var s podSpec
	for m := rawjson.Object(rawjson.Get(pod.JSON.String(), "spec")); m.Next(); {
		switch m.Key {
		case "containers":
			s.containers = m.Value
		case "initContainers":
			s.init = m.Value
		case "resources":
			s.whole = m.Value
		case "overhead":
			s.overhead = m.Value
		}
	}
	return podResources{s.take("requests"), s.take("limits")}
}

// podSpec is what decides how much a pod takes.
type podSpec struct {
	containers, init string // arrays of containers
	whole, overhead  string // the resources of the pod as a whole, and what its runtime adds
}

// take returns the requests or the limits of the pod, as the scheduler counts them: its containers run at once, and its init containers one
// after another, besides those that keep running.
func (s *podSpec) take(kind string) resources {
	var all, sidecars, most resources
	for e := rawjson.Array(s.containers); e.Next(); {
		all = all.plus(amounts(rawjson.Get(e.Value, "resources", kind)))
	}
	for e := rawjson.Array(s.init); e.Next(); {
		one := amounts(rawjson.Get(e.Value, "resources", kind))
		if rawjson.GetText(e.Value, "restartPolicy") == "Always" {
			all, sidecars = all.plus(one), sidecars.plus(one)
			most = most.max(sidecars)
			continue
		}
		most = most.max(sidecars.plus(one))
	}
	all = all.max(most)
	whole := rawjson.Get(s.whole, kind)
	if text := rawjson.GetText(whole, "cpu"); text != "" {
		all.cpu = amounts(whole).cpu
	}
	if text := rawjson.GetText(whole, "memory"); text != "" {
		all.memory = amounts(whole).memory
	}
	over := amounts(s.overhead)
	if kind == "requests" || all.cpu > 0 { // no limit stays none
		all.cpu += over.cpu
	}
	if kind == "requests" || all.memory > 0 {
		all.memory += over.memory
	}
	return all
}

// amounts returns the CPU and the memory of a list of resources.
func amounts(list string) (r resources) {
	for m := rawjson.Object(list); m.Next(); {
		switch m.Key {
		case "cpu":
			if q, err := resource.ParseQuantity(rawjson.Text(m.Value)); err == nil {
				r.cpu = max(0, min(q.Value(), maxQuantity/1000)) * 1000
				if r.cpu < maxQuantity/1000*1000 {
					r.cpu = max(0, q.MilliValue())
				}
			}
		case "memory":
			if q, err := resource.ParseQuantity(rawjson.Text(m.Value)); err == nil {
				r.memory = max(0, min(q.Value(), maxQuantity))
			}
		}
	}
	return r
}

// allocated says of a node how much of it its pods request, and how much they may take, as `kubectl describe node` does: in amounts, and in
// hundredths of what the node has for pods.
func allocated() *plan.DerivedAnnotation {
	const prefix = "node.kubesphere.io/"
	usage := &nodeUsage{}
	return &plan.DerivedAnnotation{
		Keys: []string{
			prefix + "cpu-requests", prefix + "cpu-requests-fraction", prefix + "cpu-limits", prefix + "cpu-limits-fraction",
			prefix + "memory-requests", prefix + "memory-requests-fraction", prefix + "memory-limits", prefix + "memory-limits-fraction",
		},
		From: PodsKind, Total: true,
		Of: func(pods *index.Snapshot, node *index.Record) []string {
			sum, of := usage.of(pods, node.Name), amounts(rawjson.Get(node.JSON.String(), "status", "allocatable"))
			return []string{
				cores(sum.requests.cpu), percent(sum.requests.cpu, of.cpu), cores(sum.limits.cpu), percent(sum.limits.cpu, of.cpu),
				bytes(sum.requests.memory), percent(sum.requests.memory, of.memory), bytes(sum.limits.memory), percent(sum.limits.memory, of.memory),
			}
		},
	}
}

func cores(milli int64) string { return resource.NewMilliQuantity(milli, resource.DecimalSI).String() }
func bytes(n int64) string     { return resource.NewQuantity(n, resource.BinarySI).String() }

// percent returns how much part is of whole; 0% of nothing.
func percent(part, whole int64) string {
	if whole == 0 {
		return "0%"
	}
	return strconv.FormatInt(int64(float64(part)/float64(whole)*100), 10) + "%"
}
