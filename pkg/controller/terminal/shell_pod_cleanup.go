// Package terminal deletes what is left of the pods of shells: that of a shell on a node is deleted by the replica of ks-apiserver which
// serves it, unless that replica is gone, and that of kubectl shells stays for a while after the last one.
package terminal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/terminal/kubectlshell"
	"kapis.dev/ks-apiserver/pkg/terminal/nodeshell"
	"kapis.dev/ks-apiserver/pkg/terminal/shellpod"
)

// Name is the controller's name.
const Name = "terminal"

// every is the interval at which the pods are looked at.
const every = 10 * time.Second

// Controller deletes the pods of shells in a namespace: those that have ended, those of users who are gone or disabled, and those whose
// Lease is not renewed. It watches the pods, and reads their Leases while there are any.
type Controller struct {
	// Namespace has the pods of one kind of shells, and no others.
	Namespace string
	// Client reads users and deletes pods, and Live reads Leases at kube-apiserver.
	Client client.Client
	Live   client.Reader
	// Pods returns the pods of the namespace, and Watch follows them until ctx ends.
	Pods  func() []*corev1.Pod
	Watch func(ctx context.Context)
	// Now is the clock.
	Now func() time.Time

	// renewals has when the last renewal of each pod's Lease was seen here: the clocks of the replicas may differ.
	renewals map[types.UID]renewal
}

// renewal is the time that a Lease has, zero for none, and when it was seen first.
type renewal struct{ time, seen time.Time }

// Setup adds the controller to mgr, once for each kind of shells.
func Setup(_ context.Context, mgr manager.Manager) error {
	api, err := kubernetes.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("make a client of pods: %w", err)
	}
	for _, namespace := range []string{nodeshell.Namespace, kubectlshell.Namespace} {
		c, err := newController(mgr, api, namespace)
		if err != nil {
			return err
		}
		if err := mgr.Add(c); err != nil {
			return err
		}
	}
	return nil
}

func newController(mgr manager.Manager, api kubernetes.Interface, namespace string) (*Controller, error) {
	watcher := cache.NewSharedIndexInformer(
		cache.NewListWatchFromClient(api.CoreV1().RESTClient(), "pods", namespace, fields.Everything()), &corev1.Pod{}, 0, cache.Indexers{})
	if err := watcher.SetWatchErrorHandlerWithContext(watchFailed(namespace)); err != nil {
		return nil, fmt.Errorf("watch the pods of shells in %s: %w", namespace, err)
	}
	pods := watcher.GetStore()
	return &Controller{
		Namespace: namespace, Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Watch: watcher.RunWithContext, Now: time.Now,
		Pods: func() []*corev1.Pod {
			known := pods.List()
			out := make([]*corev1.Pod, len(known))
			for i, o := range known {
				out[i] = o.(*corev1.Pod)
			}
			return out
		},
	}, nil
}

// watchFailed returns the handler of errors of the watch of pods. That this program may not read them is one line in its log, however often
// it is tried again: so it is after an update of the program whose roles were not updated.
func watchFailed(namespace string) cache.WatchErrorHandlerWithContext {
	var once sync.Once
	return func(ctx context.Context, r *cache.Reflector, err error) {
		if !apierrors.IsForbidden(err) {
			cache.DefaultWatchErrorHandler(ctx, r, err)
			return
		}
		once.Do(func() {
			klog.ErrorS(err, "What is left of shells is not deleted, since this program may not read their pods: apply config/rbac of this"+
				" version, as make install does; everything else works", "namespace", namespace)
		})
	}
}

// Start implements manager.Runnable. Only the leader runs it.
func (c *Controller) Start(ctx context.Context) error {
	var watching sync.WaitGroup
	watching.Go(func() { c.Watch(ctx) })
	defer watching.Wait()
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if err := c.Clean(ctx); err != nil && ctx.Err() == nil {
			klog.ErrorS(err, "Pods of shells may be left over; this is tried again", "namespace", c.Namespace, "after", every)
		}
	}, every)
	return nil
}

// Clean deletes the pods that are left over now.
func (c *Controller) Clean(ctx context.Context) error {
	pods := c.Pods()
	if len(pods) == 0 {
		c.renewals = nil
		return nil
	}
	leases := &coordinationv1.LeaseList{}
	if err := c.Live.List(ctx, leases, client.InNamespace(c.Namespace)); err != nil {
		return fmt.Errorf("list Leases of shells in %s: %w", c.Namespace, err)
	}
	renewed := map[string]time.Time{}
	for _, l := range leases.Items {
		if l.Spec.RenewTime != nil {
			renewed[l.Name] = l.Spec.RenewTime.Time
		}
	}
	var errs []error
	now, renewals := c.Now(), make(map[types.UID]renewal, len(pods))
	for _, pod := range pods {
		last, known := c.renewals[pod.UID]
		if at := renewed[pod.Name]; !known || !last.time.Equal(at) {
			last = renewal{at, now}
		}
		renewals[pod.UID] = last
		errs = append(errs, c.clean(ctx, pod, now.Sub(last.seen)))
	}
	c.renewals = renewals
	return errors.Join(errs...)
}

// clean deletes a pod that is left over. unserved is for how long no renewal of its Lease was seen.
func (c *Controller) clean(ctx context.Context, pod *corev1.Pod, unserved time.Duration) error {
	if pod.DeletionTimestamp != nil {
		return nil
	}
	var why string
	switch {
	case pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed:
		why = "it has ended"
	case unserved >= shellpod.LeaseDuration:
		why = "no server renews its Lease"
	default:
		var err error
		if why, err = c.orphaned(ctx, pod); err != nil || why == "" {
			return err
		}
	}
	klog.InfoS("The pod of a shell is deleted", "namespace", pod.Namespace, "pod", pod.Name, "node", pod.Spec.NodeName,
		"user", pod.Annotations[shellpod.AnnotationUser], "reason", why)
	this := client.Preconditions{UID: new(pod.UID)}
	if err := client.IgnoreNotFound(c.Client.Delete(ctx, pod, this)); err != nil {
		return fmt.Errorf("delete Pod %s/%s, which is left of a shell: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// orphaned returns why the user of a pod may have no shell, or "". Service accounts, whose names have a colon, are no Users: their shells
// end with the server that serves them, or with the Lease. So do those of users of the hub of whom there is no User here, as the hub keeps
// none of those whom only a group gives rights.
func (c *Controller) orphaned(ctx context.Context, pod *corev1.Pod) (why string, err error) {
	name := pod.Annotations[shellpod.AnnotationUser]
	if strings.Contains(name, ":") {
		return "", nil
	}
	u := &iamv1beta1.User{}
	if err := client.IgnoreNotFound(c.Client.Get(ctx, types.NamespacedName{Name: name}, u)); err != nil {
		return "", fmt.Errorf("read User %q, who has a shell: %w", name, err)
	}
	// In requests from the hub, a user whom it keeps here has the UID that they have there, and after a login here the one of here.
	uids := []string{string(u.UID)}
	if there := u.Annotations[iamv1beta1.AnnotationFleetUID]; there != "" && u.Labels[clusterv1alpha1.LabelFleet] != "" {
		uids = append(uids, there)
	}
	switch {
	case u.UID == "" && pod.Annotations[shellpod.AnnotationFromHub] != "":
		return "", nil
	case u.UID == "" || !slices.Contains(uids, pod.Labels[shellpod.LabelUser]) || !u.DeletionTimestamp.IsZero():
		return "its user is gone", nil
	case u.Status.State == iamv1beta1.UserDisabled:
		return "its user is disabled", nil
	}
	return "", nil
}
