package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/controller/retry"
)

const (
	// GrantedName is the name of the controller of the annotation with the clusters of a user.
	GrantedName = "grantedclusters"
	// subjectField is the index of ClusterRoleBindings by their subjects.
	subjectField = "kapis.dev/subject"
)

// SetupGranted adds to mgr the controller that names host, the cluster it runs in, in an annotation of the users who have a role of it.
// Pages read from it which clusters they show; it gives no right, and no right follows from it.
func SetupGranted(ctx context.Context, mgr manager.Manager, host string) error {
	r := &GrantedReconciler{Client: mgr.GetClient(), Host: host}
	if err := mgr.GetFieldIndexer().IndexField(ctx, &iamv1beta1.ClusterRoleBinding{}, subjectField, subjectsOf); err != nil {
		return fmt.Errorf("index cluster role bindings by subject: %w", err)
	}
	return builder.ControllerManagedBy(mgr).Named(GrantedName).
		For(&iamv1beta1.User{}).
		Watches(&iamv1beta1.ClusterRoleBinding{}, handler.EnqueueRequestsFromMapFunc(r.bound)).
		Complete(r)
}

// GrantedReconciler reconciles the annotation of users.
type GrantedReconciler struct {
	Client client.Client
	// Host is the name of this cluster.
	Host string
}

// Reconcile updates the annotation of one user. The names of other clusters in it are others' to write.
func (r *GrantedReconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	return retry.OnMissingKind(0, r.sync(ctx, req.NamespacedName))
}

func (r *GrantedReconciler) sync(ctx context.Context, name types.NamespacedName) error {
	u := &iamv1beta1.User{}
	if err := r.Client.Get(ctx, name, u); err != nil || !u.DeletionTimestamp.IsZero() {
		return client.IgnoreNotFound(err)
	}
	granted, err := r.granted(ctx, u)
	if err != nil {
		return err
	}
	was := u.Annotations[iamv1beta1.AnnotationGrantedClusters]
	var names []string
	for cluster := range strings.SplitSeq(was, ",") {
		if cluster = strings.TrimSpace(cluster); cluster != "" && cluster != r.Host {
			names = append(names, cluster)
		}
	}
	if granted {
		names = append(names, r.Host)
	}
	slices.Sort(names)
	is := strings.Join(slices.Compact(names), ",")
	if is == was {
		return nil
	}
	before := u.DeepCopy()
	if u.Annotations == nil {
		u.Annotations = map[string]string{}
	}
	u.Annotations[iamv1beta1.AnnotationGrantedClusters] = is
	if is == "" {
		delete(u.Annotations, iamv1beta1.AnnotationGrantedClusters)
	}
	err = r.Client.Patch(ctx, u, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("name the clusters of user %q: %w", u.Name, err)
	}
	return nil
}

// granted reports whether a binding of the cluster names the user, or a group of the user.
func (r *GrantedReconciler) granted(ctx context.Context, u *iamv1beta1.User) (bool, error) {
	subjects := []string{subject(rbacv1.UserKind, u.Name)}
	for _, g := range u.Spec.Groups {
		subjects = append(subjects, subject(rbacv1.GroupKind, g))
	}
	for _, s := range subjects {
		list := &iamv1beta1.ClusterRoleBindingList{}
		if err := r.Client.List(ctx, list, client.MatchingFields{subjectField: s}, client.UnsafeDisableDeepCopy); err != nil {
			return false, fmt.Errorf("list the cluster role bindings of user %q: %w", u.Name, err)
		}
		if len(list.Items) > 0 {
			return true, nil
		}
	}
	return false, nil
}

// bound returns the users whom a binding names, also by a group.
func (r *GrantedReconciler) bound(ctx context.Context, o client.Object) []reconcile.Request {
	var out []reconcile.Request
	groups := map[string]bool{}
	for _, s := range o.(*iamv1beta1.ClusterRoleBinding).Subjects {
		switch s.Kind {
		case rbacv1.UserKind:
			out = append(out, request(s.Name))
		case rbacv1.GroupKind:
			groups[s.Name] = true
		}
	}
	if len(groups) == 0 {
		return out
	}
	all := &iamv1beta1.UserList{}
	if err := r.Client.List(ctx, all, client.UnsafeDisableDeepCopy); err != nil {
		klog.ErrorS(err, "Can't list the users of the groups in a binding", "clusterrolebinding", o.GetName())
		return out
	}
	for i := range all.Items {
		if slices.ContainsFunc(all.Items[i].Spec.Groups, func(g string) bool { return groups[g] }) {
			out = append(out, request(all.Items[i].Name))
		}
	}
	return out
}

func request(name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Name: name}}
}

// subjectsOf is the index function of subjectField.
func subjectsOf(o client.Object) []string {
	var out []string
	for _, s := range o.(*iamv1beta1.ClusterRoleBinding).Subjects {
		if s.Kind == rbacv1.UserKind || s.Kind == rbacv1.GroupKind {
			out = append(out, subject(s.Kind, s.Name))
		}
	}
	return out
}

// subject returns the key of a subject. No kind has a colon in it, so that equal keys are of equal subjects.
func subject(kind, name string) string { return kind + ":" + name }
