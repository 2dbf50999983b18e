package mirror

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
)

// AnnotationSource names the iam role that a native object mirrors, as Source gives it.
const AnnotationSource = "kapis.dev/mirror-of"

// SourceField is the cache's index of native objects by AnnotationSource; see Index.
const SourceField = "kapis.dev/source"

// Source returns the value of AnnotationSource for the role with that kind and key.
func Source(kind string, key types.NamespacedName) string {
	if key.Namespace == "" {
		return kind + "/" + key.Name
	}
	return kind + "/" + key.Namespace + "/" + key.Name
}

// keyOf returns the key in a value of Source, for a role of the kind.
func keyOf(kind, source string) (types.NamespacedName, bool) {
	rest, ok := strings.CutPrefix(source, kind+"/")
	if !ok {
		return types.NamespacedName{}, false
	}
	if namespace, name, namespaced := strings.Cut(rest, "/"); namespaced {
		return types.NamespacedName{Namespace: namespace, Name: name}, true
	}
	return types.NamespacedName{Name: rest}, true
}

// Index indexes the mirror's own objects by their source. It is called once for a cache, before the first controller that mirrors starts.
func Index(ctx context.Context, indexer client.FieldIndexer) error {
	for _, o := range nativeKinds() {
		if err := indexer.IndexField(ctx, o, SourceField, SourceIndex); err != nil {
			return fmt.Errorf("index native roles and bindings by what they mirror: %w", err)
		}
	}
	return nil
}

// SourceIndex is the index function of Index.
func SourceIndex(o client.Object) []string {
	if source := o.GetAnnotations()[AnnotationSource]; source != "" && ours(o) {
		return []string{source}
	}
	return nil
}

// ours reports whether the mirror may change or delete a native object.
func ours(o client.Object) bool {
	return o.GetLabels()[iamv1beta1.LabelManagedBy] == iamv1beta1.ManagedByController && strings.HasPrefix(o.GetName(), NamePrefix)
}
