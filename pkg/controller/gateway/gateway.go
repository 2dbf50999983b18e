// Package gateway makes what the Gateways of projects ask for: an ingress controller by templates, or a Gateway of
// gateway.networking.k8s.io. All of it is in the project, but for an IngressClass.
package gateway

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrl "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"kapis.dev/ks-apiserver/pkg/api/gateway/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/controller/retry"
	"kapis.dev/ks-apiserver/pkg/gateway"
)

// Name is the controller's name.
const Name = "gateway"

// owner is the field manager of what the controller makes.
const owner = client.FieldOwner("ks-controller-manager-gateway")

// errTaken is why an object is left as it is.
var errTaken = errors.New("it is there already, and not of this Gateway: it is not changed")

// Setup adds the controller to mgr. Of other kinds than Gateways it caches only what it made itself.
func Setup(_ context.Context, mgr manager.Manager, by gateway.Backend) error {
	own := cache.ByObject{Label: labels.SelectorFromSet(labels.Set{gateway.LabelManaged: "true"})}
	made := []client.Object{&corev1.Service{}, &appsv1.Deployment{}, &networkingv1.IngressClass{}}
	if by.ClassName != "" {
		made = []client.Object{gateway.NewClassGateway()}
	}
	byObject := make(map[client.Object]cache.ByObject, len(made))
	for _, o := range made {
		byObject[o] = own
	}
	cached, err := cache.New(mgr.GetConfig(), cache.Options{HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(),
		Mapper: mgr.GetRESTMapper(), ByObject: byObject})
	if err != nil {
		return fmt.Errorf("make a cache of what gateways consist of: %w", err)
	}
	if err := mgr.Add(cached); err != nil {
		return err
	}
	c, err := ctrl.New(Name, mgr, ctrl.Options{Reconciler: &Reconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Backend: by}})
	if err != nil {
		return err
	}
	watches := []source.Source{source.Kind[client.Object](mgr.GetCache(), &v1alpha1.Gateway{}, &handler.EnqueueRequestForObject{})}
	for _, o := range made {
		watches = append(watches, source.Kind(cached, o, handler.EnqueueRequestsFromMapFunc(gatewayOf)))
	}
	for _, w := range watches {
		if err := c.Watch(w); err != nil {
			return err
		}
	}
	return nil
}

// gatewayOf returns the Gateway that an object was made for.
func gatewayOf(_ context.Context, o client.Object) []reconcile.Request {
	namespace, ok := gateway.Project(o.GetName())
	if !ok || o.GetNamespace() != "" && o.GetNamespace() != namespace {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: namespace, Name: o.GetName()}}}
}

// Reconciler makes what one Gateway asks for.
type Reconciler struct {
	// Client writes, and reads Gateways and namespaces; Live reads at kube-apiserver what may be there already.
	Client  client.Client
	Live    client.Reader
	Backend gateway.Backend
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	g := &v1alpha1.Gateway{}
	switch err := r.Client.Get(ctx, req.NamespacedName, g); {
	case apierrors.IsNotFound(err) || err == nil && !g.DeletionTimestamp.IsZero():
		// All that is in the project goes by garbage collection.
		return reconcile.Result{}, r.deleteClass(ctx, req.NamespacedName)
	case err != nil:
		return reconcile.Result{}, err
	}
	before := g.DeepCopy()
	err := r.make(ctx, g)
	var refused apierrors.APIStatus
	switch {
	case err == nil:
		accept(g, metav1.ConditionTrue, "Made", "")
	case errors.Is(err, errTaken):
		accept(g, metav1.ConditionFalse, "Taken", err.Error())
		err = nil
	case errors.As(err, &refused) && (refused.Status().Code == 400 || refused.Status().Code == 403 || refused.Status().Code == 422):
		accept(g, metav1.ConditionFalse, "Refused", refused.Status().Message)
		if refused.Status().Code == 400 {
			err = nil // the next change of the Gateway may mend it, and nothing else
		}
	}
	if !equality.Semantic.DeepEqual(before.Status, g.Status) {
		patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		if failed := r.Client.Status().Patch(ctx, g, patch); client.IgnoreNotFound(failed) != nil {
			return retry.OnConflict(0, fmt.Errorf("write the status of Gateway %s: %w", req, failed))
		}
	}
	if err != nil {
		return retry.OnConflict(0, fmt.Errorf("make what Gateway %s asks for: %w", req, err))
	}
	return reconcile.Result{}, nil
}

func accept(g *v1alpha1.Gateway, is metav1.ConditionStatus, reason, message string) {
	condition(g, gateway.ConditionAccepted, is, reason, message)
	if is != metav1.ConditionTrue {
		condition(g, gateway.ConditionReady, metav1.ConditionFalse, reason, "")
	}
}

func condition(g *v1alpha1.Gateway, kind string, is metav1.ConditionStatus, reason, message string) {
	if len(message) > 1024 {
		message = message[:1024]
	}
	meta.SetStatusCondition(&g.Status.Conditions,
		metav1.Condition{Type: kind, Status: is, Reason: reason, Message: message, ObservedGeneration: g.Generation})
}

