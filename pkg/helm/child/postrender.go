package child

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/kube"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/kustomize/kyaml/kio"
	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"
	"sigs.k8s.io/yaml"

	extensionsv1alpha1 "kapis.dev/ks-apiserver/pkg/api/extensions/v1alpha1"
	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/boundedyaml"
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
	// given is called at the end with the digest of what the objects give: roles, templates and bindings.
	given func(digest string) error

	giving []helm.Object
}

// Run implements the SDK's interface.
func (p *postRenderer) Run(in *bytes.Buffer) (*bytes.Buffer, error) {
	p.rendered()
	p.giving = nil
	nodes, err := kio.ParseAll(in.String())
	if err != nil {
		return nil, refused(helm.ReasonInvalid, fmt.Errorf("read the rendered manifests: %w", err))
	}
	for i := range nodes {
		if nodes[i], err = plain(nodes[i]); err != nil {
			return nil, err
		}
		if err := p.change(nodes[i], 0); err != nil {
			return nil, err
		}
	}
	if err := p.given(givenDigest(p.giving)); err != nil {
		return nil, err
	}
	out, err := kio.StringAll(nodes)
	if err != nil {
		return nil, err
	}
	return bytes.NewBufferString(out), nil
}

// gives notes what an object gives.
func (p *postRenderer) gives(n *kyaml.RNode) error {
	text, err := n.String()
	if err != nil {
		return err
	}
	u, err := decode(text)
	if err != nil || u == nil {
		return refused(helm.ReasonInvalid, err)
	}
	one, err := objectOf(u)
	if one.Forwards || u.GroupVersionKind().Group != extensionsv1alpha1.GroupName { // others of that group give nothing
		p.giving = append(p.giving, one)
	}
	return err
}

// givenDigest returns the SHA-256 of what objects give, in any order.
func givenDigest(objects []helm.Object) string {
	var texts []string
	for i := range objects {
		text, err := json.Marshal(&objects[i])
		if err != nil { // texts have a JSON text
			panic(fmt.Sprintf("encode an object: %v", err))
		}
		texts = append(texts, string(text))
	}
	slices.Sort(texts)
	all, err := json.Marshal(texts)
	if err != nil {
		panic(fmt.Sprintf("encode objects: %v", err))
	}
	return digest(string(all))
}

// annotationTemplate is where the SDK notes which template a document is of, until it is post-rendered.
const annotationTemplate = "postrenderer.helm.sh/postrender-filename"

// plain returns a document as it is applied, written without tags, aliases and merges, and refuses one that has a key twice. What is
// checked here is read by kyaml, which takes the first of two keys and a tagged one for none; what is recorded and applied is read by
// sigs.k8s.io/yaml, which takes the last one and decodes it.
func plain(n *kyaml.RNode) (*kyaml.RNode, error) {
	if n.IsNilOrEmpty() {
		return n, nil
	}
	template := n.GetAnnotations()[annotationTemplate]
	refuse := func(err error) error {
		return refused(helm.ReasonInvalid, fmt.Errorf("read what the template %.253q renders: %w", template, err))
	}
	text, err := n.String()
	if err != nil {
		return nil, refuse(err)
	}
	raw, err := boundedyaml.ToJSONStrict([]byte(text))
	if err != nil {
		return nil, refuse(err)
	}
	written, err := yaml.JSONToYAML(raw)
	if err != nil {
		return nil, refuse(err)
	}
	if n, err = kyaml.Parse(string(written)); err != nil {
		return nil, refuse(err)
	}
	// A quoted << would be written as a merge, and the SDK trims documents, also of blanks that a key begins with.
	if text, err = n.String(); err != nil {
		return nil, refuse(err)
	}
	docs := documents(text)
	if len(docs) == 1 {
		if again, err := boundedyaml.ToJSONStrict([]byte(docs[0])); err == nil && bytes.Equal(again, raw) {
			return n, nil
		}
	}
	return nil, refuse(errors.New("it has a key or a text that would be read as another one"))
}

// change changes one object, or the objects of a List.
func (p *postRenderer) change(n *kyaml.RNode, depth int) error {
	if n.IsNilOrEmpty() || n.YNode().Kind != kyaml.MappingNode {
		return nil
	}
	if items := n.Field("items"); items != nil && !items.Value.IsNilOrEmpty() {
		switch { // the SDK applies the items of whatever has some
		case !strings.HasSuffix(n.GetKind(), "List") || items.Value.YNode().Kind != kyaml.SequenceNode:
			return fault(helm.ReasonInvalid, "the %.63q %.253q has items, and is no list", n.GetKind(), n.GetName())
		case depth > maxListDepth:
			return errListsInLists
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
	if group == rbacv1.GroupName || group == iamv1beta1.GroupName || group == extensionsv1alpha1.GroupName {
		if err := p.gives(n); err != nil {
			return err
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
