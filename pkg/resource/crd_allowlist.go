package resource

import (
	"context"
	"net/http"
	"strings"

	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/store"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// servedLabel marks the custom resource definitions whose objects are served where Options.ServedOnly is set.
const servedLabel = "kubesphere.io/resource-served"

var definitionsKind = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// Served returns why the routes that serve any kind do not serve this one, or nil. With Options.ServedOnly they serve what
// kube-apiserver has built in, the groups of KubeSphere, and the custom resources whose definition carries the label
// kubesphere.io/resource-served=true; without it, everything.
func (s *Service) Served(ctx context.Context, k *store.Kind) error {
	gr := k.GVR.GroupResource()
	if !s.options.ServedOnly || gr.Group == "" || gr.Group == "kubesphere.io" || strings.HasSuffix(gr.Group, ".kubesphere.io") {
		return nil
	}
	definitions, err := s.store.Snapshot(ctx, definitionsKind)
	if err != nil {
		return err
	}
	// A definition is called <plural>.<group>, and no plural has a dot: one of a resource with a dot would be another's.
	definition, ok := definitions.Get("", gr.String())
	if !ok || strings.Contains(gr.Resource, ".") {
		return nil // not a custom resource
	}
	if label, _ := definition.Labels.Get(servedLabel); label != "true" {
		return status.About(gr, "", status.Errorf(http.StatusNotFound,
			"resource %q is not supported: its definition lacks the label %s=true", gr, servedLabel))
	}
	return nil
}
