package kubeconfig

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/controller/retry"
	"kapis.dev/ks-apiserver/pkg/informer"
	"kapis.dev/ks-apiserver/pkg/kubeconfig/account"
)

const (
	// TokenName is the name of the controller of tokens.
	TokenName = "kubeconfigtoken"
	// tokenSkew is how much longer a service account stays than its tokens are valid: the clocks of the replicas may differ.
	tokenSkew = 5 * time.Minute
	// cleanRetry is the pause before another attempt to remove what was left.
	cleanRetry = time.Minute
)

// TokenReconciler lets the service accounts of users (pkg/kubeconfig/account), which ks-apiserver makes as those users, impersonate them.
// It deletes a service account whose tokens have expired, and one whose user is gone or disabled, together with that right.
type TokenReconciler struct {
	// Client reads users, roles and bindings from the cache, and writes. Accounts reads service accounts from the cache.
	Client   client.Client
	Accounts client.Reader
	// Now is the clock.
	Now func() time.Time
}

// SetupTokens adds the controller of tokens to mgr.
func SetupTokens(_ context.Context, mgr manager.Manager) error {
	accounts, err := cache.New(mgr.GetConfig(), cache.Options{
		Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient(), NewInformer: informer.NewShared,
		DefaultNamespaces: map[string]cache.Config{account.Namespace: {}}, DefaultTransform: cache.TransformStripManagedFields(),
	})
	if err != nil {
		return fmt.Errorf("make a cache of users' service accounts: %w", err)
	}
	if err := mgr.Add(accounts); err != nil {
		return fmt.Errorf("follow users' service accounts: %w", err)
	}
	r := &TokenReconciler{Client: mgr.GetClient(), Accounts: accounts, Now: time.Now}
	return builder.ControllerManagedBy(mgr).Named(TokenName).
		WatchesRawSource(source.Kind(accounts, &corev1.ServiceAccount{}, &handler.TypedEnqueueRequestForObject[*corev1.ServiceAccount]{})).
		Watches(&iamv1beta1.User{}, handler.EnqueueRequestsFromMapFunc(r.ofUser)).
		WatchesRawSource(source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
			return remaining(ctx, mgr.GetAPIReader(), queue)
		})).
		Complete(r)
}

// ofUser returns the service account of a user, if there is one.
func (r *TokenReconciler) ofUser(ctx context.Context, u client.Object) []reconcile.Request {
	key := types.NamespacedName{Namespace: account.Namespace, Name: account.Name(string(u.GetUID()))}
	if err := r.Accounts.Get(ctx, key, &corev1.ServiceAccount{}); err != nil {
		return nil
	}
	return []reconcile.Request{{NamespacedName: key}}
}

// remaining enqueues the service accounts whose roles are there at the start: one may have been deleted meanwhile.
func remaining(ctx context.Context, live client.Reader, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	roles, err := grants(ctx, live, &rbacv1.ClusterRoleList{})
	if err != nil {
		return err
	}
	for _, o := range roles {
		if name := account.OfRole(o.GetName()); name != "" {
			queue.Add(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: account.Namespace, Name: name}})
		}
	}
	return nil
}

// Reconcile updates what one service account may do.
func (r *TokenReconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	uid := account.UID(req.Name)
	if req.Namespace != account.Namespace || uid == "" {
		return reconcile.Result{}, nil // such as the service account "default", which each namespace has
	}
	sa := &corev1.ServiceAccount{}
	err := r.Accounts.Get(ctx, req.NamespacedName, sa)
	var again time.Duration
	switch {
	case apierrors.IsNotFound(err) || err == nil && sa.DeletionTimestamp != nil:
		err = r.revoke(ctx, uid)
	case err == nil:
		again, err = r.sync(ctx, sa, uid)
	}
	return retry.OnConflict(again, err)
}

// sync returns when the service account has to be looked at next.
func (r *TokenReconciler) sync(ctx context.Context, sa *corev1.ServiceAccount, uid string) (time.Duration, error) {
	name := sa.Annotations[account.AnnotationUser]
	u := &iamv1beta1.User{}
	if err := client.IgnoreNotFound(r.Client.Get(ctx, types.NamespacedName{Name: name}, u)); err != nil {
		return 0, fmt.Errorf("read User %q, who has a service account: %w", name, err)
	}
	if string(u.UID) != uid || !u.DeletionTimestamp.IsZero() || u.Status.State == iamv1beta1.UserDisabled {
		// kube-apiserver takes a token for some seconds after its service account has gone, so its right goes first.
		if err := r.revoke(ctx, uid); err != nil {
			return 0, err
		}
		return 0, r.remove(ctx, sa)
	}
	expires, err := time.Parse(time.RFC3339, sa.Annotations[account.AnnotationExpires])
	left := expires.Add(tokenSkew).Sub(r.Now())
	if err != nil || left <= 0 {
		return 0, r.remove(ctx, sa) // in the version that was read: it may be used for longer just now
	}
	return left, r.grant(ctx, name, uid)
}

