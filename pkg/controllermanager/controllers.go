package controllermanager

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	kubespherev1alpha1 "kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	quotav1alpha2 "kapis.dev/ks-apiserver/pkg/api/quota/v1alpha2"
	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
	"kapis.dev/ks-apiserver/pkg/controller/cluster"
	"kapis.dev/ks-apiserver/pkg/controller/group"
	"kapis.dev/ks-apiserver/pkg/controller/jobrevision"
	"kapis.dev/ks-apiserver/pkg/controller/ksserviceaccount"
	"kapis.dev/ks-apiserver/pkg/controller/loginrecord"
	"kapis.dev/ks-apiserver/pkg/controller/mirror"
	"kapis.dev/ks-apiserver/pkg/controller/namespace"
	"kapis.dev/ks-apiserver/pkg/controller/resourcequota"
	"kapis.dev/ks-apiserver/pkg/controller/role"
	"kapis.dev/ks-apiserver/pkg/controller/serviceaccount"
	"kapis.dev/ks-apiserver/pkg/controller/storageclass"
	"kapis.dev/ks-apiserver/pkg/controller/terminal"
	"kapis.dev/ks-apiserver/pkg/controller/user"
	"kapis.dev/ks-apiserver/pkg/controller/workspace"
	"kapis.dev/ks-apiserver/pkg/controller/workspacetemplate"
	"kapis.dev/ks-apiserver/pkg/version"
)

// controller is one entry of the list.
type controller struct {
	name string
	// needs are the kinds without which the controller can't work. It waits for those that the cluster does not have.
	needs []schema.GroupVersionKind
	// setup adds the controller to the manager, which may be running.
	setup func(ctx context.Context, mgr manager.Manager) error
}

// configured is what controllers have of the configuration.
type configured struct {
	// unlock is how long a user whose status says so is locked out; retention and most bound the records of logins.
	unlock, retention time.Duration
	most              int
	// configz is which optional parts of this cluster are on.
	configz map[string]bool
}

// controllers returns the list. host is the name of the host's Cluster, "" on a member.
func controllers(w *mirror.Writer, lag *mirror.Lag, host string, l configured) []controller {
	list := []controller{
		{user.Name, iam("User", "GlobalRoleBinding"), func(ctx context.Context,
			mgr manager.Manager) error {
			return user.Setup(ctx, mgr, l.unlock)
		}},
		{loginrecord.Name, iam("User", "LoginRecord"), func(ctx context.Context, mgr manager.Manager) error {
			return loginrecord.Setup(ctx, mgr, l.retention, l.most)
		}},
	}
	for _, kind := range role.Kinds() {
		list = append(list, controller{kind.Controller(), iam(kind.Name, kind.Name+"Binding", "RoleTemplate"), func(ctx context.Context,
			mgr manager.Manager) error {
			return mirror.Setup(ctx, mgr, kind, w, lag)
		}})
	}
	list = append(list, []controller{
		{workspace.Name, append(tenant("Workspace"), iam("BuiltinRole", "RoleTemplate", "User", "WorkspaceRole", "WorkspaceRoleBinding")...),
			workspace.Setup},
		{namespace.Name, append(tenant("Workspace"), iam("BuiltinRole", "Role", "RoleBinding", "RoleTemplate", "User")...), namespace.Setup},
		{group.Name, iam("ClusterRoleBinding", "GlobalRoleBinding", "Group", "GroupBinding", "RoleBinding", "User", "WorkspaceRoleBinding"),
			group.Setup},
		{resourcequota.Name, []schema.GroupVersionKind{quotav1alpha2.SchemeGroupVersion.WithKind("ResourceQuota")}, resourcequota.Setup},
		{ksserviceaccount.Name, []schema.GroupVersionKind{kubespherev1alpha1.SchemeGroupVersion.WithKind("ServiceAccount")},
			ksserviceaccount.Setup},
		{serviceaccount.Name, iam("RoleBinding"), func(ctx context.Context, mgr manager.Manager) error {
			return serviceaccount.Setup(ctx, mgr, ofServiceAccounts())
		}},
		{jobrevision.Name, []schema.GroupVersionKind{batchv1.SchemeGroupVersion.WithKind("Job")}, jobrevision.Setup},
		{storageclass.Name, []schema.GroupVersionKind{storagev1.SchemeGroupVersion.WithKind("StorageClass")}, storageclass.Setup},
		{terminal.Name, iam("User"), terminal.Setup},
	}...)
	if host != "" {
		list = append(list, controller{workspacetemplate.Name, append(tenant("Workspace", "WorkspaceTemplate"),
			clusterv1alpha1.SchemeGroupVersion.WithKind("Cluster")),
			func(ctx context.Context, mgr manager.Manager) error {
				return workspacetemplate.Setup(ctx, mgr, host, workspace.DeleteHeld)
			}})
		list = append(list, controller{workspace.UnplacedName, append(tenant("Workspace", "WorkspaceTemplate"),
			iam("BuiltinRole", "RoleTemplate", "User", "WorkspaceRole", "WorkspaceRoleBinding")...), workspace.SetupUnplaced})
		list = append(list, controller{cluster.Name, []schema.GroupVersionKind{clusterv1alpha1.SchemeGroupVersion.WithKind("Cluster")},
			func(ctx context.Context, mgr manager.Manager) error {
				return cluster.Setup(ctx, mgr, host, version.Get().GitVersion, l.configz)
			}})
		list = append(list, controller{cluster.LabelName, []schema.GroupVersionKind{clusterv1alpha1.SchemeGroupVersion.WithKind("Cluster"),
			clusterv1alpha1.SchemeGroupVersion.WithKind("Label")}, cluster.SetupLabels})
		list = append(list, controller{cluster.GrantedName, iam("ClusterRoleBinding", "User"), func(ctx context.Context, mgr manager.Manager) error {
			return cluster.SetupGranted(ctx, mgr, host)
		}})
	}
	return list
}

func iam(kinds ...string) []schema.GroupVersionKind {
	out := make([]schema.GroupVersionKind, len(kinds))
	for i, kind := range kinds {
		out[i] = iamv1beta1.SchemeGroupVersion.WithKind(kind)
	}
	return out
}

func tenant(kinds ...string) []schema.GroupVersionKind {
	out := make([]schema.GroupVersionKind, len(kinds))
	for i, kind := range kinds {
		out[i] = tenantv1beta1.SchemeGroupVersion.WithKind(kind)
	}
	return out
}

// choose returns the controllers that the patterns select: a name, "*" for all, "-name" for all but that one. No
// pattern selects all. A pattern with a minus takes precedence.
func choose(list []controller, patterns []string) ([]controller, error) {
	names := make([]string, len(list))
	for i, c := range list {
		names[i] = c.name
	}
	all := len(patterns) == 0
	for _, p := range patterns {
		switch name := strings.TrimPrefix(p, "-"); {
		case p == "*":
			all = true
		case !slices.Contains(names, name):
			return nil, fmt.Errorf("--controllers: there is no controller %q; there are %s", name, strings.Join(names, ", "))
		}
	}
	var out []controller
	for _, c := range list {
		if !slices.Contains(patterns, "-"+c.name) && (all || slices.Contains(patterns, c.name)) {
			out = append(out, c)
		}
	}
	return out, nil
}

// has reports whether a list has a controller of that name.
func has(list []controller, name string) bool {
	return slices.ContainsFunc(list, func(c controller) bool { return c.name == name })
}
