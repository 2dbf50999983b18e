// Package installer is the user that releases of an extension are applied as, which has rights during an operation alone.
package installer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/controller/grant"
	"kapis.dev/ks-apiserver/pkg/extension/permission"
)

// Label marks the roles and bindings of installers, with the extension as the value.
const Label = "kapis.dev/installer"

// User returns the user that the releases of an extension are applied as, and the group that its rights are bound to. Nobody is in the
// group but for an operation. The user is no service account: this program may impersonate none, since kube-apiserver lets nobody be one in
// a group of choice without letting them be anybody in any group (docs/threat-model.md).
func User(extension string) (user string, groups []string) {
	return "kapis:installer:" + extension, []string{group(extension)}
}

// Account returns the name of the service account that hook images of an extension run as.
func Account(extension string) string { return "helm-executor." + extension }

func group(extension string) string    { return v1alpha1.InstallerGroupPrefix + extension }
func role(extension string) string     { return "kubesphere:" + extension + ":helm-executor" }
func hookRole(extension string) string { return "kubesphere:" + extension + ":helm-executor-hook" }

// May says what users may do at kube-apiserver.
type May = grant.May

// Installers gives installers rights, and takes them away.
type Installers struct {
	Client client.Client
	// Live reads without the cache.
	Live client.Reader
	// May is nil for kube-apiserver's own answer.
	May May
	// Revoked are the extensions whose installers have no rights left from an operation that was interrupted, by their names.
	Revoked *sync.Map
}

// While does something while the installer of an extension has rights.
func (i Installers) While(ctx context.Context, extension string, rights permission.Rights, do func() error) error {
	defer func() {
		err := grant.TakeBack(ctx, func(ctx context.Context) error { return i.revoke(ctx, extension) })
		if err != nil {
			klog.ErrorS(err, "rights of an installer are left; they are taken away before its next operation")
			i.Revoked.Delete(extension)
		}
	}()
	to := rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: group(extension)}
	given, err := i.give(ctx, extension, role(extension), to, rights)
	if err != nil {
		return err
	}
	may := i.May
	if may == nil {
		may = grant.Reviewed(i.Client)
	}
	user, groups := User(extension)
	for _, at := range slices.Sorted(maps.Keys(given)) {
		if err := may.Await(ctx, user, groups, at, given[at]); err != nil {
			return fmt.Errorf("wait until kube-apiserver knows the rights of the installer of %s in %q: %w", extension, at, err)
		}
	}
	return do()
}

// GiveHook gives the service account that hook images of an extension run as rights. It is called within While, after which they are
// taken away, too.
func (i Installers) GiveHook(ctx context.Context, extension, namespace string, rights permission.Rights) error {
	to := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: Account(extension)}
	_, err := i.give(ctx, extension, hookRole(extension), to, rights)
	return err
}

// CreateAccount creates the service account that hook images of an extension run as, if it is not there.
func (i Installers) CreateAccount(ctx context.Context, extension, namespace string) error {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: Account(extension),
		Labels: map[string]string{v1alpha1.LabelExtension: extension}}}
	if err := i.Client.Create(ctx, account); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create the service account of the installer of %s: %w", extension, err)
	}
	return nil
}

// RevokeLeftovers takes away, once after the start, what an interrupted operation left.
func (i Installers) RevokeLeftovers(ctx context.Context, extension string) error {
	if _, done := i.Revoked.Load(extension); done {
		return nil
	}
	if err := i.revoke(ctx, extension); err != nil {
		return err
	}
	i.Revoked.Store(extension, true)
	return nil
}

// give gives somebody rights, by roles of a name, and returns which: those in a namespace that is gone, or going, are left out.
func (i Installers) give(ctx context.Context, extension, name string, to rbacv1.Subject, rights permission.Rights) (
	permission.Rights, error) {
	given := permission.Rights{}
	for _, namespace := range slices.Sorted(maps.Keys(rights)) {
		of := metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{Label: extension}}
		switch is, err := grant.Give(ctx, i.Client, of, rights[namespace], to); {
		case err != nil:
			return nil, fmt.Errorf("give the installer of %s its rights in %q: %w", extension, namespace, err)
		case is:
			given[namespace] = rights[namespace]
		}
	}
	return given, nil
}

// revoke takes the rights of an installer away, wherever it has some.
func (i Installers) revoke(ctx context.Context, extension string) error {
	var failed []error
	lists := []client.ObjectList{&rbacv1.ClusterRoleBindingList{}, &rbacv1.RoleBindingList{}, &rbacv1.ClusterRoleList{}, &rbacv1.RoleList{}}
	for _, list := range lists {
		if err := i.Live.List(ctx, list, client.MatchingLabels{Label: extension}); err != nil {
			failed = append(failed, err)
			continue
		}
		items, err := meta.ExtractList(list)
		if err != nil {
			return err
		}
		for _, item := range items {
			o, ok := item.(client.Object)
			if !ok || o.GetName() != role(extension) && o.GetName() != hookRole(extension) {
				continue
			}
			if err := i.Client.Delete(ctx, o); client.IgnoreNotFound(err) != nil {
				failed = append(failed, err)
			}
		}
	}
	if err := errors.Join(failed...); err != nil {
		return fmt.Errorf("take the rights of the installer of %s away: %w", extension, err)
	}
	return nil
}
