package installplan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/controller/grant"
	"kapis.dev/ks-apiserver/pkg/extension/permission"
	"kapis.dev/ks-apiserver/pkg/helm"
)

// labelInstaller marks the roles and bindings of installers, with the extension as the value.
const labelInstaller = "kapis.dev/installer"

// installer returns the user that the releases of an extension are applied as, and the group that its rights are bound to. Nobody is in the
// group but for an operation. The user is no service account: this program may impersonate none, since kube-apiserver lets nobody be one in
// a group of choice without letting them be anybody in any group (docs/threat-model.md).
func installer(extension string) (user string, groups []string) {
	return "kapis:installer:" + extension, []string{installerGroup(extension)}
}

func installerAccount(extension string) string { return "helm-executor." + extension }
func installerGroup(extension string) string   { return v1alpha1.InstallerGroupPrefix + extension }
func installerRole(extension string) string    { return "kubesphere:" + extension + ":helm-executor" }
func hookRole(extension string) string         { return "kubesphere:" + extension + ":helm-executor-hook" }

// objectsOf returns the objects of a release as kube-apiserver authorizes them, with those of hooks apart. Kinds that the chart itself
// defines count; objects of a kind that there is not are unknown.
func objectsOf(mapper meta.RESTMapper, namespace string, of []helm.Object) (
	objects, hooks []permission.Object, unknown []string, err error) {
	defined := map[schema.GroupKind]*helm.Definition{}
	for i := range of {
		if d := of[i].Defines; d != nil {
			defined[schema.GroupKind{Group: d.Group, Kind: d.Kind}] = d
		}
	}
	for i := range of {
		o := &of[i]
		gvk := schema.FromAPIVersionAndKind(o.APIVersion, o.Kind)
		p := permission.Object{Group: gvk.Group, Name: o.Name, Gives: o.Gives, Aggregates: o.Aggregates, Binds: o.Binds}
		var namespaced bool
		mapping, err := mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
		switch d := defined[gvk.GroupKind()]; {
		case err == nil:
			p.Resource, namespaced = mapping.Resource.Resource, mapping.Scope.Name() == meta.RESTScopeNameNamespace
		case d != nil:
			p.Resource, namespaced = d.Resource, d.Namespaced
		case meta.IsNoMatchError(err):
			unknown = append(unknown, fmt.Sprintf("%s %q of %s", o.Kind, o.Name, o.APIVersion))
			continue
		default:
			return nil, nil, nil, fmt.Errorf("look up the kind %s of %s: %w", o.Kind, o.APIVersion, err)
		}
		if namespaced {
			p.Namespace = cmp.Or(o.Namespace, namespace)
		}
		if o.Hook {
			hooks = append(hooks, p)
		} else {
			objects = append(objects, p)
		}
	}
	return objects, hooks, unknown, nil
}

// grant gives the installer of an extension rights, until they are revoked, and returns which.
func (r *Reconciler) grant(ctx context.Context, extension string, rights permission.Rights) (permission.Rights, error) {
	group := rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: installerGroup(extension)}
	return r.give(ctx, extension, installerRole(extension), group, rights)
}

// give gives somebody rights for an operation on an extension, by roles of a name, until they are revoked, and returns which: those in a
// namespace that is gone, or going, are left out.
func (r *Reconciler) give(ctx context.Context, extension, name string, to rbacv1.Subject, rights permission.Rights) (
	permission.Rights, error) {
	given := permission.Rights{}
	meta := metav1.ObjectMeta{Name: name, Labels: map[string]string{labelInstaller: extension}}
	subjects := []rbacv1.Subject{to}
	for _, namespace := range slices.Sorted(maps.Keys(rights)) {
		meta.Namespace = namespace
		rules, ref := rights[namespace], rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name}
		objects := []client.Object{&rbacv1.Role{ObjectMeta: meta, Rules: rules},
			&rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects}}
		if namespace == "" {
			ref.Kind = "ClusterRole"
			objects = []client.Object{&rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules},
				&rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects}}
		}
		// What is there is an older operation's: its rights are not what this one needs, and a binding can't be changed.
		err := errors.Join(grant.Replace(ctx, r.Client, objects[0]), grant.Replace(ctx, r.Client, objects[1]))
		if namespace != "" && (apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("give the installer of %s its rights in %q: %w", extension, namespace, err)
		}
		given[namespace] = rules
	}
	return given, nil
}

// awaitRights waits until kube-apiserver knows the rights of an installer.
func (r *Reconciler) awaitRights(ctx context.Context, extension string, rights permission.Rights) error {
	user, groups := installer(extension)
	for _, at := range slices.Sorted(maps.Keys(rights)) {
		if err := r.May.Await(ctx, user, groups, at, rights[at]); err != nil {
			return fmt.Errorf("wait until kube-apiserver knows the rights of the installer of %s in %q: %w", extension, at, err)
		}
	}
	return nil
}

// revoke takes the rights of an installer away, wherever it has some.
func (r *Reconciler) revoke(ctx context.Context, extension string) error {
	var failed []error
	labelled := client.MatchingLabels{labelInstaller: extension}
	lists := []client.ObjectList{&rbacv1.ClusterRoleBindingList{}, &rbacv1.RoleBindingList{}, &rbacv1.ClusterRoleList{}, &rbacv1.RoleList{}}
	for _, list := range lists {
		if err := r.Live.List(ctx, list, labelled); err != nil {
			failed = append(failed, err)
			continue
		}
		items, err := meta.ExtractList(list)
		if err != nil {
			return err
		}
		for _, item := range items {
			o, ok := item.(client.Object)
			if !ok || o.GetName() != installerRole(extension) && o.GetName() != hookRole(extension) {
				continue
			}
			if err := r.Client.Delete(ctx, o); client.IgnoreNotFound(err) != nil {
				failed = append(failed, err)
			}
		}
	}
	if err := errors.Join(failed...); err != nil {
		return fmt.Errorf("take the rights of the installer of %s away: %w", extension, err)
	}
	return nil
}
