package child

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/kube"
	"sigs.k8s.io/kustomize/kyaml/kio"
	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"

	"kapis.dev/ks-apiserver/pkg/helm"
)

// postRenderer changes what a chart rendered, hooks too: it sets labels, leaves states of one API group out, and sees to it that no
// upgrade and no uninstallation deletes a CustomResourceDefinition, and with it all its objects.
type postRenderer struct {
	labels       map[string]string
	dropStatusOf string
	// definition is called for each CustomResourceDefinition; an error ends the operation before anything is changed.
	definition func(manifest string) error
	// rendered is called first.
	rendered func()
}

// Run implements the SDK's interface.
func (p *postRenderer) Run(in *bytes.Buffer) (*bytes.Buffer, error) {
	p.rendered()
	nodes, err := kio.ParseAll(in.String())
	if err != nil {
		return nil, refused(helm.ReasonInvalid, fmt.Errorf("read the rendered manifests: %w", err))
	}
	for _, n := range nodes {
		if err := p.change(n, 0); err != nil {
			return nil, err
		}
	}
	out, err := kio.StringAll(nodes)
	if err != nil {
		return nil, err
	}
	return bytes.NewBufferString(out), nil
}

// change changes one object, or the objects of a List.
func (p *postRenderer) change(n *kyaml.RNode, depth int) error {
	if n.IsNilOrEmpty() || n.YNode().Kind != kyaml.MappingNode {
		return nil
	}
	if items := n.Field("items"); strings.HasSuffix(n.GetKind(), "List") && items != nil && !items.Value.IsNilOrEmpty() {
		if depth > 3 {
			return fault(helm.ReasonInvalid, "the rendered manifests have lists in lists")
		}
		return items.Value.VisitElements(func(item *kyaml.RNode) error { return p.change(item, depth+1) })
	}
	set := func(k, v string, as func(string, string) kyaml.Filter) error {
		if err := n.PipeE(as(k, v)); err != nil {
			return refused(helm.ReasonInvalid, fmt.Errorf("change %s %s: %w", n.GetKind(), n.GetName(), err))
		}
		return nil
	}
	for _, k := range slices.Sorted(maps.Keys(p.labels)) {
		label := func(k, v string) kyaml.Filter { return kyaml.SetLabel(k, v) }
		if err := set(k, p.labels[k], label); err != nil {
			return err
		}
	}
	group, _, found := strings.Cut(n.GetApiVersion(), "/")
	if !found {
		group = ""
	}
	if status := n.Field("status"); p.dropStatusOf != "" && group == p.dropStatusOf && status != nil && !status.Value.IsNilOrEmpty() {
		if status.Value.YNode().Kind != kyaml.MappingNode {
			return fault(helm.ReasonInvalid, "status of %s %s: want a mapping", n.GetKind(), n.GetName())
		}
		for _, field := range []string{"state", "conditions"} {
			if err := status.Value.PipeE(kyaml.Clear(field)); err != nil {
				return err
			}
		}
		if status.Value.IsNilOrEmpty() { // with server-side apply, which removes the fields, an empty one would become null
			if err := n.PipeE(kyaml.Clear("status")); err != nil {
				return err
			}
		}
	}
	if group == crdGroup && n.GetKind() == crdKind {
		annotate := func(k, v string) kyaml.Filter { return kyaml.SetAnnotation(k, v) }
		if err := set(kube.ResourcePolicyAnno, kube.KeepPolicy, annotate); err != nil {
			return err
		}
		text, err := n.String()
		if err != nil {
			return err
		}
		return p.definition(text)
	}
	return nil
}
