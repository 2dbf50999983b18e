package cluster

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/controller/retry"
)

var ctx = context.Background()

func reconciler(t *testing.T, objects ...client.Object) *Reconciler {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, clusterv1alpha1.AddToScheme} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	objects = append(objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "the-cluster"}})
	create := interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
		o.SetUID("uid") // kube-apiserver sets one
		return c.Create(ctx, o, opts...)
	}}
	return &Reconciler{
		Client: fake.NewClientBuilder().WithScheme(s).WithObjects(objects...).WithInterceptorFuncs(create).Build(),
		Host:   "host", KubeSphereVersion: "v4.1.3+kapis.dev", Configz: map[string]bool{"auditing": true},
		KubernetesVersion: func() (string, error) { return "v1.37.1", nil },
		Now:               func() time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) },
	}
}

func node(name string) client.Object {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func run(t *testing.T, r *Reconciler) *clusterv1alpha1.Cluster {
	t.Helper()
	result, err := r.Reconcile(ctx, reconcile.Request{})
	if err != nil || result.RequeueAfter != resync {
		t.Fatalf("%v, %v", result, err)
	}
	c := &clusterv1alpha1.Cluster{}
	if err := r.Client.Get(ctx, types.NamespacedName{Name: r.Host}, c); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	return c
}

func TestTheHostIsDescribed(t *testing.T) {
	here := node("b")
	here.SetLabels(map[string]string{corev1.LabelTopologyRegion: "r", corev1.LabelTopologyZone: "z"})
	r := reconciler(t, node("a"), here)
	c := run(t, r)
	if _, ok := c.Labels[clusterv1alpha1.LabelHostCluster]; !ok || !c.Spec.Enable || c.Spec.Connection.Type != clusterv1alpha1.ConnectionDirect {
		t.Errorf("labels %v, spec %+v", c.Labels, c.Spec)
	}
	s := c.Status
	if s.KubeSphereVersion != "v4.1.3+kapis.dev" || s.KubernetesVersion != "v1.37.1" || s.NodeCount != 2 || s.UID != "the-cluster" ||
		string(s.Configz.Raw) != `{"auditing":true}` || s.Region != "r" || len(s.Zones) != 1 || s.Zones[0] != "z" {
		t.Errorf("status %+v", s)
	}
	if len(s.Conditions) != 1 || s.Conditions[0].Type != clusterv1alpha1.ClusterReady || s.Conditions[0].Status != corev1.ConditionTrue {
		t.Errorf("conditions %+v", s.Conditions)
	}
	r.Now = func() time.Time { return time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC) }
	if again := run(t, r); again.ResourceVersion != c.ResourceVersion {
		t.Error("a second time wrote")
	}
}

func TestWhatChangesIsFollowedAndTheRestIsOthers(t *testing.T) {
	existing := &clusterv1alpha1.Cluster{
		ObjectMeta: metav1.ObjectMeta{
			Name:        "host",
			UID:         "uid",
			Labels:      map[string]string{"a": "b"},
			Annotations: map[string]string{"kubesphere.io/description": "mine"},
		},
		Spec: clusterv1alpha1.ClusterSpec{Provider: "somebody", Connection: clusterv1alpha1.Connection{KubeConfig: []byte("x")}},
		Status: clusterv1alpha1.ClusterStatus{Region: "here", Conditions: []clusterv1alpha1.ClusterCondition{
			{Type: clusterv1alpha1.ClusterInitialized, Status: corev1.ConditionTrue}, {Type: clusterv1alpha1.ClusterReady, Status: corev1.ConditionFalse}}},
	}
	r := reconciler(t, existing, node("a"))
	c := run(t, r)
	if c.Labels["a"] != "b" || c.Annotations["kubesphere.io/description"] != "mine" || c.Spec.Provider != "somebody" ||
		string(c.Spec.Connection.KubeConfig) != "x" || c.Spec.Enable || c.Status.Region != "here" {
		t.Errorf("what others wrote changed: %+v", c)
	}
	if _, ok := c.Labels[clusterv1alpha1.LabelHostCluster]; !ok || len(c.Status.Conditions) != 2 || c.Status.Conditions[1].Status != corev1.ConditionTrue {
		t.Errorf("labels %v, conditions %+v", c.Labels, c.Status.Conditions)
	}
	if err := r.Client.Create(ctx, node("b")); err != nil {
		t.Fatal(err)
	}
	r.KubernetesVersion = func() (string, error) { return "v1.38.0", nil }
	if c := run(t, r); c.Status.NodeCount != 2 || c.Status.KubernetesVersion != "v1.38.0" {
		t.Errorf("status %+v", c.Status)
	}
}

func TestAFleetHasOneHost(t *testing.T) {
	r := reconciler(t, &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "main", Labels: map[string]string{clusterv1alpha1.LabelHostCluster: ""}}})
	if c := run(t, r); c.Name != "" {
		t.Error("a second host was created")
	}
}

func TestAMemberIsNotTouched(t *testing.T) {
	r := reconciler(t, &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "member"}})
	run(t, r)
	all := &clusterv1alpha1.ClusterList{}
	if err := r.Client.List(ctx, all); err != nil {
		t.Fatal(err)
	}
	names := []string{}
	for _, c := range all.Items {
		names = append(names, c.Name)
		if c.Name == "member" && (len(c.Labels) != 0 || c.Status.UID != "") {
			t.Errorf("the member became %+v", c)
		}
	}
	if !slices.Equal(names, []string{"host", "member"}) {
		t.Errorf("clusters %v", names)
	}
}

func TestADeletedHostIsLetGo(t *testing.T) {
	r := reconciler(
		t,
		&clusterv1alpha1.Cluster{
			ObjectMeta: metav1.ObjectMeta{Name: "host", UID: "uid", Finalizers: []string{"x/y"}, DeletionTimestamp: &metav1.Time{Time: time.Unix(1, 0)}},
		},
	)
	if c := run(t, r); len(c.Labels) != 0 {
		t.Error("a deleted object was written")
	}
}

func TestErrorsSayWhatWasTried(t *testing.T) {
	r := reconciler(t)
	r.KubernetesVersion = func() (string, error) { return "", errors.New("down") }
	if _, err := r.Reconcile(ctx, reconcile.Request{}); err == nil || err.Error() != "ask kube-apiserver for its version: down" {
		t.Errorf("the error is %v", err)
	}
}

func TestAConflictIsTriedAgainWithoutAnError(t *testing.T) {
	r := reconciler(t)
	r.Client = interceptor.NewClient(r.Client.(client.WithWatch), interceptor.Funcs{
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
			return apierrors.NewAlreadyExists(clusterv1alpha1.Resource("clusters"), "host")
		},
	})
	if result, err := r.Reconcile(ctx, reconcile.Request{}); err != nil || result.RequeueAfter != retry.Conflict {
		t.Errorf("%v, %v", result, err)
	}
}
