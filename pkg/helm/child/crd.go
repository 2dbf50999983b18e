package child

import (
	"context"
	"fmt"
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"

	chartv2 "helm.sh/helm/v4/pkg/chart/v2"

	"kapis.dev/ks-apiserver/pkg/boundedyaml"
	"kapis.dev/ks-apiserver/pkg/helm"
)

const (
	crdGroup = apiextensionsv1.GroupName
	crdKind  = "CustomResourceDefinition"
	// crdManager owns the fields of CustomResourceDefinitions of crds/.
	crdManager = "kapis-helm"
	// establishing bounds the wait for the kinds of new definitions.
	establishing = time.Minute
)

// definitions reads and writes CustomResourceDefinitions. They are read with the connection's own credential: what is there is looked at
// before the rights are known that an operation needs, and the schemas of kinds are no secret.
type definitions struct {
	there     dynamic.NamespaceableResourceInterface
	client    dynamic.NamespaceableResourceInterface
	discovery discovery.DiscoveryInterface
}

// definitionsOf returns the definitions in the folders crds/ of a chart and of its enabled subcharts.
func definitionsOf(c *chartv2.Chart) (all []*unstructured.Unstructured, err error) {
	for _, file := range c.CRDObjects() {
		for _, doc := range documents(string(file.File.Data)) {
			var u *unstructured.Unstructured
			_, err := boundedyaml.ToJSONStrict([]byte(doc))
			if err == nil {
				u, err = decode(doc)
			}
			if err != nil {
				return nil, refused(helm.ReasonInvalid, fmt.Errorf("read %s: %w", file.Filename, err))
			}
			if u == nil {
				continue
			}
			if u.GroupVersionKind() != apiextensionsv1.SchemeGroupVersion.WithKind(crdKind) {
				return nil, fault(helm.ReasonInvalid, "%s has a %s of %s: want CustomResourceDefinitions of %s only",
					file.Filename, u.GetKind(), u.GetAPIVersion(), apiextensionsv1.SchemeGroupVersion)
			}
			all = append(all, u)
		}
	}
	return all, nil
}

// decode returns the object of a manifest, nil for one without content. Of a key that is there twice, which records of former releases may
// have, it takes the last one, as the SDK does.
func decode(manifest string) (*unstructured.Unstructured, error) {
	raw, err := boundedyaml.ToJSON([]byte(manifest))
	if err != nil {
		return nil, err
	}
	if string(raw) == "null" {
		return nil, nil
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(raw); err != nil {
		return nil, err
	}
	return u, nil
}

// apply applies definitions, and waits until their kinds are served.
func (d *definitions) apply(ctx context.Context, all []*unstructured.Unstructured, labels map[string]string) error {
	for _, u := range all {
		if len(labels) > 0 {
			with := u.GetLabels()
			if with == nil {
				with = map[string]string{}
			}
			for k, v := range labels {
				with[k] = v
			}
			u.SetLabels(with)
		}
		for _, field := range [][]string{{"status"}, {"metadata", "managedFields"}, {"metadata", "resourceVersion"}, {"metadata", "uid"}} {
			unstructured.RemoveNestedField(u.Object, field...)
		}
		if _, err := d.client.Apply(ctx, u.GetName(), u, metav1.ApplyOptions{FieldManager: crdManager, Force: true}); err != nil {
			return fmt.Errorf("apply the CustomResourceDefinition %s: %w", u.GetName(), err)
		}
	}
	for _, u := range all {
		if err := d.served(ctx, u); err != nil {
			return fmt.Errorf("wait for the kind of the CustomResourceDefinition %s: %w", u.GetName(), err)
		}
	}
	return nil
}

// served waits until discovery has the kind of a definition.
func (d *definitions) served(ctx context.Context, u *unstructured.Unstructured) error {
	var crd apiextensionsv1.CustomResourceDefinition
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &crd); err != nil {
		return err
	}
	for _, v := range crd.Spec.Versions {
		if !v.Served {
			continue
		}
		gv := schema.GroupVersion{Group: crd.Spec.Group, Version: v.Name}.String()
		if err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, establishing, true, func(context.Context) (bool, error) {
			list, err := d.discovery.ServerResourcesForGroupVersion(gv)
			if apierrors.IsNotFound(err) {
				return false, nil
			}
			if err != nil {
				return false, err
			}
			return slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Kind == crd.Spec.Names.Kind }), nil
		}); err != nil {
			return err
		}
	}
	return nil
}
