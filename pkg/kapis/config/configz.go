package config

import (
	restful "github.com/emicklei/go-restful/v3"
)

// Multicluster says what this cluster is in a fleet. A client that does not find it assumes a single cluster.
type Multicluster struct {
	ClusterRole     string `json:"clusterRole"`
	HostClusterName string `json:"hostClusterName"`
	ClusterName     string `json:"clusterName,omitempty"`
}

type configz struct {
	Multicluster Multicluster `json:"multicluster"`
	Terminal     *Terminal    `json:"terminal,omitempty"`
	Auditing     bool         `json:"auditing,omitempty"`
}

// Terminal says what pages of terminals may do.
type Terminal struct {
	// UploadFileLimit is how many bytes an upload may have, as a quantity (100Mi).
	UploadFileLimit string `json:"uploadFileLimit"`
}

// GPUKind is a resource of nodes that stands for graphics processors.
type GPUKind struct {
	ResourceName string `json:"resourceName"`
	ResourceType string `json:"resourceType"`
	Default      bool   `json:"default"`
}

func (h Handler) configz(*restful.Request) (any, error) {
	return configz{h.Multicluster, h.Terminal, h.Auditing}, nil
}

// gpuKinds answers with a bare array, as clients of release 3.4 expect.
func (h Handler) gpuKinds(*restful.Request) (any, error) {
	return append([]GPUKind{}, h.GPUKinds...), nil
}
