// Package apiservice tells kube-apiserver of the aggregated API while that is served, by an APIService. One that leads nowhere would break
// discovery, and with it the deletion of every namespace, so it is deleted as soon as nothing answers (docs/aggregated.md).
package apiservice

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	queryv1alpha1 "kapis.dev/ks-apiserver/pkg/api/query/v1alpha1"
)

// Name is the name of the controller.
const Name = "apiservice"

const (
	// every is the interval at which endpoints are asked and the APIService is compared.
	every = 5 * time.Second
	// silence is how long no endpoint has to answer before the APIService is deleted, and unavailable how long kube-apiserver has to report
	// that it can't reach one.
	silence     = 30 * time.Second
	unavailable = 60 * time.Second
	// backOff is how long it is not created again after that report: endpoints answer this program, and not kube-apiserver.
	backOff = 10 * time.Minute
)

var resource = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}

// Objects reads and writes APIServices.
type Objects interface {
	Get(ctx context.Context, name string, o metav1.GetOptions, sub ...string) (*unstructured.Unstructured, error)
	Create(ctx context.Context, u *unstructured.Unstructured, o metav1.CreateOptions, sub ...string) (*unstructured.Unstructured, error)
	Update(ctx context.Context, u *unstructured.Unstructured, o metav1.UpdateOptions, sub ...string) (*unstructured.Unstructured, error)
	Delete(ctx context.Context, name string, o metav1.DeleteOptions, sub ...string) error
}

// Controller keeps the APIService.
type Controller struct {
	// Enabled is whether there should be one at all.
	Enabled bool
	Objects Objects
	Events  events.EventRecorder
	// Bundle returns the authorities of the serving certificate in PEM.
	Bundle func(ctx context.Context) ([]byte, error)
	// Answers reports whether any endpoint serves the API with a certificate of these authorities. The error says why none does.
	Answers func(ctx context.Context, bundle []byte) error
	// Now is the clock.
	Now func() time.Time

	answered time.Time // when an endpoint answered last, or when Start began
	notUntil time.Time // when the APIService may be created again
}

// Setup adds the controller to mgr.
func Setup(_ context.Context, mgr manager.Manager, enabled bool) error {
	objects, err := dynamic.NewForConfig(mgr.GetConfig())
	if err != nil {
		return fmt.Errorf("make a client of APIServices: %w", err)
	}
	client, err := kubernetes.NewForConfig(mgr.GetConfig())
	if err != nil {
		return fmt.Errorf("make a client of endpoints: %w", err)
	}
	e := &endpoints{client: client}
	return mgr.Add(&Controller{Enabled: enabled, Objects: objects.Resource(resource), Events: mgr.GetEventRecorder(Name), Bundle: e.bundle,
		Answers: e.answer, Now: time.Now})
}

// Start implements manager.Runnable. Only the leader runs it.
func (c *Controller) Start(ctx context.Context) error {
	c.answered = c.Now()
	if !c.Enabled {
		if err := c.clear(ctx); err != nil && ctx.Err() == nil {
			klog.ErrorS(err, "An APIService of the aggregated API, which is off, may be left: delete it", "name", queryv1alpha1.APIService)
		}
		return nil
	}
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if err := c.reconcile(ctx); err != nil && ctx.Err() == nil {
			klog.ErrorS(err, "The APIService of the aggregated API may not be as it should; this is tried again", "after", every)
		}
	}, every)
	return nil
}

// clear deletes the APIService, if it is this controller's.
func (c *Controller) clear(ctx context.Context) error {
	now, err := c.get(ctx)
	if err != nil || now == nil || !own(now) {
		return err
	}
	klog.InfoS("The aggregated API is off: its APIService is deleted", "name", queryv1alpha1.APIService)
	return c.remove(ctx, now)
}

// reconcile creates the APIService where an endpoint answers, updates it, or deletes it where kube-apiserver reaches none.
func (c *Controller) reconcile(ctx context.Context) error {
	now, err := c.get(ctx)
	if err != nil {
		return err
	}
	if now != nil && !own(now) {
		return fmt.Errorf("the APIService %s is not of this program (it lacks the label %s=%s), and stays as it is", queryv1alpha1.APIService,
			iamv1beta1.LabelManagedBy, iamv1beta1.ManagedByController)
	}
	bundle, silent := c.Bundle(ctx)
	if silent == nil {
		silent = c.Answers(ctx, bundle)
	}
	at := c.Now()
	if silent == nil {
		c.answered = at
	}
	switch {
	case now == nil && silent == nil && !at.Before(c.notUntil):
		klog.InfoS("The aggregated API is served: kube-apiserver is told of it", "name", queryv1alpha1.APIService)
		_, err = c.Objects.Create(ctx, desired(bundle), metav1.CreateOptions{})
		return err
	case now == nil:
		klog.V(2).InfoS("kube-apiserver is not told of the aggregated API", "notBefore", c.notUntil, "err", silent)
		return nil
	case at.Sub(c.answered) >= silence:
		c.Events.Eventf(now, nil, corev1.EventTypeWarning, "NoEndpointAnswers", "Delete", "No endpoint has answered for %v: %v", silence, silent)
		return c.remove(ctx, now)
	}
	if since, why := unavailableSince(now); !since.IsZero() && at.Sub(since) >= unavailable {
		c.notUntil = at.Add(backOff)
		c.Events.Eventf(now, nil, corev1.EventTypeWarning, "Unavailable", "Delete",
			"kube-apiserver has not reached the API for %v, as where a firewall is before port %d of the pods; it is told again after %v: %s",
			unavailable, queryv1alpha1.Port, backOff, why)
		return c.remove(ctx, now)
	}
	if silent != nil {
		return nil //nolint:nilerr // it may answer again before it has been silent for too long
	}
	return c.update(ctx, now, bundle)
}

