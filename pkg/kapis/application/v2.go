// Package application serves application.kubesphere.io/v2, the application store: its routes are in the packages below.
package application

import (
	"context"
	"time"

	restful "github.com/emicklei/go-restful/v3"
	"k8s.io/client-go/kubernetes"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	"kapis.dev/ks-apiserver/pkg/caller"
	"kapis.dev/ks-apiserver/pkg/chart/source"
	"kapis.dev/ks-apiserver/pkg/kapis/application/app"
	"kapis.dev/ks-apiserver/pkg/kapis/application/release"
	"kapis.dev/ks-apiserver/pkg/kapis/application/repo"
	"kapis.dev/ks-apiserver/pkg/kapis/application/scope"
	"kapis.dev/ks-apiserver/pkg/resource"
)

// Options are what the store is made of.
type Options struct {
	// Resources answers reads from the caches.
	Resources *resource.Service
	// AsCaller writes as the caller.
	AsCaller caller.Client
	// Host is the name of this cluster. Fleet are the others in which applications are installed; nil for none.
	Host  string
	Fleet *release.Fleet
	// Namespaces says which workspaces namespaces are in.
	Namespaces scope.Placements
	// Client reads the credentials of repositories, as this server itself.
	Client kubernetes.Interface
	// Files keeps the files of applications.
	Files app.Files
	// Charts reads repositories.
	Charts *source.Client
}

// WebService returns the routes.
func WebService(o Options) *restful.WebService {
	ws := new(restful.WebService).Path("/kapis/" + v2.SchemeGroupVersion.String()).Produces(restful.MIME_JSON).Doc("The application store")
	store := &scope.Store{Resources: o.Resources, AsCaller: o.AsCaller, Host: o.Host, Namespaces: o.Namespaces}
	repos := repo.New(store, o.Charts, source.Kube{Client: o.Client})
	repos.Routes(ws)
	apps := app.New(store, o.Files)
	packages := source.NewPackages(o.Charts, source.Kube{Client: o.Client}, time.Now)
	apps.Fetch = func(ctx context.Context, v *v2.ApplicationVersion) ([]byte, error) {
		return repo.Package(ctx, packages, v)
	}
	apps.Routes(ws)
	(&release.Handler{Store: store, Fleet: o.Fleet}).Routes(ws)
	return ws
}
