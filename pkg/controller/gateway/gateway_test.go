package gateway_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"kapis.dev/ks-apiserver/pkg/api/gateway/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/controller/controllertest"
	controllergateway "kapis.dev/ks-apiserver/pkg/controller/gateway"
	"kapis.dev/ks-apiserver/pkg/gateway"
)

func templates(t *testing.T) gateway.Backend {
	t.Helper()
	folder := t.TempDir()
	text := "apiVersion: apps/v1\nkind: Deployment\nspec: {template: {spec: {containers: [{name: nginx-ingress-controller, image: x}]}}}\n---\n" +
		"apiVersion: v1\nkind: Service\nspec: {ports: [{name: http, port: 80, protocol: TCP}]}"
	if err := os.WriteFile(filepath.Join(folder, "all.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	by, err := gateway.NewBackend("", folder)
	if err != nil {
		t.Fatal(err)
	}
	return by
}

func of(namespace string) *v1alpha1.Gateway {
	return &v1alpha1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: gateway.Name(namespace), UID: "uid-1"}}
}

type world struct {
	*controllertest.Cluster
	r *controllergateway.Reconciler
}

func newWorld(t *testing.T, by gateway.Backend, objects ...client.Object) *world {
	objects = append(objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "namespace-a"}})
	c := controllertest.New(t, func(b *fake.ClientBuilder) { b.WithStatusSubresource(&v1alpha1.Gateway{}, gateway.NewClassGateway()) }, objects...)
	// The first read of a kind says what the in-memory cluster stores of it: here the whole object, and not its metadata.
	first := gateway.NewClassGateway()
	first.SetName("none")
	c.Has(first)
	return &world{c, &controllergateway.Reconciler{Client: c.Client, Live: c.Client, Backend: by}}
}

// reconcile runs the controller for the Gateway once, and returns the Gateway then.
func (w *world) reconcile(g *v1alpha1.Gateway) *v1alpha1.Gateway {
	w.T.Helper()
	if _, err := w.r.Reconcile(w.T.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(g)}); err != nil {
		w.T.Fatal(err)
	}
	now := of(g.Namespace)
	now.Name = g.Name
	w.Has(now)
	return now
}

// status merges text into an object, as its own controller does.
func (w *world) status(o client.Object, text string) {
	w.T.Helper()
	if err := w.Client.Status().Patch(w.T.Context(), o, client.RawPatch(types.MergePatchType, []byte(text))); err != nil {
		w.T.Fatal(err)
	}
}

func expect(t *testing.T, g *v1alpha1.Gateway, kind, reason, message string) {
	t.Helper()
	c := meta.FindStatusCondition(g.Status.Conditions, kind)
	if c == nil || c.Reason != reason || !strings.Contains(c.Message, message) {
		t.Errorf("the conditions are %+v, want %s %s %s", g.Status.Conditions, kind, reason, message)
	}
}

func TestAGatewayIsMadeOfTemplatesInItsProject(t *testing.T) { // O22, O23
	g := of("a")
	g.Spec.Service.Type = corev1.ServiceTypeLoadBalancer
	w := newWorld(t, templates(t), g)
	expect(t, w.reconcile(g), gateway.ConditionReady, "NotAvailable", "no pod")
	m := metav1.ObjectMeta{Namespace: "a", Name: "kubesphere-router-a"}
	d, s := &appsv1.Deployment{ObjectMeta: m}, &corev1.Service{ObjectMeta: m}
	all := []client.Object{d, s, &corev1.ServiceAccount{ObjectMeta: m}, &rbacv1.Role{ObjectMeta: m}, &rbacv1.RoleBinding{ObjectMeta: m},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: m.Name + "-nginx"}}}
	for _, o := range all {
		if !w.Has(o) || !metav1.IsControlledBy(o, g) {
			t.Errorf("%T is %v, and does not go with its Gateway", o, o.GetOwnerReferences())
		}
	}
	// It sees its project only: nothing gives it a right elsewhere.
	roles, bindings := &rbacv1.ClusterRoleList{}, &rbacv1.ClusterRoleBindingList{}
	for _, list := range []client.ObjectList{roles, bindings} {
		if err := w.Client.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
	}
	if len(roles.Items)+len(bindings.Items) > 0 {
		t.Errorf("there are %v and %v", roles.Items, bindings.Items)
	}
	class := &networkingv1.IngressClass{ObjectMeta: metav1.ObjectMeta{Name: m.Name}}
	if !w.Has(class) || class.OwnerReferences[0].UID != "namespace-a" {
		t.Errorf("the IngressClass is %+v", class)
	}

	// What a cloud gives it, and what the controller says, is its status.
	w.status(d, `{"status":{"availableReplicas":1}}`)
	w.status(s, `{"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.1"}]}}}`)
	now := w.reconcile(g)
	expect(t, now, gateway.ConditionReady, "Available", "")
	if l := now.Status.LoadBalancer.Ingress; len(l) != 1 || l[0].IP != "192.0.2.1" || now.Status.Service[0].Port != 80 {
		t.Errorf("the status is %+v", now.Status)
	}
	if n := w.Written(func() { w.reconcile(g) }); n > 0 {
		t.Errorf("a status that is right was written %d times", n)
	}

	if err := w.Client.Delete(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	w.reconcile(g)
	if w.Has(class) {
		t.Error("the IngressClass is left")
	}
}

