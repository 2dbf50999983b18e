package hub

import (
	"encoding/json"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/cluster"
	"kapis.dev/ks-apiserver/pkg/store"
)

// F10: a credential is replaced, and what is done said to be, although conditions are written at the same time; what somebody else has changed meanwhile stays.
func TestACredentialIsReplacedNextToOtherWrites(t *testing.T) {
	kind := clusterv1alpha1.SchemeGroupVersion.WithResource("clusters")
	objects := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{kind: "ClusterList"})
	c := &clusterv1alpha1.Cluster{Spec: clusterv1alpha1.ClusterSpec{Connection: clusterv1alpha1.Connection{
		Type: clusterv1alpha1.ConnectionDirect, KubeConfig: []byte("old")}}}
	c.APIVersion, c.Kind, c.Name, c.UID = clusterv1alpha1.SchemeGroupVersion.String(), "Cluster", "m1", "u"
	c.Annotations = map[string]string{clusterv1alpha1.AnnotationCoreAction: string(clusterv1alpha1.ActionInstall)}
	raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := objects.Resource(kind).Create(t.Context(), &unstructured.Unstructured{Object: raw}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	conflicts := 0
	objects.PrependReactor("update", "clusters", func(clienttesting.Action) (bool, runtime.Object, error) {
		if conflicts++; conflicts%2 == 1 {
			return true, nil, apierrors.NewConflict(kind.GroupResource(), "m1", nil)
		}
		return false, nil, nil
	})
	h := &Hub{Options: Options{Clusters: objects.Resource(kind), Now: time.Now}, Members: &cluster.Members{Host: "host", Now: time.Now}}
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	h.Members.Set(&store.Object{Name: "m1", Raw: text})
	m := h.Members.ByName("m1")
	now := func() *clusterv1alpha1.Cluster {
		t.Helper()
		o, err := objects.Resource(kind).Get(t.Context(), "m1", metav1.GetOptions{})
		out := &clusterv1alpha1.Cluster{}
		if err == nil {
			err = runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, out)
		}
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	if err := h.ReplaceKubeconfig(t.Context(), m, []byte("old"), []byte("next")); err != nil || string(now().Spec.Connection.KubeConfig) != "next" {
		t.Errorf("%q, %v", now().Spec.Connection.KubeConfig, err)
	}
	if err := h.ReplaceKubeconfig(t.Context(), m, []byte("old"), []byte("another")); err != nil || string(now().Spec.Connection.KubeConfig) != "next" {
		t.Errorf("one that was changed is %q, %v", now().Spec.Connection.KubeConfig, err)
	}
	if err := h.Acted(t.Context(), m); err != nil || now().Annotations[clusterv1alpha1.AnnotationCoreAction] != "" || conflicts != 4 {
		t.Errorf("%v, %v, %d writes", now().Annotations, err, conflicts)
	}
}