func (r *TokenReconciler) remove(ctx context.Context, sa *corev1.ServiceAccount) error {
	this := client.Preconditions{UID: &sa.UID, ResourceVersion: &sa.ResourceVersion}
	if err := client.IgnoreNotFound(r.Client.Delete(ctx, sa, this)); err != nil {
		return fmt.Errorf("delete ServiceAccount %s/%s: %w", sa.Namespace, sa.Name, err)
	}
	return nil
}

// grant makes the role and the binding as they have to be.
func (r *TokenReconciler) grant(ctx context.Context, user, uid string) error {
	role, binding := account.Grant(user, uid)
	is := &rbacv1.ClusterRole{}
	err := r.Client.Get(ctx, client.ObjectKeyFromObject(role), is)
	switch {
	case apierrors.IsNotFound(err):
		err = r.Client.Create(ctx, role)
	case err == nil && (!equality.Semantic.DeepEqual(is.Rules, role.Rules) || is.AggregationRule != nil ||
		is.Labels[account.LabelUser] != uid):
		role.ResourceVersion = is.ResourceVersion
		err = r.Client.Update(ctx, role)
	}
	if err != nil {
		return fmt.Errorf("let a service account impersonate User %q: %w", user, err)
	}
	bound := &rbacv1.ClusterRoleBinding{}
	err = r.Client.Get(ctx, client.ObjectKeyFromObject(binding), bound)
	switch {
	case apierrors.IsNotFound(err):
		err = r.Client.Create(ctx, binding)
	case err == nil && bound.RoleRef != binding.RoleRef:
		err = r.Client.Delete(ctx, bound, client.Preconditions{UID: &bound.UID})
		if client.IgnoreNotFound(err) == nil {
			err = r.Client.Create(ctx, binding)
		}
	case err == nil && (!equality.Semantic.DeepEqual(bound.Subjects, binding.Subjects) || bound.Labels[account.LabelUser] != uid):
		binding.ResourceVersion = bound.ResourceVersion
		err = r.Client.Update(ctx, binding)
	}
	if err != nil {
		return fmt.Errorf("let a service account impersonate User %q: %w", user, err)
	}
	return nil
}

// revoke deletes the role and the binding. It asks kube-apiserver even if the cache has none: they may have been made just now.
func (r *TokenReconciler) revoke(ctx context.Context, uid string) error {
	role, binding := account.Grant("", uid)
	for _, o := range []client.Object{binding, role} {
		if err := client.IgnoreNotFound(r.Client.Delete(ctx, o)); err != nil {
			return fmt.Errorf("take a service account's right to impersonate the User with the UID %s: %w", uid, err)
		}
	}
	return nil
}

// RemoveTokens adds to mgr what removes the service accounts and their rights, once: where the configuration has another mode.
func RemoveTokens(_ context.Context, mgr manager.Manager) error {
	return mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		_ = wait.PollUntilContextCancel(ctx, cleanRetry, true, func(ctx context.Context) (done bool, _ error) { // its error is the end of ctx
			err := CleanTokens(ctx, mgr.GetAPIReader(), mgr.GetClient())
			if err != nil && ctx.Err() == nil {
				klog.ErrorS(err, "Tokens of users' former kubeconfigs may be left over; this is tried again", "after", cleanRetry)
			}
			return err == nil, nil
		})
		return nil
	}))
}

// CleanTokens deletes the service accounts of users, and their rights first. live lists them.
func CleanTokens(ctx context.Context, live client.Reader, write client.Writer) error {
	var errs []error
	for _, kind := range []client.ObjectList{&rbacv1.ClusterRoleBindingList{}, &rbacv1.ClusterRoleList{}, &corev1.ServiceAccountList{}} {
		found, err := grants(ctx, live, kind)
		errs = append(errs, err)
		for _, o := range found {
			if account.OfRole(o.GetName()) == "" && (o.GetNamespace() != account.Namespace || account.UID(o.GetName()) == "") {
				continue // somebody else's, who has used our label
			}
			this := o.GetUID()
			if err := client.IgnoreNotFound(write.Delete(ctx, o, client.Preconditions{UID: &this})); err != nil {
				errs = append(errs, fmt.Errorf("delete %s: %w", o.GetName(), err))
			}
		}
	}
	return errors.Join(errs...)
}

// grants lists the objects of a kind that have the label of a user's UID.
func grants(ctx context.Context, live client.Reader, list client.ObjectList) ([]client.Object, error) {
	options := []client.ListOption{client.HasLabels{account.LabelUser}}
	if _, ok := list.(*corev1.ServiceAccountList); ok {
		options = append(options, client.InNamespace(account.Namespace))
	}
	if err := live.List(ctx, list, options...); err != nil {
		return nil, fmt.Errorf("list what users' kubeconfigs need: %w", err)
	}
	items, err := meta.ExtractList(list)
	if err != nil {
		return nil, fmt.Errorf("list what users' kubeconfigs need: %w", err)
	}
	out := make([]client.Object, 0, len(items))
	for _, item := range items {
		if o, ok := item.(client.Object); ok {
			out = append(out, o)
		}
	}
	return out, nil
}
