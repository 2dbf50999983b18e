package e2e

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"kapis.dev/ks-apiserver/pkg/chart/charttest"
)

// many is how many objects an installation has, so that it takes seconds.
const many = 400

func platformResource(plural string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "kubesphere.io", Version: "v1alpha1", Resource: plural}
}

// beginInstallation returns once an extension of many objects is being installed.
func beginInstallation(t *testing.T, root dynamic.Interface) {
	t.Helper()
	chart := charttest.Pack(t, "bulk", map[string]string{
		"Chart.yaml":         "{apiVersion: v2, name: bulk, version: 1.0.0}",
		"extension.yaml":     "{name: bulk, version: 1.0.0, displayName: {en: Bulk}}",
		"templates/all.yaml": fmt.Sprintf("{{ range $i := until %d }}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: bulk-{{ $i }}}\n{{ end }}\n", many),
	})
	create := func(gvr schema.GroupVersionResource, namespace string, o obj) {
		t.Helper()
		var err error
		if object := (&unstructured.Unstructured{Object: o}); namespace != "" {
			_, err = root.Resource(gvr).Namespace(namespace).Create(t.Context(), object, metav1.CreateOptions{})
		} else {
			_, err = root.Resource(gvr).Create(t.Context(), object, metav1.CreateOptions{})
		}
		if err != nil {
			t.Fatalf("%s: %v", gvr.Resource, err)
		}
	}
	create(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, "kubesphere-system", obj{"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": obj{"name": "bulk"}, "binaryData": obj{"chart.tgz": base64.StdEncoding.EncodeToString(chart)}})
	create(platformResource("extensionversions"), "", obj{"apiVersion": "kubesphere.io/v1alpha1", "kind": "ExtensionVersion",
		"metadata": obj{"name": "bulk-1.0.0", "labels": obj{"kubesphere.io/extension-ref": "bulk"}},
		"spec":     obj{"version": "1.0.0", "chartDataRef": obj{"namespace": "kubesphere-system", "name": "bulk", "key": "chart.tgz"}}})
	create(platformResource("installplans"), "", obj{"apiVersion": "kubesphere.io/v1alpha1", "kind": "InstallPlan", "metadata": obj{"name": "bulk"},
		"spec": obj{"extension": obj{"name": "bulk", "version": "1.0.0"}, "enabled": true}})
	eventually(t, "its record is written", func(ctx context.Context) error { return hasRecords(ctx, root, "pending-install") })
}

// hasRecords returns an error unless the release has these records, by their status.
func hasRecords(ctx context.Context, root dynamic.Interface, want ...string) error {
	l, err := root.Resource(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}).Namespace("extension-bulk").
		List(ctx, metav1.ListOptions{LabelSelector: "owner=helm"})
	if err != nil {
		return err
	}
	var got []string
	for i := range l.Items {
		got = append(got, l.Items[i].GetLabels()["status"])
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		p, err := root.Resource(platformResource("installplans")).Get(ctx, "bulk", metav1.GetOptions{})
		if err != nil {
			return err
		}
		return fmt.Errorf("the records are %q, want %q; the plan is %v", got, want, p.Object["status"])
	}
	return nil
}

// finishedInstallation waits until another leader has finished it, once.
func finishedInstallation(t *testing.T, root dynamic.Interface) { // X26
	t.Helper()
	eventually(t, "it is installed", func(ctx context.Context) error {
		p, err := root.Resource(platformResource("installplans")).Get(ctx, "bulk", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if state, _, _ := unstructured.NestedString(p.Object, "status", "state"); state != "Installed" {
			return fmt.Errorf("the plan is %v", p.Object["status"])
		}
		return nil
	})
	if err := hasRecords(t.Context(), root, "deployed", "failed"); err != nil {
		t.Error(err)
	}
	l, err := root.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace("extension-bulk").
		List(t.Context(), metav1.ListOptions{LabelSelector: "kubesphere.io/extension-ref=bulk"})
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for i := range l.Items {
		if strings.HasPrefix(l.Items[i].GetName(), "bulk-") && l.Items[i].GetName() != "bulk-log" {
			found++
		}
	}
	if found != many {
		t.Errorf("%d of %d objects are there", found, many)
	}
	for _, plural := range []string{"clusterroles", "clusterrolebindings", "roles", "rolebindings"} {
		left, err := root.Resource(schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: plural}).
			List(t.Context(), metav1.ListOptions{LabelSelector: "kapis.dev/installer"})
		if err != nil || len(left.Items) > 0 {
			t.Errorf("%d %s of installers are left, %v", len(left.Items), plural, err)
		}
	}
}
