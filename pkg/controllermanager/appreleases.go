package controllermanager

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/chart/source"
	"kapis.dev/ks-apiserver/pkg/cluster/releasesync"
	"kapis.dev/ks-apiserver/pkg/config"
	"kapis.dev/ks-apiserver/pkg/controller/apprelease"
	"kapis.dev/ks-apiserver/pkg/helm"
)

// applicationReleases returns the controller of what is installed from the application store. In a member of a fleet it installs what the
// hub brings, and the host's follows what members have.
func applicationReleases(cfg *config.Config, executor *helm.Executor) []controller {
	needs := append(iam("User", "Role", "RoleBinding", "WorkspaceRole", "WorkspaceRoleBinding", "GlobalRole", "GlobalRoleBinding"),
		ofStore("ApplicationRelease")...)
	name := host(cfg)
	if name != "" {
		needs = append(append(needs, ofStore("ApplicationVersion")...), clusterv1alpha1.SchemeGroupVersion.WithKind("Cluster"))
	}
	return []controller{{apprelease.Name, needs, func(ctx context.Context, mgr manager.Manager) error {
		kube, err := kubernetes.NewForConfig(mgr.GetConfig())
		if err != nil {
			return err
		}
		o := apprelease.Options{Host: name, Helm: executor}
		if name == "" {
			o.Sent = releasesync.Brought{Kube: source.Kube{Client: kube}}
			return apprelease.Setup(ctx, mgr, o)
		}
		files, err := openFiles(cfg, kube)
		if err != nil {
			return err
		}
		o.Packages = &releasesync.Packages{Files: files, Repos: source.NewPackages(chartSource(cfg), source.Kube{Client: kube}, time.Now)}
		return apprelease.Setup(ctx, mgr, o)
	}}}
}

// ofStore returns kinds of the application store.
func ofStore(kinds ...string) []schema.GroupVersionKind {
	out := make([]schema.GroupVersionKind, len(kinds))
	for i, kind := range kinds {
		out[i] = v2.SchemeGroupVersion.WithKind(kind)
	}
	return out
}