// make writes what a Gateway consists of, and fills in its status. A Gateway may have been written without this server's checks.
func (r *Reconciler) make(ctx context.Context, g *v1alpha1.Gateway) error {
	if err := r.Backend.Open().Check(g); err != nil {
		return err
	}
	if r.Backend.ClassName != "" {
		return r.makeByClass(ctx, g)
	}
	return r.makeByTemplate(ctx, g)
}

func (r *Reconciler) makeByTemplate(ctx context.Context, g *v1alpha1.Gateway) error {
	p := r.Backend.Template.Parts(g)
	// The Role comes before the Deployment, whose pods need it.
	for _, o := range []client.Object{p.Config, p.Account, p.Role, p.Binding, p.Service, p.Deployment} {
		if err := r.apply(ctx, g, o); err != nil {
			return err
		}
	}
	if err := r.applyClass(ctx, g, p.Class); err != nil {
		return err
	}
	g.Status.Service = p.Service.Spec.Ports
	g.Status.LoadBalancer = p.Service.Status.LoadBalancer
	if d := p.Deployment; d.Status.AvailableReplicas > 0 && d.Status.ObservedGeneration >= d.Generation {
		condition(g, gateway.ConditionReady, metav1.ConditionTrue, "Available", "")
	} else {
		condition(g, gateway.ConditionReady, metav1.ConditionFalse, "NotAvailable", "no pod of the ingress controller is available yet")
	}
	return nil
}

// apply writes an object of the project, unless one of the name is there that is not this Gateway's, and reads back what it is then.
func (r *Reconciler) apply(ctx context.Context, g *v1alpha1.Gateway, o client.Object) error {
	there := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{}}
	there.SetGroupVersionKind(o.GetObjectKind().GroupVersionKind())
	err := r.Live.Get(ctx, client.ObjectKeyFromObject(o), there)
	switch {
	case err == nil && !metav1.IsControlledBy(there, g):
		return fmt.Errorf("%s %s/%s: %w", o.GetObjectKind().GroupVersionKind().Kind, o.GetNamespace(), o.GetName(), errTaken)
	case client.IgnoreNotFound(err) != nil:
		return err
	}
	o.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(g, v1alpha1.SchemeGroupVersion.WithKind("Gateway"))})
	return r.write(ctx, o)
}

// applyClass writes the IngressClass of a project. It is deleted with the Gateway, or with the namespace.
func (r *Reconciler) applyClass(ctx context.Context, g *v1alpha1.Gateway, class *networkingv1.IngressClass) error {
	there := &networkingv1.IngressClass{}
	err := r.Live.Get(ctx, client.ObjectKeyFromObject(class), there)
	switch {
	case err == nil && !isClassOf(there, g.Namespace):
		return fmt.Errorf("IngressClass %s: %w", class.Name, errTaken)
	case client.IgnoreNotFound(err) != nil:
		return err
	case err == nil && there.Spec.Controller != class.Spec.Controller: // it can't be changed
		if err := r.Client.Delete(ctx, there, client.Preconditions{UID: new(there.UID)}); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	namespace := &corev1.Namespace{}
	if err := r.Client.Get(ctx, types.NamespacedName{Name: g.Namespace}, namespace); err != nil {
		return err
	}
	class.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "Namespace", Name: namespace.Name, UID: namespace.UID}})
	return r.write(ctx, class)
}

func isClassOf(c *networkingv1.IngressClass, namespace string) bool {
	return c.Labels[gateway.LabelManaged] == "true" && c.Labels[gateway.LabelProject] == namespace
}

// deleteClass deletes the IngressClass that was made for a Gateway that is gone.
func (r *Reconciler) deleteClass(ctx context.Context, of types.NamespacedName) error {
	if of.Name != gateway.Name(of.Namespace) || r.Backend.Template == nil {
		return nil
	}
	class := &networkingv1.IngressClass{}
	if err := r.Live.Get(ctx, types.NamespacedName{Name: of.Name}, class); err != nil || !isClassOf(class, of.Namespace) {
		return client.IgnoreNotFound(err)
	}
	return client.IgnoreNotFound(r.Client.Delete(ctx, class, client.Preconditions{UID: new(class.UID)}))
}

// write applies an object on the server's side: what others set in other fields stays, such as the ports that a Service was given.
func (r *Reconciler) write(ctx context.Context, o client.Object) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return err
	}
	u := &unstructured.Unstructured{Object: content}
	unstructured.RemoveNestedField(u.Object, "status")
	unstructured.RemoveNestedField(u.Object, "metadata", "creationTimestamp")
	unstructured.RemoveNestedField(u.Object, "spec", "template", "metadata", "creationTimestamp")
	if err := r.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), owner, client.ForceOwnership); err != nil {
		return fmt.Errorf("write %s %s/%s: %w", u.GetKind(), u.GetNamespace(), u.GetName(), err)
	}
	if into, ok := o.(*unstructured.Unstructured); ok {
		into.Object = u.Object
		return nil
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, o)
}
