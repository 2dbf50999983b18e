package cluster_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/controller/cluster"
	"kapis.dev/ks-apiserver/pkg/controller/controllertest"
)

func label(name string, clusters ...string) *clusterv1alpha1.Label {
	return &clusterv1alpha1.Label{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: clusterv1alpha1.LabelSpec{Key: "env", Clusters: clusters}}
}

// D4: clusters are selected by the labels that are on them.
func TestD4AClusterIsMarkedWithItsLabels(t *testing.T) {
	const prefix = clusterv1alpha1.LabelClusterLabelPrefix
	host := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "host", Labels: map[string]string{"own": "kept", prefix + "gone": ""}}}
	c := controllertest.New(t, nil, host, label("a", "host"), label("b", "other"), label("c", "none", "host"),
		label(strings.Repeat("long", 20), "host"))
	r := &cluster.LabelReconciler{Client: c.Client, Live: c.Client}
	for _, step := range []struct {
		change func()
		want   string
	}{
		{func() {}, prefix + "a " + prefix + "c own"},
		{func() { c.Patch(label("a"), `{"spec":{"clusters":[]}}`) }, prefix + "c own"},
		{func() { c.Delete(label("c")) }, "own"},
		{func() { c.Patch(label("b"), `{"spec":{"clusters":["host"]}}`) }, prefix + "b own"},
	} {
		step.change()
		c.Reconcile(r, "host")
		got := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "host"}}
		if !c.Has(got) || strings.Join(slices.Sorted(maps.Keys(got.Labels)), " ") != step.want {
			t.Errorf("it has %v, want %s", got.Labels, step.want)
		}
		if n := c.Written(func() { c.Reconcile(r, "host") }); n != 0 {
			t.Errorf("a second time wrote %d times", n)
		}
	}
	var none client.Object = &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "none"}}
	c.Reconcile(r, "none")
	if c.Has(none) {
		t.Error("a cluster was made")
	}
}

// D4: a Cluster is put on the Labels that its annotation names, once; what is no Label there is left out.
func TestD4AClusterIsPutOnTheLabelsThatItNames(t *testing.T) {
	const prefix = clusterv1alpha1.LabelClusterLabelPrefix
	shop := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "shop", Annotations: map[string]string{"own": "kept",
		clusterv1alpha1.AnnotationLabelIDs: "a, b,,a,none,../c," + strings.Repeat("x,", 200) + "late"}}}
	c := controllertest.New(t, nil, shop, label("a", "host"), label("b", "shop"), label("c"), label("late"))
	r := &cluster.LabelReconciler{Client: c.Client, Live: c.Client}
	c.Reconcile(r, "shop")
	for name, want := range map[string]string{"a": "host shop", "b": "shop", "c": "", "late": ""} {
		if l := label(name); !c.Has(l) || strings.Join(l.Spec.Clusters, " ") != want {
			t.Errorf("%s is on %q, want %q", name, l.Spec.Clusters, want)
		}
	}
	got := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	if !c.Has(got) || strings.Join(slices.Sorted(maps.Keys(got.Labels)), " ") != prefix+"a "+prefix+"b" ||
		strings.Join(slices.Sorted(maps.Keys(got.Annotations)), " ") != "own" {
		t.Errorf("it has %v %v", got.Labels, got.Annotations)
	}
	if n := c.Written(func() { c.Reconcile(r, "shop") }); n != 0 {
		t.Errorf("a second time wrote %d times", n)
	}
}
