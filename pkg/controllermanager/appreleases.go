package controllermanager

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	"kapis.dev/ks-apiserver/pkg/appstore/file"
	"kapis.dev/ks-apiserver/pkg/appstore/release"
	"kapis.dev/ks-apiserver/pkg/chart/source"
	"kapis.dev/ks-apiserver/pkg/config"
	"kapis.dev/ks-apiserver/pkg/controller/apprelease"
	"kapis.dev/ks-apiserver/pkg/helm"
)

// applicationReleases returns the controller of what is installed from the application store, which the host of a fleet has.
func applicationReleases(cfg *config.Config, executor *helm.Executor) []controller {
	name := host(cfg)
	if name == "" {
		return nil
	}
	needs := append(iam("User", "Role", "RoleBinding", "WorkspaceRole", "WorkspaceRoleBinding", "GlobalRole", "GlobalRoleBinding"),
		ofStore("ApplicationRelease", "ApplicationVersion")...)
	return []controller{{apprelease.Name, needs, func(ctx context.Context, mgr manager.Manager) error {
		kube, err := kubernetes.NewForConfig(mgr.GetConfig())
		if err != nil {
			return err
		}
		files, err := openFiles(cfg, kube)
		if err != nil {
			return err
		}
		repos := source.NewPackages(chartSource(cfg), source.Kube{Client: kube}, time.Now)
		return apprelease.Setup(ctx, mgr, apprelease.Options{
			Host: name, Helm: executor, Packages: &packages{files: files, repos: repos},
		})
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

// packages reads the package of a version: its file, or what the repository has that it is from.
type packages struct {
	files file.Store
	repos *source.Packages
}

// Load implements apprelease.Packages.
func (p *packages) Load(ctx context.Context, v *v2.ApplicationVersion) ([]byte, error) {
	raw, err := p.files.Get(ctx, v.Name)
	switch {
	case err != nil && v.Spec.PullURL != "": // also where files are away, which it has none of
		return p.repos.Get(ctx, v)
	case err != nil:
		return nil, err
	case v.Spec.Digest != "" && !source.IsOf(raw, v.Spec.Digest):
		return nil, release.Invalidf("the package of the version is not the one that was reviewed: its digest is another one")
	}
	return raw, nil
}
