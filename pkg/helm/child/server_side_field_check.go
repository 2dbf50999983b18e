package child

import (
	"io"

	"helm.sh/helm/v4/pkg/kube"
)

// checkedByServer is a client that leaves the check of fields to kube-apiserver, which has done it with each write since Kubernetes 1.25.
// The SDK does so too, but only after it has read the OpenAPI documents of all groups of a chart to learn that the server does: two thirds
// of the processor time of an operation.
type checkedByServer struct{ *kube.Client }

// Build implements kube.Interface.
func (c checkedByServer) Build(in io.Reader, _ bool) (kube.ResourceList, error) {
	return c.Client.Build(in, false)
}
