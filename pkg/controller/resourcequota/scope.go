package resourcequota

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// podScopes has the properties of a pod that scopes check.
type podScopes struct {
	terminating, bestEffort, crossNamespace bool
	priorityClass                           string
}

func scopesOf(pod *corev1.Pod) *podScopes {
	s := &podScopes{bestEffort: isBestEffort(pod), priorityClass: pod.Spec.PriorityClassName,
		crossNamespace: crossesNamespaces(pod.Spec.Affinity)}
	if d := pod.Spec.ActiveDeadlineSeconds; d != nil && *d >= 0 {
		s.terminating = true
	}
	return s
}

// isBestEffort reports whether a pod requests no cpu and no memory at all.
func isBestEffort(pod *corev1.Pod) bool {
	if pod.Status.QOSClass != "" {
		return pod.Status.QOSClass == corev1.PodQOSBestEffort
	}
	asks := func(r *corev1.ResourceRequirements) bool {
		if r == nil {
			return false
		}
		for _, list := range []corev1.ResourceList{r.Requests, r.Limits} {
			if !list.Cpu().IsZero() || !list.Memory().IsZero() {
				return true
			}
		}
		return false
	}
	return !asks(pod.Spec.Resources) && !slices.ContainsFunc(slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers),
		func(c corev1.Container) bool { return asks(&c.Resources) })
}

// crossesNamespaces reports whether a pod's affinity refers to pods of other namespaces.
func crossesNamespaces(a *corev1.Affinity) bool {
	if a == nil {
		return false
	}
	var terms []corev1.PodAffinityTerm
	weighted := func(in []corev1.WeightedPodAffinityTerm) {
		for i := range in {
			terms = append(terms, in[i].PodAffinityTerm)
		}
	}
	if near := a.PodAffinity; near != nil {
		terms = append(terms, near.RequiredDuringSchedulingIgnoredDuringExecution...)
		weighted(near.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if far := a.PodAntiAffinity; far != nil {
		terms = append(terms, far.RequiredDuringSchedulingIgnoredDuringExecution...)
		weighted(far.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	return slices.ContainsFunc(terms, func(t corev1.PodAffinityTerm) bool { return len(t.Namespaces) > 0 || t.NamespaceSelector != nil })
}

// scoped reports whether a quota counts an object with use u: it has to be in all scopes of the quota. A quota with a
// scope counts pods only.
func scoped(q *corev1.ResourceQuotaSpec, u *use) bool {
	for _, name := range q.Scopes {
		if !u.of.in(corev1.ScopedResourceSelectorRequirement{ScopeName: name, Operator: corev1.ScopeSelectorOpExists}) {
			return false
		}
	}
	if q.ScopeSelector == nil {
		return true
	}
	return !slices.ContainsFunc(q.ScopeSelector.MatchExpressions, func(r corev1.ScopedResourceSelectorRequirement) bool { return !u.of.in(r) })
}

// in reports whether a pod is in a scope. In an unknown scope there is no pod.
func (s *podScopes) in(r corev1.ScopedResourceSelectorRequirement) bool {
	if s == nil {
		return false
	}
	switch r.ScopeName {
	case corev1.ResourceQuotaScopeTerminating:
		return s.terminating
	case corev1.ResourceQuotaScopeNotTerminating:
		return !s.terminating
	case corev1.ResourceQuotaScopeBestEffort:
		return s.bestEffort
	case corev1.ResourceQuotaScopeNotBestEffort:
		return !s.bestEffort
	case corev1.ResourceQuotaScopeCrossNamespacePodAffinity:
		return s.crossNamespace
	case corev1.ResourceQuotaScopePriorityClass:
		switch r.Operator {
		case corev1.ScopeSelectorOpIn:
			return s.priorityClass != "" && slices.Contains(r.Values, s.priorityClass)
		case corev1.ScopeSelectorOpNotIn:
			return !slices.Contains(r.Values, s.priorityClass)
		case corev1.ScopeSelectorOpDoesNotExist:
			return s.priorityClass == ""
		}
		return s.priorityClass != ""
	}
	return false
}
