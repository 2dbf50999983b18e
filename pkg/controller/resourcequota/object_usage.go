package resourcequota

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
	quota "k8s.io/apiserver/pkg/quota/v1"
	podresource "k8s.io/component-helpers/resource"
)

// countPrefix begins the names of limits on the number of objects of a kind: count/deployments.apps.
const countPrefix = "count/"

// storageClassInfix separates a storage class from the limited resource.
const storageClassInfix = ".storageclass.storage.k8s.io/"

func pods() schema.GroupResource     { return schema.GroupResource{Resource: "pods"} }
func services() schema.GroupResource { return schema.GroupResource{Resource: "services"} }
func claims() schema.GroupResource   { return schema.GroupResource{Resource: "persistentvolumeclaims"} }

// use is what an object uses, and what scopes check. It is immutable.
type use struct {
	amounts corev1.ResourceList
	// of has what scopes check of a pod; nil for other kinds, which have no scopes.
	of *podScopes
}

// counted returns the use of an object of which only the number is limited.
func counted(gr schema.GroupResource) *use {
	one := *resource.NewQuantity(1, resource.DecimalSI)
	amounts := corev1.ResourceList{countName(gr): one}
	if gr.Group == "" {
		amounts[corev1.ResourceName(gr.Resource)] = one // the older name: configmaps
	}
	return &use{amounts: amounts}
}

func countName(gr schema.GroupResource) corev1.ResourceName {
	return corev1.ResourceName(countPrefix + gr.String())
}

// kindOf returns the kind of objects that a limit counts.
func kindOf(name corev1.ResourceName) schema.GroupResource {
	s := string(name)
	if rest, ok := strings.CutPrefix(s, countPrefix); ok {
		return schema.ParseGroupResource(rest)
	}
	switch {
	case s == "services" || strings.HasPrefix(s, "services."):
		return services()
	case s == "persistentvolumeclaims" || s == "requests.storage" || strings.Contains(s, storageClassInfix):
		return claims()
	case slices.Contains([]string{"configmaps", "replicationcontrollers", "resourcequotas", "secrets"}, s):
		return schema.GroupResource{Resource: s}
	}
	return pods()
}

// kindsOf returns the kinds that limits count, sorted.
func kindsOf(hard corev1.ResourceList) []schema.GroupResource {
	seen := map[schema.GroupResource]bool{}
	for name := range hard {
		seen[kindOf(name)] = true
	}
	out := make([]schema.GroupResource, 0, len(seen))
	for gr := range seen {
		out = append(out, gr)
	}
	slices.SortFunc(out, func(a, b schema.GroupResource) int { return cmp.Compare(a.String(), b.String()) })
	return out
}

// ofPod returns what a pod uses. A pod that has ended counts only as an object.
func ofPod(pod *corev1.Pod) *use {
	u := counted(pods())
	u.of = scopesOf(pod)
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		u.amounts[corev1.ResourcePods] = resource.Quantity{Format: resource.DecimalSI}
		return u
	}
	// For a pod that was resized in place, the higher of the requested and the actual amounts counts.
	o := podresource.PodResourcesOptions{UseStatusResources: true, InPlacePodLevelResourcesVerticalScalingEnabled: true}
	for name, amount := range podresource.PodRequests(pod, o) {
		u.amounts["requests."+name] = amount
		if isNative(name) {
			u.amounts[name] = amount // cpu is the same as requests.cpu
		}
	}
	for name, amount := range podresource.PodLimits(pod, o) {
		if name == corev1.ResourceCPU || name == corev1.ResourceMemory || name == corev1.ResourceEphemeralStorage {
			u.amounts["limits."+name] = amount
		}
	}
	return u
}

