package controllermanager

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	applicationv2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	"kapis.dev/ks-apiserver/pkg/appstore/file"
	"kapis.dev/ks-apiserver/pkg/config"
	"kapis.dev/ks-apiserver/pkg/controller/application"
)

// appStore returns the controllers of applications, their versions and categories, which the host of a fleet has.
func appStore(cfg *config.Config) []controller {
	if host(cfg) == "" {
		return nil
	}
	kinds := func(names ...string) []schema.GroupVersionKind {
		out := make([]schema.GroupVersionKind, len(names))
		for i, name := range names {
			out[i] = applicationv2.SchemeGroupVersion.WithKind(name)
		}
		return out
	}
	withFiles := func(setup func(context.Context, manager.Manager, *file.Files) error) func(context.Context, manager.Manager) error {
		return func(ctx context.Context, mgr manager.Manager) error {
			kube, err := kubernetes.NewForConfig(mgr.GetConfig())
			if err != nil {
				return err
			}
			files, err := openFiles(cfg, kube)
			if err != nil {
				return err
			}
			return setup(ctx, mgr, files)
		}
	}
	return []controller{
		{application.Name, kinds("Application", "ApplicationVersion", "Category"), application.Setup},
		{application.VersionName, kinds("Application", "ApplicationVersion"), withFiles(application.SetupVersions)},
		{application.AttachmentName, kinds("Application"), withFiles(application.SetupAttachments)},
		{application.CategoryName, kinds("Application", "Category"), application.SetupCategories},
	}
}

// openFiles returns the store of the files of the application store: a bucket, or ConfigMaps.
func openFiles(cfg *config.Config, kube kubernetes.Interface) (*file.Files, error) {
	s := &cfg.S3
	host, tls := s.Address()
	return file.Open(kube.CoreV1(), file.Options{OldOnly: !s.NewFiles, Bucket: file.BucketOptions{Host: host, Plain: !tls,
		Region: s.Region, Name: s.Bucket, HostStyle: !s.ForcePathStyle, KeyID: s.AccessKeyID, Key: string(s.SecretAccessKey),
		Token: string(s.SessionToken), AuthorityFile: s.CertificateAuthority}})
}
