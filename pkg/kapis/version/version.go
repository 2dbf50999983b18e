// Package version serves /version: the build of this server, and the version of Kubernetes.
package version

import (
	restful "github.com/emicklei/go-restful/v3"
	apimachineryversion "k8s.io/apimachinery/pkg/version"

	"kapis.dev/ks-apiserver/pkg/version"
	"kapis.dev/ks-apiserver/pkg/web"
)

// Handler answers /version, which is public, and /kapis/version, which is not.
type Handler struct {
	// Kubernetes returns the version of the cluster, nil while it is not known.
	Kubernetes func() *apimachineryversion.Info
}

type answer struct {
	version.Info
	Kubernetes *apimachineryversion.Info `json:"kubernetes,omitempty"`
}

// WebServices returns the routes.
func (h Handler) WebServices() []*restful.WebService {
	var all []*restful.WebService
	for _, path := range []string{"/version", "/kapis/version"} {
		ws := new(restful.WebService).Path(path).Produces(restful.MIME_JSON)
		ws.Route(ws.GET("").To(web.Handle(h.get)).Doc("the versions of this server and of its cluster").Operation("getVersion").Writes(answer{}))
		all = append(all, ws)
	}
	return all
}

func (h Handler) get(*restful.Request) (any, error) {
	return answer{Info: version.Get(), Kubernetes: h.Kubernetes()}, nil
}
