// Package cluster reconciles the Cluster object of the cluster in which this program runs. Clients read the cluster's
// versions, size and identity from it.
package cluster

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/controller/enqueue"
	"kapis.dev/ks-apiserver/pkg/controller/retry"
)

const (
	// Name is the controller's name.
	Name = "cluster"

	// resync is the interval at which kube-apiserver is asked for its version: an upgrade causes no event.
	resync = 5 * time.Minute
)

// Setup adds the controller to mgr. The Cluster has the name host, and its status gets the version kubeSphereVersion and which optional
// parts are on.
func Setup(_ context.Context, mgr manager.Manager, host, kubeSphereVersion string, configz map[string]bool) error {
	d, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("make a discovery client: %w", err)
	}
	r := &Reconciler{
		Client: mgr.GetClient(), Host: host, KubeSphereVersion: kubeSphereVersion, Configz: configz, Now: time.Now,
		KubernetesVersion: func() (string, error) {
			v, err := d.ServerVersion()
			if err != nil {
				return "", err
			}
			return v.GitVersion, nil
		},
	}
	toHost := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: host}}}
	})
	system := predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetName() == metav1.NamespaceSystem })
	comesOrGoes := enqueue.OnComingOrGoing(nil)
	return builder.ControllerManagedBy(mgr).Named(Name).
		Watches(&clusterv1alpha1.Cluster{}, toHost).
		WatchesMetadata(&corev1.Namespace{}, toHost, builder.WithPredicates(system, comesOrGoes)).
		WatchesMetadata(&corev1.Node{}, toHost, builder.WithPredicates(comesOrGoes)).
		Complete(r)
}

// Reconciler reconciles the Cluster object of the host.
type Reconciler struct {
	Client client.Client
	// Host is the name of the object.
	Host string
	// KubeSphereVersion is the version of the API that this software provides, such as "v4.1.3".
	KubeSphereVersion string
	// Configz is which optional parts are on.
	Configz map[string]bool
	// KubernetesVersion returns the version of kube-apiserver.
	KubernetesVersion func() (string, error)
	// Now is the clock.
	Now func() time.Time
}

// Reconcile updates the object.
func (r *Reconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	return retry.OnConflict(resync, r.sync(ctx))
}

func (r *Reconciler) sync(ctx context.Context) error {
	c, err := r.host(ctx)
	if err != nil || c == nil || !c.DeletionTimestamp.IsZero() {
		return err
	}
	before := c.DeepCopy()
	if c.Labels == nil {
		c.Labels = map[string]string{}
	}
	if _, ok := c.Labels[clusterv1alpha1.LabelHostCluster]; !ok {
		c.Labels[clusterv1alpha1.LabelHostCluster] = ""
	}
	if err := r.observe(ctx, &c.Status); err != nil {
		return err
	}
	if equality.Semantic.DeepEqual(before, c) {
		return nil
	}
	if c.UID == "" {
		if err := r.Client.Create(ctx, c); err != nil {
			return fmt.Errorf("create cluster %q: %w", c.Name, err)
		}
		return nil
	}
	if err := r.Client.Patch(ctx, c, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("write cluster %q: %w", c.Name, err)
	}
	return nil
}

// host returns the Cluster object of the host, or a new one if there is none. It returns nil if another Cluster is
// marked as the host, since there can be only one.
func (r *Reconciler) host(ctx context.Context) (*clusterv1alpha1.Cluster, error) {
	all := &clusterv1alpha1.ClusterList{}
	if err := r.Client.List(ctx, all); err != nil {
		return nil, fmt.Errorf("list clusters: %w", err)
	}
	var other string
	for i := range all.Items {
		if all.Items[i].Name == r.Host {
			return &all.Items[i], nil
		}
		if _, ok := all.Items[i].Labels[clusterv1alpha1.LabelHostCluster]; ok {
			other = all.Items[i].Name
		}
	}
	if other != "" {
		klog.InfoS("Another cluster is labelled as the host: it is left alone, and none is created. Set multicluster.hostClusterName to its"+
			" name, or take the label off.",
			"configured", r.Host, "labelled", other)
		return nil, nil
	}
	return &clusterv1alpha1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Name: r.Host},
		Spec: clusterv1alpha1.ClusterSpec{
			Enable:     true,
			Connection: clusterv1alpha1.Connection{Type: clusterv1alpha1.ConnectionDirect},
		},
	}, nil
}

// observe writes what it observes into s. Fields that others write stay.
func (r *Reconciler) observe(ctx context.Context, s *clusterv1alpha1.ClusterStatus) error {
	system := metadata("Namespace")
	if err := r.Client.Get(ctx, types.NamespacedName{Name: metav1.NamespaceSystem}, system); err != nil {
		return fmt.Errorf("read the identity of the cluster: %w", err)
	}
	nodes := &metav1.PartialObjectMetadataList{}
	nodes.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NodeList"))
	if err := r.Client.List(ctx, nodes, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("count the nodes: %w", err)
	}
	version, err := r.KubernetesVersion()
	if err != nil {
		return fmt.Errorf("ask kube-apiserver for its version: %w", err)
	}
	s.UID, s.KubernetesVersion, s.KubeSphereVersion = system.UID, version, r.KubeSphereVersion
	s.Place(clusterv1alpha1.TopologyOf(func(yield func(func(string) string) bool) {
		for i := range nodes.Items {
			if !yield(func(label string) string { return nodes.Items[i].Labels[label] }) {
				return
			}
		}
	}))
	s.SetConfigz(r.Configz)
	r.ready(s)
	return nil
}

// ready sets the condition that the host accepts requests: it is this server.
func (r *Reconciler) ready(s *clusterv1alpha1.ClusterStatus) {
	if s.IsTrue(clusterv1alpha1.ClusterReady) {
		return
	}
	now := metav1.Time{Time: r.Now().UTC().Truncate(time.Second)}
	c := clusterv1alpha1.ClusterCondition{
		Type: clusterv1alpha1.ClusterReady, Status: corev1.ConditionTrue, LastUpdateTime: now, LastTransitionTime: now,
		Reason: "Host", Message: "The cluster that ks-apiserver runs in.",
	}
	if is := s.Condition(clusterv1alpha1.ClusterReady); is != nil {
		*is = c
	} else {
		s.Conditions = append(s.Conditions, c)
	}
}

func metadata(kind string) *metav1.PartialObjectMetadata {
	o := &metav1.PartialObjectMetadata{}
	o.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
	return o
}
