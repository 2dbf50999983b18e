package group

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/controller/enqueue"
	"kapis.dev/ks-apiserver/pkg/controller/retry"
)

const (
	// memberName is the name of the controller of users' groups.
	memberName = "groupbinding"
	// most is the maximum number of groups in a user's spec.
	most = 1024
)

func setupMembers(mgr manager.Manager) error {
	r := &Members{Client: mgr.GetClient()}
	return builder.ControllerManagedBy(mgr).Named(memberName).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		For(&iamv1beta1.User{}).
		Watches(&iamv1beta1.GroupBinding{}, handler.EnqueueRequestsFromMapFunc(toUsers), builder.WithPredicates(enqueue.AfterStart())).
		Watches(&iamv1beta1.Group{}, handler.EnqueueRequestsFromMapFunc(r.inGroup),
			builder.WithPredicates(enqueue.AfterStart(), enqueue.OnCreationOrDeletion())).
		Complete(r)
}

// Members writes the groups of GroupBindings into users.
type Members struct {
	// Client reads from the cache and writes.
	Client client.Client
}

// Reconcile updates the groups of one user.
func (r *Members) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	u := &iamv1beta1.User{}
	if err := r.Client.Get(ctx, req.NamespacedName, u); err != nil || !u.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	want, err := r.wanted(ctx, u.Name)
	if err != nil {
		return reconcile.Result{}, err
	}
	before := u.DeepCopy()
	if !apply(u, want) {
		return reconcile.Result{}, nil
	}
	err = r.Client.Patch(ctx, u, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return retry.OnConflict(0, fmt.Errorf("write the groups of user %q: %w", u.Name, err))
	}
	return reconcile.Result{}, nil
}

// wanted returns the groups that bindings give to the user, sorted: those that exist and that are not reserved.
func (r *Members) wanted(ctx context.Context, user string) ([]string, error) {
	list := &iamv1beta1.GroupBindingList{}
	if err := r.Client.List(ctx, list, client.MatchingFields{userField: user}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list the groups of user %q: %w", user, err)
	}
	var out []string
	for i := range list.Items {
		b := &list.Items[i]
		name := b.GroupRef.Name
		if !b.DeletionTimestamp.IsZero() || reserved(name) || slices.Contains(out, name) ||
			b.GroupRef.Kind != "" && b.GroupRef.Kind != "Group" {
			continue
		}
		g := &iamv1beta1.Group{}
		err := r.Client.Get(ctx, types.NamespacedName{Name: name}, g)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("read group %q: %w", name, err)
		}
		if err == nil && g.DeletionTimestamp.IsZero() {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out[:min(len(out), most)], nil
}

// reserved reports whether a group can't be given to users: it is a system group, or its name is empty.
func reserved(group string) bool {
	return group == "" || strings.HasPrefix(group, "system:") || strings.HasPrefix(group, iamv1beta1.SyntheticGroupPrefix)
}

// apply adds the user to the groups, and removes it from those that only earlier bindings gave. It reports whether it changed anything.
func apply(u *iamv1beta1.User, want []string) bool {
	text := u.Annotations[iamv1beta1.AnnotationBoundGroups]
	var had []string
	if text != "" {
		had = strings.Split(text, ",")
	}
	groups := slices.DeleteFunc(slices.Clone(u.Spec.Groups), func(g string) bool {
		return slices.Contains(had, g) && !slices.Contains(want, g)
	})
	for _, g := range want {
		if !slices.Contains(groups, g) {
			groups = append(groups, g)
		}
	}
	next := strings.Join(want, ",") // wanted returns names of existing Groups, and no object has a comma in its name
	if next == text && slices.Equal(groups, u.Spec.Groups) {
		return false
	}
	u.Spec.Groups = groups
	if next == "" {
		delete(u.Annotations, iamv1beta1.AnnotationBoundGroups)
		return true
	}
	if u.Annotations == nil {
		u.Annotations = map[string]string{}
	}
	u.Annotations[iamv1beta1.AnnotationBoundGroups] = next
	return true
}

// toUsers returns the users of a binding.
func toUsers(_ context.Context, o client.Object) []reconcile.Request {
	var out []reconcile.Request
	for _, name := range boundUsers(o) {
		out = append(out, reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
	}
	return out
}

// inGroup returns the users whom bindings add to a group.
func (r *Members) inGroup(ctx context.Context, group client.Object) []reconcile.Request {
	list := &iamv1beta1.GroupBindingList{}
	if err := r.Client.List(ctx, list, client.MatchingFields{boundField: group.GetName()}, client.UnsafeDisableDeepCopy); err != nil {
		klog.ErrorS(err, "Can't list the users of a group", "group", group.GetName())
		return nil
	}
	var out []reconcile.Request
	for i := range list.Items {
		out = append(out, toUsers(ctx, &list.Items[i])...)
	}
	return out
}
