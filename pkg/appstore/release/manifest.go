package release

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"kapis.dev/ks-apiserver/pkg/boundedyaml"
)

// maxDocuments is how many objects a manifest has.
const maxDocuments = 200

// Manifest returns the objects of YAML documents, of which a version of the types yaml and edge consists. The error is a 422, and quotes
// nothing of them.
func Manifest(raw []byte) ([]*unstructured.Unstructured, error) {
	if len(raw) > MaxValues {
		return nil, Invalidf("the YAML has more than %d bytes", MaxValues)
	}
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(raw)))
	var out []*unstructured.Unstructured
	for number := 1; ; number++ {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, Invalidf("document %d of the YAML can't be read", number)
		}
		object := map[string]any{}
		if err := boundedyaml.UnmarshalStrict(document, &object); err != nil {
			return nil, Invalidf("document %d: %v", number, boundedyaml.Why(err, "it is no YAML mapping, or has a key twice"))
		}
		if len(object) == 0 {
			continue
		}
		u := &unstructured.Unstructured{Object: object}
		gv, err := schema.ParseGroupVersion(u.GetAPIVersion())
		switch {
		case len(out) == maxDocuments:
			return nil, Invalidf("the YAML has more than %d objects", maxDocuments)
		case err != nil || gv.Version == "" || u.GetKind() == "":
			return nil, Invalidf("document %d has no apiVersion and kind", number)
		case u.IsList(), strings.HasSuffix(u.GetKind(), "List"):
			return nil, Invalidf("document %d is a list: write each object as a document of its own", number)
		case u.GetName() == "":
			return nil, Invalidf("document %d, a %.63q, has no metadata.name", number, u.GetKind())
		}
		out = append(out, u)
	}
	if len(out) == 0 {
		return nil, Invalidf("the YAML has no objects")
	}
	return out, nil
}

// SameKinds returns nil where two manifests have the same kinds, and as many objects of each.
func SameKinds(version, release []*unstructured.Unstructured) error {
	count := func(of []*unstructured.Unstructured) map[schema.GroupKind]int {
		out := map[schema.GroupKind]int{}
		for _, u := range of {
			out[u.GroupVersionKind().GroupKind()]++
		}
		return out
	}
	if maps.Equal(count(version), count(release)) {
		return nil
	}
	return Invalidf("spec.values: a release has the objects of its version, by kind and number, and only their content differs")
}
