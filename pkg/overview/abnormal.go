package overview

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Abnormal are the numbers of objects in an abnormal state.
type Abnormal struct {
	// Namespace is empty for the cluster.
	Namespace string         `json:"namespace"`
	Data      map[string]int `json:"data"`
	Incomplete
}

// abnormal returns the states that are counted.
func abnormal() []struct{ resource, status string } {
	return []struct{ resource, status string }{
		{"deployments", "updating"},
		{"statefulsets", "updating"},
		{"daemonsets", "updating"},
		{"jobs", "failed"},
		{"persistentvolumeclaims", "pending|lost"},
	}
}

// Abnormal counts, in a namespace or in the cluster where that is empty, workloads without all of their replicas, failed jobs, and claims
// without a volume.
func (s *Service) Abnormal(ctx context.Context, namespace string) (*Abnormal, error) {
	out := &Abnormal{Namespace: namespace, Data: map[string]int{}}
	var last error
	for _, k := range abnormal() {
		n, err := s.ByStatus(ctx, k.resource, namespace, k.status)
		switch {
		case err == nil:
			out.Data[k.resource] = n
		case apierrors.IsServiceUnavailable(err):
			out.lacks, last = append(out.lacks, k.resource), err
		default:
			return nil, err
		}
	}
	if len(out.Data) == 0 {
		return nil, last
	}
	return out, nil
}
