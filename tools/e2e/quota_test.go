package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha2 "kapis.dev/ks-apiserver/pkg/api/quota/v1alpha2"
	"kapis.dev/ks-apiserver/pkg/kube"
)

// cluster is the administrator's way to kube-apiserver itself.
func cluster(t *testing.T) (*rest.Config, client.Client) {
	t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", filepath.Join(product.Dir, "kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	cfg.QPS, cfg.Burst = 1000, 1000
	c, err := client.New(cfg, client.Options{Scheme: kube.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	return cfg, c
}

// Workspace quotas are really enforced: 200 at once get 20 and no more.
func TestAWorkspaceUsesNoMoreThanItsQuota(t *testing.T) {
	_, c := cluster(t)
	workspace := unique("quota")
	label := map[string]string{"kubesphere.io/workspace": workspace}
	var namespaces []string
	for range 2 {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: unique("quota-ns"), Labels: label}}
		if err := c.Create(t.Context(), ns); err != nil {
			t.Fatal(err)
		}
		namespaces = append(namespaces, ns.Name)
		t.Cleanup(func() { _ = c.Delete(context.Background(), ns) })
	}
	q := &quotav1alpha2.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: workspace}}
	raw := `{"selector":{"kubesphere.io/workspace":"` + workspace + `"},"quota":{"hard":{"services":"20","count/configmaps":"4","services.nodeports":"1"}}}`
	if err := json.Unmarshal([]byte(raw), &q.Spec); err != nil {
		t.Fatal(err)
	}
	if err := c.Create(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Delete(context.Background(), q) })
	uses := func(want string) func(ctx context.Context) error {
		return func(ctx context.Context) error {
			if err := c.Get(ctx, client.ObjectKeyFromObject(q), q); err != nil {
				return err
			}
			var got []string
			for _, name := range []corev1.ResourceName{"services", "services.nodeports", "count/configmaps"} {
				amount := q.Status.Total.Used[name]
				got = append(got, amount.String())
			}
			if s := strings.Join(got, " "); s != want {
				return fmt.Errorf("%s are used, want %s", s, want)
			}
			return nil
		}
	}
	eventually(t, "the quota is counted", uses("0 0 2")) // each namespace has kube-root-ca.crt

	ports := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "ports", Namespace: namespaces[0]}, Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Name: "a", Port: 1}, {Name: "b", Port: 2}}}}
	eventually(t, "kube-apiserver asks", func(ctx context.Context) error {
		if err := c.Create(ctx, ports.DeepCopy(), client.DryRunAll); !apierrors.IsForbidden(err) {
			return fmt.Errorf("two ports of one: %w", err)
		}
		return nil
	})

	var made, refused atomic.Int64
	var group sync.WaitGroup
	start := time.Now()
	for i := range 200 {
		group.Go(func() {
			s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("s%d", i), Namespace: namespaces[i%2]}, Spec: corev1.ServiceSpec{ClusterIP: "None"}}
			err := c.Create(context.Background(), s)
			switch {
			case err == nil:
				made.Add(1)
			case apierrors.IsForbidden(err) && strings.Contains(err.Error(),
				"exceeded quota: "+workspace+", requested: services=1, used: services=20, limited: services=20"):
				refused.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	group.Wait()
	t.Logf("200 at once took %v", time.Since(start))
	if made.Load() != 20 || refused.Load() != 180 {
		t.Fatalf("%d were made, %d refused", made.Load(), refused.Load())
	}
	eventually(t, "what arrived is counted once", uses("20 0 2"))

	list := &corev1.ServiceList{}
	if err := c.List(t.Context(), list, client.InNamespace(namespaces[0])); err != nil || len(list.Items) == 0 {
		t.Fatal(err)
	}
	one := &list.Items[0]
	if err := c.Delete(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	within(t, soon, "what is deleted is free", uses("19 0 2"))
	for range 2 { // a dry run takes nothing
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "dry", Namespace: namespaces[0]}, Spec: corev1.ServiceSpec{ClusterIP: "None"}}
		if err := c.Create(t.Context(), s, client.DryRunAll); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Create(t.Context(), ports.DeepCopy()); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "services.nodeports=2") {
		t.Fatal(err)
	}
	ports.Spec.Ports = ports.Spec.Ports[:1]
	if err := c.Create(t.Context(), ports); err != nil {
		t.Fatal(err)
	}
	eventually(t, "ports are counted", uses("20 1 2"))
	for i, want := range []bool{true, true, false} { // a count of any kind, by its metadata
		m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("m%d", i), Namespace: namespaces[1]}}
		if err := c.Create(t.Context(), m); (err == nil) != want {
			t.Error(i, err)
		}
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespaces[1]}}
	away := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"kubesphere.io/workspace":"elsewhere"}}}`)) // controllers write it, too
	if err := c.Patch(t.Context(), ns, away); err != nil {
		t.Fatal(err)
	}
	if err := c.List(t.Context(), list, client.InNamespace(namespaces[0])); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a namespace that moves away is not counted any more", uses(fmt.Sprintf("%d 1 1", len(list.Items))))
}

// ks-controller-manager may not list leases. A limit on them is told, and keeps no other from being counted.
func TestALimitOnWhatCantBeCountedIsTold(t *testing.T) {
	_, c := cluster(t)
	workspace := unique("quota")
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: unique("quota-ns"), Labels: map[string]string{"kubesphere.io/workspace": workspace}}}
	if err := c.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Delete(context.Background(), ns) })
	q := &quotav1alpha2.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: workspace}}
	raw := `{"selector":{"kubesphere.io/workspace":"` + workspace + `"},"quota":{"hard":{"count/leases.coordination.k8s.io":"2","services":"2"}}}`
	if err := json.Unmarshal([]byte(raw), &q.Spec); err != nil {
		t.Fatal(err)
	}
	if err := c.Create(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Delete(context.Background(), q) })
	eventually(t, "the rest is counted", func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(q), q); err != nil {
			return err
		}
		if _, ok := q.Status.Total.Used["services"]; !ok || len(q.Status.Total.Used) != 1 {
			return fmt.Errorf("it has %v", q.Status.Total.Used)
		}
		return nil
	})
	eventually(t, "an event says why", func(ctx context.Context) error {
		list := &corev1.EventList{}
		if err := c.List(ctx, list, client.InNamespace("default")); err != nil {
			return err
		}
		for _, e := range list.Items {
			if e.InvolvedObject.Name == workspace && e.Reason == "NotCounted" && strings.Contains(e.Message, "leases.coordination.k8s.io is forbidden") {
				return nil
			}
		}
		return fmt.Errorf("there is none among %d", len(list.Items))
	})
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "s", Namespace: ns.Name}, Spec: corev1.ServiceSpec{ClusterIP: "None"}}
	if err := c.Create(t.Context(), s); err != nil {
		t.Error(err)
	}
}