func isNative(name corev1.ResourceName) bool {
	return name == corev1.ResourceCPU || name == corev1.ResourceMemory || name == corev1.ResourceEphemeralStorage ||
		strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

// ofService returns what a service uses. A load balancer gets a port on each node for each of its ports, unless its spec disables that.
func ofService(s *corev1.Service) *use {
	u := counted(services())
	var balancers, ports int64
	switch s.Spec.Type {
	case corev1.ServiceTypeNodePort:
		ports = int64(len(s.Spec.Ports))
	case corev1.ServiceTypeLoadBalancer:
		balancers = 1
		if allocate := s.Spec.AllocateLoadBalancerNodePorts; allocate == nil || *allocate {
			ports = int64(len(s.Spec.Ports))
			break
		}
		for i := range s.Spec.Ports {
			if s.Spec.Ports[i].NodePort != 0 {
				ports++
			}
		}
	}
	u.amounts[corev1.ResourceServicesLoadBalancers] = *resource.NewQuantity(balancers, resource.DecimalSI)
	u.amounts[corev1.ResourceServicesNodePorts] = *resource.NewQuantity(ports, resource.DecimalSI)
	return u
}

// ofClaim returns what a claim uses: the requested size, or the actual one if that is larger, in whole bytes; also under the
// name of its storage class.
func ofClaim(c *corev1.PersistentVolumeClaim) *use {
	u := counted(claims())
	size, found := c.Spec.Resources.Requests[corev1.ResourceStorage]
	if given, ok := c.Status.AllocatedResources[corev1.ResourceStorage]; ok && given.Cmp(size) > 0 {
		size, found = given, true
	}
	class := c.Annotations[corev1.BetaStorageClassAnnotation]
	if class == "" && c.Spec.StorageClassName != nil {
		class = *c.Spec.StorageClassName
	}
	one := u.amounts[corev1.ResourcePersistentVolumeClaims]
	if class != "" {
		u.amounts[corev1.ResourceName(class+storageClassInfix+"persistentvolumeclaims")] = one
	}
	if !found {
		return u
	}
	size = size.DeepCopy()
	size.RoundUp(0)
	u.amounts[corev1.ResourceRequestsStorage] = size
	if class != "" {
		u.amounts[corev1.ResourceName(class+storageClassInfix+"requests.storage")] = size
	}
	return u
}

// unlimited returns what a pod has to specify and does not: if cpu or memory are limited, a container without a request would
// be free. It returns "" if nothing is missing.
func unlimited(pod *corev1.Pod, hard corev1.ResourceList) string {
	if podresource.IsPodLevelResourcesSet(pod) {
		return ""
	}
	var missing []string
	for _, name := range []corev1.ResourceName{"cpu", "limits.cpu", "limits.memory", "memory", "requests.cpu", "requests.memory"} {
		if _, ok := hard[name]; !ok {
			continue
		}
		var without []string
		for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
			from := c.Resources.Requests
			bare, ok := strings.CutPrefix(string(name), "limits.")
			if ok {
				from = c.Resources.Limits
			}
			if _, ok := from[corev1.ResourceName(strings.TrimPrefix(bare, "requests."))]; !ok {
				without = append(without, c.Name)
			}
		}
		if len(without) > 0 {
			slices.Sort(without)
			missing = append(missing, fmt.Sprintf("%s for: %s", name, strings.Join(without, ",")))
		}
	}
	return strings.Join(missing, "; ")
}

// growth returns the increase from before to after, for limited resources. before may be nil.
func growth(before, after *use, hard corev1.ResourceList) corev1.ResourceList {
	out := corev1.ResourceList{}
	for name := range hard {
		now, ok := after.amounts[name]
		if !ok {
			continue
		}
		more := now.DeepCopy()
		if before != nil {
			more.Sub(before.amounts[name])
		}
		if more.Sign() > 0 {
			out[name] = more
		}
	}
	return out
}

// add adds n times the limited amounts of u to sum.
func (u *use) add(sum corev1.ResourceList, n int64, limited []corev1.ResourceName) {
	for _, name := range limited {
		if one, ok := u.amounts[name]; ok {
			total := sum[name]
			more := one.DeepCopy()
			more.Mul(n)
			total.Add(more)
			sum[name] = total
		}
	}
}

// spell formats amounts for users: limits.cpu=2,pods=3.
func spell(l corev1.ResourceList) string {
	names := quota.ResourceNames(l)
	slices.Sort(names)
	parts := make([]string, len(names))
	for i, name := range names {
		amount := l[name]
		parts[i] = string(name) + "=" + amount.String()
	}
	return strings.Join(parts, ",")
}
