package extensionrelease

import (
	"context"
	"fmt"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
)

// workloadKinds are the kinds that run what an extension consists of.
var workloadKinds = []string{"Deployment", "StatefulSet", "DaemonSet"}

// Workloads returns a cache of the workloads of extensions alone: those with the label that the installer sets.
func Workloads(mgr manager.Manager) (cache.Cache, error) {
	ofExtension, err := labels.NewRequirement(v1alpha1.LabelExtension, selection.Exists, nil)
	if err != nil {
		return nil, fmt.Errorf("select the workloads of extensions: %w", err)
	}
	c, err := cache.New(mgr.GetConfig(), cache.Options{
		Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient(),
		DefaultLabelSelector: labels.NewSelector().Add(*ofExtension), DefaultTransform: stateAlone,
	})
	if err != nil {
		return nil, fmt.Errorf("make a cache of the workloads of extensions: %w", err)
	}
	if err := mgr.Add(c); err != nil {
		return nil, fmt.Errorf("follow the workloads of extensions: %w", err)
	}
	return c, nil
}

// WatchWorkloads lets b follow the workloads of extensions.
func WatchWorkloads(b *builder.Builder, from cache.Cache, enqueue handler.EventHandler) {
	for _, kind := range workloadKinds {
		o := &unstructured.Unstructured{}
		o.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind(kind))
		b.WatchesRawSource(source.Kind[client.Object](from, o, enqueue))
	}
}

// stateAlone leaves out of a workload what its state does not depend on.
func stateAlone(o any) (any, error) {
	if u, ok := o.(*unstructured.Unstructured); ok {
		u.SetManagedFields(nil)
		u.SetAnnotations(nil)
		unstructured.RemoveNestedField(u.Object, "spec", "template")
		unstructured.RemoveNestedField(u.Object, "spec", "volumeClaimTemplates")
	}
	return o, nil
}

// Readiness is whether what an extension runs is ready, and why.
type Readiness struct {
	Ready           bool
	Reason, Message string
}

// Readiness returns whether the workloads of an extension are ready: those in the namespace of its release. Elsewhere anybody may set the
// label. From has workloads.
func (r Records) Readiness(ctx context.Context, from client.Reader, extension, namespace string) (Readiness, error) {
	found := 0
	for _, kind := range workloadKinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind(kind + "List"))
		err := from.List(ctx, list, client.InNamespace(namespace), client.MatchingLabels{v1alpha1.LabelExtension: extension})
		if err != nil {
			return Readiness{}, fmt.Errorf("list the workloads of the extension %s: %w", extension, err)
		}
		for i := range list.Items {
			is, err := status.Compute(&list.Items[i])
			if err != nil { // an object that says nothing readable of itself
				continue
			}
			if found++; is.Status != status.CurrentStatus {
				return Readiness{Reason: string(is.Status), Message: fmt.Sprintf("%s %s: %s", kind, list.Items[i].GetName(), is.Message)}, nil
			}
		}
	}
	out := Readiness{Ready: true, Reason: "Ready", Message: "all its workloads are ready"}
	if found == 0 {
		out.Message = "it has no workloads in its namespace"
		there, err := isThere(ctx, r.Client, r.Live, namespace) // one without workloads has nothing else to tell it by
		if err != nil {
			return Readiness{}, err
		}
		if namespace != "" && !there {
			out = Readiness{Reason: "NamespaceMissing", Message: fmt.Sprintf("the namespace %s is gone, or being deleted, and with it what "+
				"was installed there: a new value of the annotation %s installs it again", namespace, v1alpha1.AnnotationRetry)}
		}
	}
	return out, nil
}

// isThere reports whether there is a namespace that is not being deleted. What the cache does not have may be new.
func isThere(ctx context.Context, cached, live client.Reader, namespace string) (bool, error) {
	key, is := client.ObjectKey{Name: namespace}, &corev1.Namespace{}
	err := cached.Get(ctx, key, is)
	if apierrors.IsNotFound(err) {
		err = live.Get(ctx, key, is)
	}
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("read the namespace %s: %w", namespace, err)
	}
	return err == nil && is.DeletionTimestamp.IsZero(), nil
}