func (c *Controller) get(ctx context.Context) (*unstructured.Unstructured, error) {
	now, err := c.Objects.Get(ctx, queryv1alpha1.APIService, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return now, err
}

func (c *Controller) remove(ctx context.Context, now *unstructured.Unstructured) error {
	uid := now.GetUID()
	err := c.Objects.Delete(ctx, now.GetName(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// update writes what has changed.
func (c *Controller) update(ctx context.Context, now *unstructured.Unstructured, bundle []byte) error {
	want, _, _ := unstructured.NestedMap(desired(bundle).Object, "spec")
	is, _, _ := unstructured.NestedMap(now.Object, "spec")
	if equal(is, want) {
		return nil
	}
	next := now.DeepCopy()
	next.Object["spec"] = want
	_, err := c.Objects.Update(ctx, next, metav1.UpdateOptions{})
	return err
}

// equal compares specs: what both have, and so not what kube-apiserver may add.
func equal(is, want map[string]any) bool {
	a, b := &unstructured.Unstructured{Object: is}, &unstructured.Unstructured{Object: want}
	for _, path := range [][]string{{"group"}, {"version"}, {"caBundle"}, {"service", "name"}, {"service", "namespace"}} {
		x, _, _ := unstructured.NestedString(a.Object, path...)
		y, _, _ := unstructured.NestedString(b.Object, path...)
		if x != y {
			return false
		}
	}
	for _, path := range [][]string{{"groupPriorityMinimum"}, {"versionPriority"}, {"service", "port"}} {
		x, _, _ := unstructured.NestedInt64(a.Object, path...)
		y, _, _ := unstructured.NestedInt64(b.Object, path...)
		if x != y {
			return false
		}
	}
	insecure, _, _ := unstructured.NestedBool(is, "insecureSkipTLSVerify")
	return !insecure
}

// desired returns the APIService. Its priorities are below those of every group that people name without its group.
func desired(bundle []byte) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": resource.GroupVersion().String(), "kind": "APIService",
		"metadata": map[string]any{"name": queryv1alpha1.APIService, "labels": map[string]any{
			iamv1beta1.LabelManagedBy: iamv1beta1.ManagedByController, "app.kubernetes.io/part-of": "ks-apiserver",
		}},
		"spec": map[string]any{
			"group": queryv1alpha1.GroupName, "version": queryv1alpha1.Version, "groupPriorityMinimum": int64(100), "versionPriority": int64(10),
			"caBundle": base64.StdEncoding.EncodeToString(bundle),
			"service": map[string]any{"namespace": queryv1alpha1.ServiceNamespace, "name": queryv1alpha1.Service,
				"port": int64(queryv1alpha1.Port)},
		},
	}}
}

func own(u *unstructured.Unstructured) bool {
	return u.GetLabels()[iamv1beta1.LabelManagedBy] == iamv1beta1.ManagedByController
}

// unavailableSince returns since when kube-apiserver does not reach the API, and its words for that; zero where it does. An APIService on
// which nothing is said yet is unavailable since it was created.
func unavailableSince(u *unstructured.Unstructured) (time.Time, string) {
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, one := range conditions {
		condition, ok := one.(map[string]any)
		if !ok || condition["type"] != "Available" {
			continue
		}
		if condition["status"] == "True" {
			return time.Time{}, ""
		}
		at, _ := condition["lastTransitionTime"].(string)
		message, _ := condition["message"].(string)
		if since, err := time.Parse(time.RFC3339, at); err == nil {
			return since, message
		}
	}
	return u.GetCreationTimestamp().Time, "it has reported nothing"
}

var errNoBundle = errors.New("no ks-apiserver has made its serving certificate yet")

// trimmed returns a bundle without what is around its certificates, and an error for none.
func trimmed(bundle []byte) ([]byte, error) {
	if bundle = bytes.TrimSpace(bundle); len(bundle) == 0 {
		return nil, errNoBundle
	}
	return append(bundle, '\n'), nil
}
