// Package overview counts what is in a cluster or a namespace.
//
// Counts are the lengths of ranges of the store's indexes: they cost the same for ten objects and for a million, and need no request. A
// kind that is not cached yet is left out and named, so that one slow kind does not break the overview.
package overview

import (
	"context"
	"errors"
	"strconv"
	"time"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/store/index"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// wait is how long an overview waits for the kinds that are not cached yet, all together.
const wait = 2 * time.Second

// Snapshots returns the objects of a kind; *store.Store does. With a context that has ended it must start the cache of the kind and
// return at once.
type Snapshots interface {
	Snapshot(ctx context.Context, gvr schema.GroupVersionResource) (*index.Snapshot, error)
}

// ByStatus counts the objects of a resource, named by its plural alone, in a namespace, or in all where that is empty, with the given
// status. The statuses are those of the resource's own filter.
type ByStatus func(ctx context.Context, resource, namespace, status string) (int, error)

// Service counts objects.
type Service struct {
	Store    Snapshots
	ByStatus ByStatus
	// Now returns the time of counts.
	Now func() time.Time
}

func core(resource string) schema.GroupVersionResource { return apis("", resource) }

func apis(group, resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource}
}

// iam is a kind of the platform's own: the native roles are the mirrors of these, and those of Kubernetes itself.
func iam(resource string) schema.GroupVersionResource {
	return iamv1beta1.SchemeGroupVersion.WithResource(resource)
}

// counted is a kind that an overview counts.
type counted struct {
	name string // in the names of metrics
	gvr  schema.GroupVersionResource
}

// inBoth are the kinds of both overviews.
func inBoth() []counted {
	return []counted{
		{"pod", core("pods")},
		{"deployment", apis("apps", "deployments")},
		{"statefulset", apis("apps", "statefulsets")},
		{"daemonset", apis("apps", "daemonsets")},
		{"job", apis("batch", "jobs")},
		{"cronjob", apis("batch", "cronjobs")},
		{"persistentvolumeclaim", core("persistentvolumeclaims")},
		{"service", core("services")},
		{"ingress", apis("networking.k8s.io", "ingresses")},
	}
}

// Incomplete names the kinds that could not be counted.
type Incomplete struct{ lacks []string }

// Lacks returns the kinds that could not be counted, as resource.group.
func (i Incomplete) Lacks() []string { return i.lacks }

// Metrics are the counts of an overview, in the form of a query to a monitoring system.
type Metrics struct {
	Results []Metric `json:"results"`
	Incomplete
}

// Metric is one count.
type Metric struct {
	Name string `json:"metric_name"`
	Data Data   `json:"data"`
}

// Data holds one sample.
type Data struct {
	Type   string   `json:"resultType"`
	Result []Result `json:"result"`
}

// Result is one sample.
type Result struct {
	Value Sample `json:"value"`
}

// Sample is a count at a time, in seconds since 1970.
type Sample struct {
	Time  int64
	Count int
}

// MarshalJSON writes a sample as [time, count].
func (s Sample) MarshalJSON() ([]byte, error) {
	b := strconv.AppendInt([]byte{'['}, s.Time, 10)
	b = strconv.AppendInt(append(b, ','), int64(s.Count), 10)
	return append(b, ']'), nil
}

// Cluster counts what is in the cluster.
func (s *Service) Cluster(ctx context.Context) (*Metrics, error) {
	kinds := append([]counted{{"namespace", core("namespaces")}}, inBoth()...)
	kinds = append(kinds, counted{"clusterrolebinding", iam("clusterrolebindings")}, counted{"clusterrole", iam("clusterroles")})
	return s.metrics(ctx, "cluster_", kinds, "")
}

// Namespace counts what is in a namespace.
func (s *Service) Namespace(ctx context.Context, namespace string) (*Metrics, error) {
	kinds := append(inBoth(), counted{"role", iam("roles")}, counted{"rolebinding", iam("rolebindings")})
	return s.metrics(ctx, "namespace_", kinds, namespace)
}

func (s *Service) metrics(ctx context.Context, prefix string, kinds []counted, namespace string) (*Metrics, error) {
	gvrs := make([]schema.GroupVersionResource, len(kinds))
	for i, k := range kinds {
		gvrs[i] = k.gvr
	}
	snapshots, missing, err := s.snapshots(ctx, gvrs)
	if err != nil {
		return nil, err
	}
	out := &Metrics{Results: make([]Metric, 0, len(kinds)), Incomplete: Incomplete{missing}}
	now := s.Now().Unix()
	for i, k := range kinds {
		if snapshots[i] != nil {
			out.Results = append(out.Results, Metric{
				Name: prefix + k.name + "_count",
				Data: Data{Type: "vector", Result: []Result{{Sample{now, count(snapshots[i], namespace)}}}},
			})
		}
	}
	return out, nil
}

func count(snap *index.Snapshot, namespace string) int {
	if namespace == "" {
		return snap.Len()
	}
	return snap.ByCreated(index.InNamespace(namespace)).Len()
}

// snapshots returns the objects of the kinds, nil for those that are not cached, which missing names. The error is that of the last one,
// where none is cached.
func (s *Service) snapshots(ctx context.Context, gvrs []schema.GroupVersionResource) (out []*index.Snapshot, missing []string, err error) {
	out = make([]*index.Snapshot, len(gvrs))
	ended, end := context.WithCancel(ctx)
	end() // the first round does not wait, and starts all caches that the second waits for
	all := true
	for i, gvr := range gvrs {
		out[i], err = s.Store.Snapshot(ended, gvr)
		all = all && err == nil
	}
	if all {
		return out, nil, nil
	}
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	known := 0
	for i, gvr := range gvrs {
		if out[i] == nil {
			var failed error
			if out[i], failed = s.Store.Snapshot(waiting, gvr); failed != nil {
				out[i], err = nil, failed
				missing = append(missing, gvr.GroupResource().String())
				continue
			}
		}
		known++
	}
	if ctx.Err() != nil {
		return nil, nil, ctx.Err()
	}
	if known == 0 {
		return nil, nil, unavailable(err)
	}
	return out, missing, nil
}

// unavailable returns a Status for an error that is none: of a wait that ended.
func unavailable(err error) error {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return err
	}
	return apierrors.NewServiceUnavailable("nothing can be counted yet: kube-apiserver has not told what there is")
}
