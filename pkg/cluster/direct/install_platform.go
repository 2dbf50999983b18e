package direct

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
)

const (
	// manager is the field manager of what the hub applies.
	manager = "ks-fleet-hub"
	// software is the Deployment that says whether our programs are installed, and settings the Secret with their configuration.
	software, settings = "ks-apiserver", "kubesphere-config"
	// maxObject bounds one object of what is applied, in bytes: the largest is a definition of a custom resource.
	maxObject = 4 << 20
)

// Install applies what a member runs, in YAML, by the credential of a kubeconfig, as kubectl apply would: where nothing is installed, for
// ActionInstall; where something is, but for its configuration, for ActionUpgrade; everything, for ActionReinstall. A cluster that is
// another host's is left alone, which is named host here.
func Install(ctx context.Context, c *rest.Config, action clusterv1alpha1.CoreAction, text []byte, host string) error {
	client, err := kubernetes.NewForConfig(c)
	if err != nil {
		return errors.New("the certificate or the key in the kubeconfig can't be read")
	}
	objects, err := dynamic.NewForConfig(c)
	if err != nil {
		return fmt.Errorf("make a client of the cluster: %w", err)
	}
	if findings := otherHost(ctx, client, host); len(findings) > 0 {
		return errors.New(Summary(findings))
	}
	_, err = client.AppsV1().Deployments(namespace).Get(ctx, software, metav1.GetOptions{})
	switch {
	case err != nil && !apierrors.IsNotFound(err):
		return explain("look whether ks-apiserver is installed in the cluster", err)
	case err == nil && action == clusterv1alpha1.ActionInstall:
		return nil // it is there
	case err != nil && action == clusterv1alpha1.ActionUpgrade:
		return errors.New("ks-apiserver is not installed in the cluster: install it first")
	}
	groups, err := restmapper.GetAPIGroupResources(discovery.NewDiscoveryClient(client.RESTClient()))
	if err != nil {
		return explain("ask which kinds the cluster has", err)
	}
	kinds := restmapper.NewDiscoveryRESTMapper(groups)
	// What says that all is installed comes last: an installation that is cut off is begun again.
	var last *unstructured.Unstructured
	for in := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), maxObject); ; {
		o := &unstructured.Unstructured{}
		err := in.Decode(&o.Object)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("read what the cluster runs: %w", err)
		}
		if o.GetKind() == "Deployment" && o.GetName() == software {
			last = o
			continue
		}
		if len(o.Object) == 0 || action == clusterv1alpha1.ActionUpgrade && o.GetKind() == "Secret" && o.GetName() == settings {
			continue
		}
		if err := apply(ctx, objects, kinds, o); err != nil {
			return err
		}
	}
	if last == nil {
		return errors.New("what the cluster is to run has no " + software)
	}
	return apply(ctx, objects, kinds, last)
}

// apply applies one object.
func apply(ctx context.Context, objects dynamic.Interface, kinds meta.RESTMapper, o *unstructured.Unstructured) error {
	gvk := o.GroupVersionKind()
	mapping, err := kinds.RESTMapping(schema.GroupKind{Group: gvk.Group, Kind: gvk.Kind}, gvk.Version)
	if err != nil {
		return fmt.Errorf("the cluster has no %s in %s, which our programs need", gvk.Kind, gvk.GroupVersion())
	}
	raw, err := o.MarshalJSON()
	if err != nil {
		return fmt.Errorf("write %s %s: %w", gvk.Kind, o.GetName(), err)
	}
	var into dynamic.ResourceInterface = objects.Resource(mapping.Resource)
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		into = objects.Resource(mapping.Resource).Namespace(o.GetNamespace())
	}
	force := true
	options := metav1.PatchOptions{FieldManager: manager, Force: &force}
	if _, err := into.Patch(ctx, o.GetName(), types.ApplyPatchType, raw, options); err != nil {
		return explain("apply "+gvk.Kind+" "+o.GetName()+" in the cluster", err)
	}
	return nil
}
