package child

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"kapis.dev/ks-apiserver/pkg/helm"
)

// check refuses a definition that would break objects of the one that is there.
func (d *definitions) check(ctx context.Context, u *unstructured.Unstructured) error {
	var is, was apiextensionsv1.CustomResourceDefinition
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &is); err != nil {
		return refused(helm.ReasonInvalid, fmt.Errorf("read the CustomResourceDefinition %s: %w", u.GetName(), err))
	}
	there, err := d.there.Get(ctx, u.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(there.Object, &was); err != nil {
		return err
	}
	if broken := breaks(&was, &is); len(broken) > 0 {
		return fault(helm.ReasonCRD, "CustomResourceDefinition %s would break existing objects: %s", u.GetName(),
			strings.Join(broken[:min(len(broken), maxFaults)], "; "))
	}
	return nil
}

// breaks returns what a new definition takes away from existing objects and their clients.
func breaks(was, is *apiextensionsv1.CustomResourceDefinition) (why []string) {
	if was.Spec.Scope != is.Spec.Scope {
		why = append(why, fmt.Sprintf("the scope changes from %s to %s", was.Spec.Scope, is.Spec.Scope))
	}
	if was.Spec.Names.Kind != is.Spec.Names.Kind {
		why = append(why, fmt.Sprintf("the kind changes from %s to %s", was.Spec.Names.Kind, is.Spec.Names.Kind))
	}
	versions := map[string]*apiextensionsv1.CustomResourceDefinitionVersion{}
	for i := range is.Spec.Versions {
		versions[is.Spec.Versions[i].Name] = &is.Spec.Versions[i]
	}
	for _, stored := range was.Status.StoredVersions {
		if versions[stored] == nil {
			why = append(why, fmt.Sprintf("the version %s, in which objects are stored, is gone", stored))
		}
	}
	for i := range was.Spec.Versions {
		before := &was.Spec.Versions[i]
		after := versions[before.Name]
		if after == nil || before.Schema == nil || before.Schema.OpenAPIV3Schema == nil {
			continue
		}
		if after.Schema == nil || after.Schema.OpenAPIV3Schema == nil {
			why = append(why, fmt.Sprintf("the version %s has no schema any more", before.Name))
			continue
		}
		why = append(why, lost(before.Name, before.Schema.OpenAPIV3Schema, after.Schema.OpenAPIV3Schema)...)
	}
	return why
}

// lost returns the fields of a schema that another one has not, or has with another type.
func lost(path string, was, is *apiextensionsv1.JSONSchemaProps) (why []string) {
	free := is.XPreserveUnknownFields != nil && *is.XPreserveUnknownFields
	if was.Type != is.Type && (!free || is.Type != "") || was.XIntOrString != is.XIntOrString && !free {
		return []string{fmt.Sprintf("%s is %s, and was %s", path, typeOf(is), typeOf(was))}
	}
	if was.XPreserveUnknownFields != nil && *was.XPreserveUnknownFields && !free {
		why = append(why, path+" keeps unknown fields no longer")
	}
	open := free || is.AdditionalProperties != nil && (is.AdditionalProperties.Allows || is.AdditionalProperties.Schema != nil)
	for _, name := range slices.Sorted(maps.Keys(was.Properties)) {
		before := was.Properties[name]
		after, ok := is.Properties[name]
		switch {
		case ok:
			why = append(why, lost(path+"."+name, &before, &after)...)
		case !open:
			why = append(why, path+"."+name+" is gone")
		}
	}
	if was.AdditionalProperties != nil && !open {
		why = append(why, path+" is a map no longer")
	}
	before, after := was.AdditionalProperties, is.AdditionalProperties
	if before != nil && after != nil && before.Schema != nil && after.Schema != nil {
		why = append(why, lost(path+".*", before.Schema, after.Schema)...)
	}
	if was.Items != nil && was.Items.Schema != nil && is.Items != nil && is.Items.Schema != nil {
		why = append(why, lost(path+"[]", was.Items.Schema, is.Items.Schema)...)
	}
	return why
}

func typeOf(s *apiextensionsv1.JSONSchemaProps) string {
	switch {
	case s.XIntOrString:
		return "an integer or a string"
	case s.Type == "":
		return "of no type"
	}
	return "of type " + s.Type
}
