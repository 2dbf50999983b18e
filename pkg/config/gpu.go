package config

import "k8s.io/apimachinery/pkg/util/validation"

// GPU is the section gpu: what clients of release 3.4 offer as graphics processors of a container.
type GPU struct {
	// Kinds are the resources of nodes that stand for graphics processors; nvidia.com/gpu.
	Kinds []GPUKind `json:"kinds"`
}

// GPUKind is a resource of nodes that stands for graphics processors.
type GPUKind struct {
	// ResourceName is the name of the resource, such as nvidia.com/gpu.
	ResourceName string `json:"resourceName"`
	// ResourceType is what clients show it as; GPU.
	ResourceType string `json:"resourceType"`
	// Default says that clients offer this one first; one of them at most.
	Default bool `json:"default"`
}

// Offered returns Kinds, or the default if the file says nothing of them.
func (g *GPU) Offered() []GPUKind {
	if g.Kinds == nil {
		return []GPUKind{{ResourceName: "nvidia.com/gpu", ResourceType: "GPU", Default: true}}
	}
	return g.Kinds
}

func (g *GPU) validate(fault func(format string, args ...any)) {
	seen, preferred := map[string]bool{}, 0
	for i, k := range g.Kinds {
		if wrong := validation.IsQualifiedName(k.ResourceName); len(wrong) > 0 {
			fault("gpu.kinds[%d].resourceName: %q is not the name of a resource: %s", i, k.ResourceName, wrong[0])
		}
		if seen[k.ResourceName] {
			fault("gpu.kinds[%d].resourceName: %q is there twice", i, k.ResourceName)
		}
		seen[k.ResourceName] = true
		if k.ResourceType == "" {
			fault("gpu.kinds[%d].resourceType is missing: it is what clients show, such as GPU", i)
		}
		if k.Default {
			preferred++
		}
	}
	if preferred > 1 {
		fault("gpu.kinds: %d of them are the default: one is at most", preferred)
	}
}
