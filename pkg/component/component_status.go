// Package component reports the state of the platform's components: the Services of its own namespaces, and their pods.
package component

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/store/index"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The namespaces of the platform: these two, and all of the system's own workspace.
const (
	platformNamespace   = "kubesphere-system"
	kubernetesNamespace = "kube-system"
	workspaceLabel      = "kubesphere.io/workspace"
	systemWorkspace     = "system-workspace"
)

var (
	namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	services   = schema.GroupVersionResource{Version: "v1", Resource: "services"}
	pods       = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	nodes      = schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
)

// Snapshots returns the objects of a kind; *store.Store does.
type Snapshots interface {
	Snapshot(ctx context.Context, gvr schema.GroupVersionResource) (*index.Snapshot, error)
}

// Service reports the state of components.
type Service struct {
	Store Snapshots
}

// Status is the state of one component.
type Status struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	// SelfLink is the path of the Service at kube-apiserver.
	SelfLink string `json:"selfLink"`
	// Label is the selector of the Service.
	Label map[string]string `json:"label"`
	// StartedAt is when the Service was created.
	StartedAt time.Time `json:"startedAt"`
	// TotalBackends are the pods that should serve, HealthyBackends those that can.
	TotalBackends   int `json:"totalBackends"`
	HealthyBackends int `json:"healthyBackends"`
}

// Health is the state of the components and the nodes.
type Health struct {
	Components []Status `json:"kubesphereStatus"`
	// Kubernetes is always empty: clients of older versions look for it.
	Kubernetes []Status `json:"kubernetesStatus"`
	Nodes      Nodes    `json:"nodeStatus"`
}

// Nodes are the numbers of nodes.
type Nodes struct {
	Total   int `json:"totalNodes"`
	Healthy int `json:"healthyNodes"`
}

// List returns the components, by namespace and name: the services that select pods.
func (s *Service) List(ctx context.Context) ([]Status, error) {
	w, err := s.readWorld(ctx)
	if err != nil {
		return nil, err
	}
	out := []Status{}
	for _, ns := range w.namespaces {
		w.services.ByName(index.InNamespace(ns)).Walk(0, false, func(ref *index.Ref) bool {
			if st, ok := w.status(w.services.Record(ref)); ok {
				out = append(out, st)
			}
			return true
		})
	}
	return out, nil
}

// Get returns a component by its name. Of several in different namespaces it is the platform's own, then that of Kubernetes, then the
// first by namespace.
func (s *Service) Get(ctx context.Context, name string) (*Status, error) {
	w, err := s.readWorld(ctx)
	if err != nil {
		return nil, err
	}
	for _, ns := range w.namespaces {
		if r, ok := w.services.Get(ns, name); ok {
			if st, ok := w.status(r); ok {
				return &st, nil
			}
		}
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "components"}, name)
}

// Health returns the state of all components and nodes.
func (s *Service) Health(ctx context.Context) (*Health, error) {
	components, err := s.List(ctx)
	if err != nil {
		return nil, err
	}
	snap, err := s.Store.Snapshot(ctx, nodes)
	if err != nil {
		return nil, err
	}
	out := &Health{Components: components, Kubernetes: []Status{}, Nodes: Nodes{Total: snap.Len()}}
	snap.ByName(index.All()).Walk(0, false, func(ref *index.Ref) bool {
		if isReady(snap.Record(ref).JSON.String()) {
			out.Nodes.Healthy++
		}
		return true
	})
	return out, nil
}

// world is the snapshots that components are computed from.
type world struct {
	namespaces     []string
	services, pods *index.Snapshot
}

func (s *Service) readWorld(ctx context.Context) (*world, error) {
	w := &world{namespaces: []string{platformNamespace, kubernetesNamespace}}
	all, err := s.Store.Snapshot(ctx, namespaces)
	if err != nil {
		return nil, err
	}
	if w.services, err = s.Store.Snapshot(ctx, services); err != nil {
		return nil, err
	}
	if w.pods, err = s.Store.Snapshot(ctx, pods); err != nil {
		return nil, err
	}
	system := map[string]struct{}{}
	all.ByCreated(index.HasLabel(workspaceLabel, systemWorkspace)).Walk(0, false, func(ref *index.Ref) bool {
		if !slices.Contains(w.namespaces, ref.Name) {
			system[ref.Name] = struct{}{}
		}
		return true
	})
	w.namespaces = append(w.namespaces, slices.Sorted(maps.Keys(system))...)
	return w, nil
}

// status returns the state of the component of a Service. A Service that selects no pods is no component.
func (w *world) status(service *index.Record) (Status, bool) {
	selector := map[string]string{}
	for m := rawjson.Object(rawjson.Get(service.JSON.String(), "spec", "selector")); m.Next(); {
		selector[m.Key] = rawjson.Text(m.Value)
	}
	if len(selector) == 0 {
		return Status{}, false
	}
	st := Status{
		Name: service.Name, Namespace: service.Namespace, Label: selector, StartedAt: time.Unix(service.Created, 0).UTC(),
		SelfLink: fmt.Sprintf("/api/v1/namespaces/%s/services/%s", service.Namespace, service.Name),
	}
	w.backends(service.Namespace, selector).Walk(0, false, func(ref *index.Ref) bool {
		pod := w.pods.Record(ref)
		if pod.Namespace == service.Namespace && has(pod, selector) && !hasEnded(pod.JSON.String()) {
			st.TotalBackends++
			if isReady(pod.JSON.String()) {
				st.HealthyBackends++
			}
		}
		return true
	})
	return st, true
}

// backends returns the smallest range of pods that contains all that the selector matches.
func (w *world) backends(namespace string, selector map[string]string) index.Range {
	smallest := w.pods.ByCreated(index.InNamespace(namespace))
	for key, value := range selector {
		if r := w.pods.ByCreated(index.HasLabel(key, value)); r.Len() < smallest.Len() {
			smallest = r
		}
	}
	return smallest
}

func has(pod *index.Record, selector map[string]string) bool {
	for key, want := range selector {
		if value, ok := pod.Labels.Get(key); !ok || value != want {
			return false
		}
	}
	return true
}

// hasEnded reports whether a pod has ended, so that no Service sends it requests any more, and stays until it is deleted.
func hasEnded(pod string) bool {
	phase := rawjson.GetText(pod, "status", "phase")
	return phase == "Succeeded" || phase == "Failed"
}

// isReady reports whether the condition Ready of a pod or a node is true.
func isReady(object string) bool {
	for e := rawjson.Array(rawjson.Get(object, "status", "conditions")); e.Next(); {
		if rawjson.GetText(e.Value, "type") == "Ready" {
			return rawjson.GetText(e.Value, "status") == "True"
		}
	}
	return false
}