// What is there already is somebody's.
func TestNothingOfOthersIsTaken(t *testing.T) { // O22
	m := metav1.ObjectMeta{Namespace: "a", Name: "kubesphere-router-a", Labels: gateway.Labels("a")}
	class := metav1.ObjectMeta{Name: "kubesphere-router-a", Labels: map[string]string{"gateway.kapis.dev/managed": "true", "project": "b"}}
	for name, o := range map[string]client.Object{
		"a Deployment": &appsv1.Deployment{ObjectMeta: m}, "a Service": &corev1.Service{ObjectMeta: m}, "an account": &corev1.ServiceAccount{ObjectMeta: m},
		"a Role": &rbacv1.Role{ObjectMeta: m}, "a RoleBinding": &rbacv1.RoleBinding{ObjectMeta: m}, "an IngressClass": &networkingv1.IngressClass{ObjectMeta: class},
	} {
		t.Run(name, func(t *testing.T) {
			g := of("a")
			w := newWorld(t, templates(t), g, o)
			before := o.GetResourceVersion()
			expect(t, w.reconcile(g), gateway.ConditionAccepted, "Taken", "not of this Gateway")
			if !w.Has(o) || before != "" && o.GetResourceVersion() != before || len(o.GetOwnerReferences()) > 0 {
				t.Errorf("it is %+v", o)
			}
			if err := w.Client.Delete(t.Context(), g); err != nil {
				t.Fatal(err)
			}
			if w.reconcile(g); !w.Has(o) {
				t.Error("it is gone")
			}
		})
	}
}

// A Gateway that was written past this server's checks makes nothing.
func TestARefusedGatewayMakesNothing(t *testing.T) { // O22
	hostile := of("a")
	hostile.Spec.Controller.Config = map[string]string{"http-SNIPPET": "x"}
	named := of("a")
	named.Name = "kubesphere-router-b"
	for want, g := range map[string]*v1alpha1.Gateway{"is code": hostile, "is not kubesphere-router-a": named} {
		w := newWorld(t, templates(t), g)
		expect(t, w.reconcile(g), gateway.ConditionAccepted, "Refused", want)
		list := &appsv1.DeploymentList{}
		if err := w.Client.List(t.Context(), list); err != nil || len(list.Items) > 0 {
			t.Errorf("%v %v", list.Items, err)
		}
	}
}

func TestAGatewayOfAClassHasTheAddressesOfItsController(t *testing.T) { // O22
	g := of("a")
	w := newWorld(t, gateway.Backend{ClassName: "shared"}, g)
	expect(t, w.reconcile(g), gateway.ConditionReady, "NotProgrammed", "no controller")
	u := gateway.NewClassGateway()
	u.SetNamespace("a")
	u.SetName(g.Name)
	if !w.Has(u) || !metav1.IsControlledBy(u, g) {
		t.Fatalf("it is %v", u.Object)
	}
	w.status(u, `{"status":{"addresses":[{"type":"IPAddress","value":"192.0.2.1"},{"type":"Hostname","value":"gw.example"},`+
		`{"type":"IPAddress","value":"javascript:x"},{"type":"example.com/other","value":"x"}],`+
		`"conditions":[{"type":"Programmed","status":"True","observedGeneration":9}]}}`)
	now := w.reconcile(g)
	expect(t, now, gateway.ConditionReady, "Programmed", "")
	if l := now.Status.LoadBalancer.Ingress; len(l) != 2 || l[0].IP != "192.0.2.1" || l[1].Hostname != "gw.example" || len(now.Status.Service) != 2 {
		t.Errorf("the status is %+v", now.Status)
	}
	g.Spec.Deployment.Replicas = new(int32(2))
	w.Patch(g, `{"spec":{"deployment":{"replicas":2}}}`)
	expect(t, w.reconcile(g), gateway.ConditionAccepted, "Refused", "not open")
}
